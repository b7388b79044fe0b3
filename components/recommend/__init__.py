"""Lists for every user of raw events, with a registered model or a folder of one."""
