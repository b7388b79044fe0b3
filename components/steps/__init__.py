"""Definition of the steps: parameters, inputs and outputs, and the two ways to call them (command line and KFP)."""
