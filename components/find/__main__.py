import sys

from components.steps.command import command

sys.exit(command("find"))
