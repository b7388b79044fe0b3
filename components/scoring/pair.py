"""A retrieval model and a ranking model as one model."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from components.artifacts.notes import read_notes
from components.errors import KfrecError
from components.scoring.catalogue import Catalogue
from components.scoring.raw import RawModel, load_raw_model
from components.scoring.two_stages import SECOND, TwoStages, Weights

# The files of a pair's folder: two models' folders, and what is between them.
RETRIEVER, RANKER, NOTE = "retriever", "ranker", "pair.json"
PAIR_FILES = (RETRIEVER, RANKER, NOTE)
_RETRIEVE, _WEIGHTS = "retrieve", "weights"


@dataclass(frozen=True)
class Pair:
    """Two models of raw rows.

    Attributes:
        ranker: orders what the retriever finds.
        retrieve: candidates to retrieve for a user, those of the history aside.
        weights: of the order of these.
    """

    retriever: RawModel
    ranker: RawModel
    retrieve: int
    weights: Weights = SECOND

    def catalogue(self, make: Callable[[RawModel], Catalogue] = Catalogue) -> TwoStages:
        """The candidates: all, or those of the catalogue that ``make`` returns for each model."""
        return TwoStages(make(self.retriever), make(self.ranker), self.retrieve, self.weights)


def paired(one: RawModel, other: RawModel, retrieve: int) -> Pair:
    """Two models, in either order, as a pair.

    Raises:
        KfrecError: neither model retrieves, or both do.
    """
    retrieving = [model for model in (one, other) if model.model.retrieval]
    if len(retrieving) != 1:
        raise KfrecError(
            f"of a pair one model retrieves, by vectors or scores of all items, and "
            f"{'both' if retrieving else 'neither'} of these do; name a retrieval model, such as sasrec, and a ranking "
            "model"
        )
    return Pair(retrieving[0], other if retrieving[0] is one else one, retrieve)


def is_pair(folder: Path) -> bool:
    """Whether a folder holds a pair rather than one model."""
    return (folder / NOTE).is_file()


def load_pair(folder: Path) -> Pair:
    """Loads a pair.

    Raises:
        KfrecError: a model is missing or damaged, or one of them takes no raw rows.
    """
    retrieve, weights = settings_of(folder)
    return Pair(load_raw_model(folder / RETRIEVER), load_raw_model(folder / RANKER), retrieve, weights)


def settings_of(folder: Path) -> tuple[int, Weights]:
    """A pair's number of candidates, and their weights; those of earlier pairs are the second stage's order.

    Raises:
        KfrecError: they are damaged.
    """
    path = folder / NOTE
    note = read_notes(path)
    retrieve, given = note.get(_RETRIEVE), note.get(_WEIGHTS, SECOND._asdict())
    if not isinstance(retrieve, int) or retrieve < 1:
        raise KfrecError(f"{path}: {_RETRIEVE} is {retrieve!r}, not a number of candidates; register again")
    numbers = [given.get(name) for name in Weights._fields] if isinstance(given, dict) else [None]
    if not all(isinstance(number, int | float) and math.isfinite(number) for number in numbers):
        raise KfrecError(
            f"{path}: {_WEIGHTS} is {given!r}, not a number for each of {', '.join(Weights._fields)}; register again"
        )
    return retrieve, Weights(*numbers)


def note_pair(folder: Path, pair: Pair) -> None:
    """Writes what ``load_pair`` reads beside the folders of the two models."""
    note = {_RETRIEVE: pair.retrieve, _WEIGHTS: pair.weights._asdict()}
    (folder / NOTE).write_text(json.dumps(note) + "\n")
