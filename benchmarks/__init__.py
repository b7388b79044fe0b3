"""How fast each stage is, as a ratio to a straightforward reference measured in the same run."""
