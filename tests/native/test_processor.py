"""What is asked about the processor, and the kernels as processors that can do less run them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from numba import config

from components.native import processor

_KERNELS = Path(__file__).parents[1] / "models" / "ops" / "host"
_OF_2013 = {"sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "avx", "avx2", "fma", "bmi", "bmi2", "lzcnt", "f16c"}
_HERE = processor.found()


def test_a_processor_has_what_it_has_all_of(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(config, "CPU_FEATURES", "+avx,+avx2,-avx512f")
    assert processor.found() == {"avx", "avx2"}
    assert processor.has()
    assert processor.has(*_HERE)
    assert not processor.has(*_HERE, "telepathy")


@pytest.mark.slow
def test_kernels_compute_the_same_on_a_processor_of_2013():
    environment = {
        **os.environ,
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": ",".join(f"+{feature}" for feature in sorted(_OF_2013 & _HERE)),
    }
    names = ("gated", "products", "rectified", "scored", "search")
    files = [str(_KERNELS / f"test_{name}.py") for name in names]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
