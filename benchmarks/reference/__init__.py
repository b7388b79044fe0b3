"""Straightforward reference implementations that kfrec is compared with, written for clarity, not for speed."""
