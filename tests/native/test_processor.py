import pytest
from numba import config

from components.native import processor

_HERE = processor.features()


def test_a_processor_has_what_it_has_all_of(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(config, "CPU_FEATURES", "+avx,+avx2,-avx512f")
    assert processor.features() == {"avx", "avx2"}
    assert processor.has()
    assert processor.has(*_HERE)
    assert not processor.has(*_HERE, "telepathy")
