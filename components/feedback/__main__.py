"""Joins served rows with their outcomes."""

import sys

from components.steps.command import command

sys.exit(command("feedback"))
