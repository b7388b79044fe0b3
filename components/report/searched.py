"""The report's section about search results in the histories of a few users."""

from __future__ import annotations

from components.report.charts import table
from components.report.parts import Figure, Section
from components.scoring.searched import Example, Searched


def searched_section(searched: Searched) -> Section:
    """Shows ids of the records and of predictions.parquet; the report has no names of users or items."""
    text = (
        f"What the search over histories finds, in {searched.samples:,} clicked test samples; those with the longest "
        "histories are below. The weight is the attention by which an item was found. Users and items are shown by "
        "their ids in the data."
    )
    if searched.alike is not None:
        text += (
            f" On average {searched.alike:.0%} of a searched history are of the candidate's category, and "
            f"{searched.alike_weight:.0%} of the weight falls on them."
        )
    return Section("What the search found", text, [_figure(example) for example in searched.examples])


def _figure(example: Example) -> Figure:
    of = f", {example.category}" if example.category else ""
    who = "" if example.user is None else f"User {example.user}, "
    header = ("item", "category", "items ago", "weight") if example.category else ("item", "items ago", "weight")
    rows = [
        (str(each.item), *([each.category] if example.category else []), str(each.ago), f"{each.weight:.3f}")
        for each in example.best
    ]
    shown = sum(each.weight for each in example.best)
    note = (
        f"{example.found} of {example.searched} searched items were found; the attention of these {len(rows)} is "
        f"{shown:.0%} of that over all searched items."
    )
    return Figure(f"{who}candidate {example.item}{of}", table(header, rows), note)
