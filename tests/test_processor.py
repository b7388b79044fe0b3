"""What is asked about the processor, and the kernels as processors that can do less run them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from numba import config

from components import processor

_KERNELS = Path(__file__).parent / "models" / "kernels"
_OF_2013 = {"sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "avx", "avx2", "fma", "bmi", "bmi2", "lzcnt", "f16c"}
_HERE = processor.found()
_NO_MATRIX_UNIT = {feature for feature in _HERE if not feature.startswith("amx-")}


def test_a_processor_has_what_it_has_all_of(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(config, "CPU_FEATURES", "+avx,+avx2,-avx512f")
    assert processor.found() == {"avx", "avx2"}
    assert processor.has()
    assert processor.has(*_HERE)
    assert not processor.has(*_HERE, "telepathy")


@pytest.mark.parametrize("allowed", [True, False])
def test_there_is_no_matrix_unit_where_the_system_gives_none(allowed: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(config, "CPU_FEATURES", None)
    monkeypatch.setattr(processor, "get_host_cpu_features", lambda: "+amx-tile,+avx,-avx2")
    monkeypatch.setattr(processor, "_may_use_tiles", lambda: allowed)
    found = processor.found()
    assert (found, config.CPU_FEATURES) == (
        ({"amx-tile", "avx"}, None) if allowed else ({"avx"}, "-amx-tile,+avx,-avx2")
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "features", [pytest.param(_OF_2013 & _HERE, id="of_2013"), pytest.param(_NO_MATRIX_UNIT, id="without_matrix_unit")]
)
def test_kernels_compute_the_same_on_processors_that_can_do_less(features: set[str]):
    environment = {
        **os.environ,
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": ",".join(f"+{feature}" for feature in sorted(features)),
    }
    names = ("gated", "products", "rectified", "scored", "search")
    files = [str(_KERNELS / f"test_{name}.py") for name in names]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
