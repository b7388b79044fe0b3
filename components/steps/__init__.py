"""What a step is: its parameters, its inputs and outputs, and the two ways to call it (command line and KFP)."""
