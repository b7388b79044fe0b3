"""What one would write first: the yardsticks that kfrec is held against. Written for clarity, not for speed."""
