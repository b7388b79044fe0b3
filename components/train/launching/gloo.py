"""``python -m components.train.launching.gloo``: horovodrun for an environment whose Horovod has Gloo.

horovodrun learns from the extension whether it was built with Gloo, and for that imports TensorFlow: seconds in which
no worker has started. This environment's Horovod always has Gloo; in one without, the workers fail and say so.
"""

from __future__ import annotations

from horovod.runner import launch


def main() -> None:
    """Runs horovodrun with the arguments of this process."""
    launch.gloo_built = lambda verbose=False: True
    launch.run_commandline()


if __name__ == "__main__":
    main()
