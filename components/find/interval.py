"""What a night trains on where each data version holds new rows alone: those since the champion's, or all."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from components.artifacts.remote import read_remote
from components.feature_spec.living import GROWN
from components.find.versions import DataVersion, natural_order
from components.storage import below, is_uri
from components.tracking.champion import VOCABULARY

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion

# The folder of a model's checkpoints, and the list of them.
_CHECKPOINTS, _LIST = "checkpoint", "checkpoint"


@dataclass(frozen=True)
class Interval:
    """The data of a night.

    Attributes:
        versions: new ones, oldest first; the champion's own is the first, since its test rows have not trained yet.
        replayed: older ones, of which some rows train once more.
        histories: whether all rows of the older ones are read, as histories of the users of the new ones.
    """

    versions: Sequence[DataVersion]
    replayed: Sequence[DataVersion] = ()
    histories: bool = False

    @property
    def files(self) -> str:
        """The names of the files below the prefix, separated by commas."""
        return ",".join(f"{each.name}/{name}" for each in (*self.replayed, *self.versions) for name in each.files)

    def __str__(self) -> str:
        """The versions in words."""
        told = f"{self.versions[0].name} to {self.versions[-1].name}"
        if not self.replayed:
            return told
        older = self.replayed[0].name
        if len(self.replayed) > 1:
            older += f" to {self.replayed[-1].name}"
        return f"{told}, and {'reads histories' if self.histories else 'replays rows'} of {older}"


def since(versions: Sequence[DataVersion], data_version: str, replay_share: float, history: int = 0) -> Interval:
    """The data since a champion's.

    Args:
        versions: all, oldest first, with the champion's ``data_version`` among them.
        replay_share: 0 replays nothing.
        history: number of older versions that are read as histories; 0 is none.
    """
    first = natural_order(data_version)
    new = [version for version in versions if natural_order(version.name) >= first]
    older = [version for version in versions if natural_order(version.name) < first]
    if history and older:
        return Interval(new, older[-history:], histories=True)
    if not older or not replay_share:
        return Interval(new)
    # The same night draws the same version.
    return Interval(new, [random.Random(new[-1].name).choice(older)])


def nights_since_full(versions: Iterable[ModelVersion]) -> int:
    """How many of the newest registered versions, in a row, were trained on what was new alone."""
    newest = sorted(versions, key=lambda version: -int(version.version))
    return sum(1 for _ in takewhile(lambda version: version.tags.get(VOCABULARY) == GROWN, newest))


def has_checkpoints(model: str) -> bool:
    """Whether a training can continue the model at a folder or URI.

    Raises:
        KfrecError: the storage does not answer, or denies access.
    """
    if is_uri(model):
        return read_remote(below(model, _CHECKPOINTS), _LIST) is not None
    return bool(model) and (Path(model) / _CHECKPOINTS / _LIST).is_file()
