"""Served rows: the table of what a model has answered, its files, and who writes and reads them."""

# Environment variable with the folder or URI that commands log to, unless they say so.
VARIABLE = "KFREC_SERVED_LOG"
