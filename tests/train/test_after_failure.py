"""The checkpoints that a failed training leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.errors import KfrecError
from components.train.failure import Leftovers, require_one_start


def test_a_training_that_continued_another_one_resumes_as_it_began(tmp_path: Path) -> None:
    left = Leftovers(tmp_path / ".model.checkpoint", tmp_path / "log")
    left.note({"parameters": {"continue_path": "gs://phase/one"}})
    require_one_start(str(left.checkpoints), "gs://phase/one")
    require_one_start(str(left.checkpoints), "")
    require_one_start("", "gs://phase/one")
    with pytest.raises(KfrecError, match="continue_path=gs://phase/two: the first resumes a training, the second"):
        require_one_start(str(left.checkpoints), "gs://phase/two")
