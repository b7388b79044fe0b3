"""Decides whether to train on the newest data, with a one-sentence reason."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from components.find.versions import natural_order


@dataclass(frozen=True)
class Known:
    """Facts from the registry.

    Attributes:
        champion: version of the champion, None if there is none.
        data_version: version of the champion's data, empty if unknown.
        rows: rows of the champion's data, None if unknown.
        tried: data versions that any registered model was trained on.
    """

    champion: int | None = None
    data_version: str = ""
    rows: int | None = None
    tried: Collection[str] = ()


@dataclass(frozen=True)
class Verdict:
    """The decision and its reason."""

    proceed: bool
    occasion: str


def decide(newest: str, known: Known, minimum_new: int, force: bool, count: Callable[[int], int]) -> Verdict:
    """Decides about the newest version.

    Args:
        newest: version name.
        known: facts from the registry.
        minimum_new: rows required beyond the champion's data.
        force: train in any case.
        count: counts its rows, up to a limit.
    """
    if force:
        return Verdict(True, f"Data version {newest}: training was requested with force.")
    if known.champion is None and newest not in known.tried:
        return Verdict(True, f"Data version {newest}: there is no champion yet.")
    if newest in known.tried:
        return Verdict(
            False, f"Nothing is new: {newest} is the newest data version, and a model was trained on it already."
        )
    if known.data_version and natural_order(newest) < natural_order(known.data_version):
        return Verdict(
            False, f"Nothing is new: the champion was trained on {known.data_version}, which is newer than {newest}."
        )
    if known.rows is None:
        return Verdict(True, f"Data version {newest}: the champion's data is not known, so this counts as new.")
    wanted = known.rows + minimum_new
    rows = count(wanted)
    if rows < wanted:
        return Verdict(
            False,
            f"Too little is new: data version {newest} has {rows:,} rows, the champion's {known.data_version} had "
            f"{known.rows:,}, and at least {minimum_new:,} more are asked for.",
        )
    return Verdict(
        True,
        f"Data version {newest} has at least {minimum_new:,} rows more than the {known.rows:,} of "
        f"{known.data_version or 'the champion'}.",
    )
