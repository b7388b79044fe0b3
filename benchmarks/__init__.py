"""Benchmarks of every stage, as a ratio to a straightforward reference measured in the same run."""
