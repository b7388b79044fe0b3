"""The pages of the docs that are generated from the code; ``make reference`` writes them."""
