"""A retrieval model and a ranking model as one model."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from components.artifacts.notes import read_notes
from components.errors import KfrecError
from components.scoring.catalogue import Catalogue
from components.scoring.raw import RawModel, load_raw_model
from components.scoring.two_stages import TwoStages

# The files of a pair's folder: two models' folders, and what is between them.
RETRIEVER, RANKER, NOTE = "retriever", "ranker", "pair.json"
PAIR_FILES = (RETRIEVER, RANKER, NOTE)
_RETRIEVE = "retrieve"


@dataclass(frozen=True)
class Pair:
    """Two models of raw rows.

    Attributes:
        ranker: orders what the retriever finds.
        retrieve: candidates to retrieve for a user, those of the history aside.
    """

    retriever: RawModel
    ranker: RawModel
    retrieve: int

    def catalogue(self, make: Callable[[RawModel], Catalogue] = Catalogue) -> TwoStages:
        """The candidates: all, or those of the catalogue that ``make`` returns for each model."""
        return TwoStages(make(self.retriever), make(self.ranker), self.retrieve)


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
    retrieve = read_notes(folder / NOTE).get(_RETRIEVE)
    if not isinstance(retrieve, int) or retrieve < 1:
        raise KfrecError(f"{folder / NOTE}: {_RETRIEVE} is {retrieve!r}, not a number of candidates; register again")
    return Pair(load_raw_model(folder / RETRIEVER), load_raw_model(folder / RANKER), retrieve)


def note_pair(folder: Path, retrieve: int) -> None:
    """Writes what ``load_pair`` reads beside the folders of the two models."""
    (folder / NOTE).write_text(json.dumps({_RETRIEVE: retrieve}) + "\n")
