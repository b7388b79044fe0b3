"""Straightforward reference implementations for comparison, written for clarity, not for speed."""
