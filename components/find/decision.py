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
        is_there: whether the champion's data still are among the versions.
        tried: data versions that any registered model was trained on.
    """

    champion: int | None = None
    data_version: str = ""
    rows: int | None = None
    is_there: bool = False
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
        minimum_new: rows required that the champion's data lack.
        force: train in any case.
        count: counts its rows that the champion's data lack, up to a limit.
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
    if not known.data_version:
        return Verdict(True, f"Data version {newest}: the champion's data is not known, so this counts as new.")
    if not known.is_there:
        return Verdict(
            True, f"Data version {newest}: the champion's {known.data_version} is gone, so all of this counts as new."
        )
    rows = count(minimum_new)
    if rows < minimum_new:
        return Verdict(
            False,
            f"Too little is new: data version {newest} has {rows:,} rows that the champion's {known.data_version} "
            f"lacks, and at least {minimum_new:,} are asked for.",
        )
    return Verdict(
        True, f"Data version {newest} has at least {minimum_new:,} rows that the champion's {known.data_version} lacks."
    )
