"""The newest sample of each user, found without times."""

from __future__ import annotations

import numpy as np
import pytest

from components.feature_spec import Feature, FeatureSpec
from components.scoring.newest import NewestSamples, choice_label, events_of

LENGTH = 5


def sample(history: list[int], target: int, positive: bool = True) -> np.ndarray:
    newest = history[-LENGTH:]
    row = np.array([[0] * (LENGTH - len(newest)) + newest], np.int32)
    return events_of(row, np.array([target], np.int32), np.array([positive]))


def newest_of(samples: list[np.ndarray]) -> list[int]:
    found = NewestSamples()
    found.add(np.zeros(len(samples), np.int64), np.concatenate(samples))
    return found.events[0].tolist()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("events", [3, 6, 9, 14])
def test_the_sample_of_the_last_event_wins_in_any_order_and_batches(events: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    user = random.permutation(np.arange(1, 100))[:events].tolist()
    samples = [sample(user[:place], user[place]) for place in range(1, events)]
    samples += [sample(user[:place], 99 + place, positive=False) for place in range(1, events)]
    order = random.permutation(len(samples))
    found = NewestSamples()
    for row in order:
        found.add(np.array([7]), samples[row])
    wanted = ([0] * LENGTH + user)[-LENGTH - 1 :]
    assert found.events.tolist() == [wanted]
    assert newest_of([samples[row] for row in order]) == wanted


def test_users_are_apart_and_columns_come_with_their_sample() -> None:
    found = NewestSamples()
    events = np.concatenate([sample([1], 2), sample([3, 4], 5), sample([1, 2], 6), sample([9], 9)])
    found.add(np.array([1, 2, 1, 3]), events, {"row": np.arange(4)})
    assert dict(zip(found.users.tolist(), found.columns["row"].tolist(), strict=True)) == {1: 2, 2: 1, 3: 3}
    found.keep(np.array([2, 3]))
    found.add(np.array([3]), sample([9, 9], 8), {"row": np.array([4])})
    assert dict(zip(found.users.tolist(), found.columns["row"].tolist(), strict=True)) == {2: 1, 3: 4}


def test_a_sample_that_continues_nothing_does_not_replace_an_earlier_one() -> None:
    first, other = sample([1, 2, 3, 4, 5], 6), sample([11, 12, 13, 14, 15], 16)
    assert newest_of([first, other]) == [1, 2, 3, 4, 5, 6]
    assert newest_of([other, first]) == [11, 12, 13, 14, 15, 16]


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        ((), ""),
        ((Feature("label", "bool"),), "label"),
        ((Feature("label", "int64"),), "label"),
        ((Feature("seconds", "float32"), Feature("clicked", "bool")), "clicked"),
        ((Feature("seconds", "float32"), Feature("price", "float32")), ""),
        ((Feature("ratings", "int64", None, 3),), ""),
    ],
)
def test_the_label_of_a_choice_is_the_binary_one_or_else_the_only_one(
    targets: tuple[Feature, ...], expected: str
) -> None:
    names = tuple(target.name for target in targets)
    assert choice_label(FeatureSpec({each.name: each for each in targets}, {}, {"label": names})) == expected
