"""The checkpoints that a failed training leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.errors import KfrecError
from components.train.failure import Kept, require_one_start


def test_a_training_that_continued_another_one_resumes_as_it_began(tmp_path: Path) -> None:
    kept = Kept(tmp_path / ".model.checkpoint", tmp_path / "log")
    kept.note({"parameters": {"continue_path": "gs://phase/one"}})
    require_one_start(str(kept.checkpoints), "gs://phase/one")
    require_one_start(str(kept.checkpoints), "")
    require_one_start("", "gs://phase/one")
    with pytest.raises(KfrecError, match="continue_path=gs://phase/two: the first resumes a training, the second"):
        require_one_start(str(kept.checkpoints), "gs://phase/two")
