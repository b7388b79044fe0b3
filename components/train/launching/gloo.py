"""``python -m components.train.launching.gloo``: horovodrun for an environment whose Horovod has Gloo.

horovodrun imports TensorFlow to check whether Horovod was built with Gloo, which delays the workers by seconds. This
environment's Horovod always has Gloo; without it, the workers fail with Horovod's message.
"""

from __future__ import annotations

from horovod.runner import launch


def main() -> None:
    """Runs horovodrun with the arguments of this process."""
    launch.gloo_built = lambda verbose=False: True
    launch.run_commandline()


if __name__ == "__main__":
    main()
