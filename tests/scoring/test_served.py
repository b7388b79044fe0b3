"""A model as a server calls it: several requests at a time get what each gets alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from components.errors import KfrecError
from components.scoring.served import Served
from components.scoring.served_features import ServedFeatures
from tests.fakes.known_scores import add_counts, make_known_model
from tests.fakes.small_shop import HISTORY, NAMES, make_data, make_model, quality

LOGITS = {name: place / 10 for place, name in enumerate(NAMES)}
LAST = list(NAMES[::-1])


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    folder = tmp_path_factory.mktemp("shop")
    data = make_data(folder / "tfrecord", dataset="amazon_reviews", rows=20)
    add_counts(data, dict.fromkeys(NAMES, 7))
    return Served(make_known_model(folder / "known", data, LOGITS, shared=True))


Asked = tuple[dict[str, Any], dict[str, Any]]


def alone_and_together(served: Served, *asked: Asked) -> tuple[list[Any], list[Any]]:
    """Rows and number of unknown ids of each answer, made one by one and all at once."""
    requests = [served.request(columns, len(columns["user"]), wanted) for columns, wanted in asked]
    assert len({request.group for request in requests}) == 1
    alone = [answer for request in requests for answer in served.answer([request])]
    one, other = (
        [(each.table.to_pylist(), each.unknown) for each in found] for found in (alone, served.answer(requests))
    )
    return one, other


def test_lists_of_several_lengths_and_exclusions_are_made_together(served: Served) -> None:
    people: dict[str, Any] = {"user": ["U1", "nobody"], "history": [["B001"], ["B002", "new"]]}
    alone, together = alone_and_together(
        served,
        (people, {"top": 2}),
        ({"user": ["U2"], "history": [["B003"]]}, {"top": 5, "exclude": LAST[:3]}),
        ({"user": ["U3"], "history": [["B003"]]}, {"top": 1, "exclude": LAST}),
        (people, {"top": 1}),
    )
    assert together == alone
    assert [[row["item"] for row in rows] for rows, _ in together] == [
        [*LAST[:2]] * 2, LAST[3:8], [], LAST[:1] * 2,
    ]  # fmt: skip
    assert [unknown for _, unknown in together] == [2, 0, 0, 2]


def test_rows_are_scored_together(served: Served) -> None:
    alone, together = alone_and_together(
        served,
        ({"user": ["U1", "U1"], "history": [["B001"], ["B001"]], "item": ["B007", "new"]}, {}),
        ({"user": ["U2"], "history": [["B002"]], "item": ["B059"]}, {}),
    )
    assert [[row["unknown_ids"] for row in rows] for rows, _ in together] == [[0, 1], [0]]
    np.testing.assert_allclose(
        [row["logit"] for rows, _ in together for row in rows], [row["logit"] for rows, _ in alone for row in rows],
        atol=1e-6,
    )  # fmt: skip


def test_candidates_of_one_user_get_the_scores_of_single_rows(served: Served) -> None:
    # Candidate and newest item of odd ids, so that the score depends on the history.
    columns: dict[str, Any] = {"user": ["U1"] * 4, "history": [["B001", "B002"]] * 4, "item": list(NAMES[:4])}
    (answer,) = served.answer([served.request(columns, 4, {})])
    rows = [{name: [values[place]] for name, values in columns.items()} for place in range(4)]
    single = [served.answer([served.request(row, 1, {})]) for row in rows]
    expected = [found[0].table["logit"][0].as_py() for found in single]
    assert len(set(expected)) == 4
    np.testing.assert_allclose(answer.table["logit"].to_pylist(), expected, atol=1e-6)


def test_a_model_of_encoded_features_takes_them(tmp_path: Path) -> None:
    served = ServedFeatures(make_model(tmp_path / "model", make_data(tmp_path / "data", rows=20)))
    features = {"uid": [1, 2], "item_trgt": [3, 4], "item_pos": [[0] * HISTORY] * 2}
    requests = [served.request(features, 2, {})] * 2
    for answer in served.answer(requests):
        assert answer.table["probability"].to_pylist() == pytest.approx([quality(name) for name in NAMES[:2]])
    for wrong, named in (
        ({"item_pos": [[0], [0, 1]]}, "feature item_pos is to be int64 of the shape"),
        ({"item_trgt": [3, 9999]}, "feature item_trgt has ids from 3 to 9999; there are 0 to 62"),
    ):
        with pytest.raises(KfrecError, match=named):
            served.request(features | wrong, 2, {})
