"""Local runs: their record, and commands that list, resume, compare and reproduce them."""
