"""Lists the items that every user of raw events would most likely choose next."""

import sys

from components.steps.command import command

sys.exit(command("recommend"))
