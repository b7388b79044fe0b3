"""Scores files of raw rows with a registered model."""

import sys

from components.steps.command import command

sys.exit(command("predict"))
