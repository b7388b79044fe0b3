"""What a model computes on a CPU in this project's own machine code, because TensorFlow's takes twice as long.

Only a process that has no GPU trains with these, and only in float32; everywhere else, and in what is exported, the
same is computed by TensorFlow's operations.
"""
