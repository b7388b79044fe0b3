"""The test samples of reviews as a person knows them: ids of the logs instead of the vocabulary's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from components.feature_spec import load_feature_spec
from components.feature_spec.lookup import IdLookup
from components.records import Records


def raw_rows(tfrecord: Path) -> list[dict[str, Any]]:
    """Rows with user, history and item, in the order of the records."""
    spec = load_feature_spec(tfrecord)
    read = next(Records(spec, "test", features=["uid", "item_trgt", "item_pos"]).batches(100_000))
    names = {name: IdLookup(spec, vocabulary) for name in read if (vocabulary := spec.vocabulary_of(name))}
    histories = [names["item_pos"].decode(items[items > 0]) for items in read["item_pos"]]
    users, items = names["uid"].decode(read["uid"]), names["item_trgt"].decode(read["item_trgt"])
    return [
        {"user": user, "history": history, "item": item}
        for user, history, item in zip(users, histories, items, strict=True)
    ]
