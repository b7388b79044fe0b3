"""The lists of a block of users are those of each user alone."""

from __future__ import annotations

import numpy as np
import pytest

from components.scoring.ranking import best_of, best_of_each, ranks_in


def by_definition(scores: np.ndarray, top: int, behind: np.ndarray, level: np.ndarray) -> list[int]:
    """The candidates of one user in the order of the definition, with Python's stable sort."""
    left = [place for place in range(len(scores)) if scores[place] > -np.inf]
    return sorted(left, key=lambda place: (behind[place], -level[place], -scores[place]))[:top]


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("share_behind", [0.0, 0.3, 1.0])
def test_every_user_has_the_best_candidates_in_order(share_behind: float, kind: type) -> None:
    random = np.random.default_rng(1)
    for size, top in ((40, 5), (40, 39), (40, 40), (3, 20), (1, 1)):
        behind = random.random(size) < share_behind
        level = np.where(behind, random.integers(0, 3, size), 0).astype(float)
        # Few distinct scores, so that many are equal; some candidates are left out, and of some users all.
        scores: np.ndarray = random.integers(0, 6, (30, size)).astype(kind)
        scores[random.random((30, size)) < random.choice([0.0, 0.2, 0.95, 1.0], (30, 1))] = -np.inf
        rows, places = best_of(scores, top, behind, level)
        assert rows.tolist() == sorted(rows.tolist())
        for user in range(30):
            assert places[rows == user].tolist() == by_definition(scores[user], top, behind, level)


def test_lists_with_few_of_a_group_are_those_of_going_down_the_whole_order() -> None:
    random = np.random.default_rng(2)
    for size, groups, top, most in ((200, 3, 6, 2), (200, 3, 9, 2), (50, 1, 4, 3), (30, 30, 5, 1), (2, 2, 9, 1)):
        behind, level = random.random(size) < 0.1, np.zeros(size)
        # Most of the best candidates are of one group.
        group = np.where(random.random(size) < 0.5, random.integers(0, groups, size), 0)
        scores = random.integers(0, 9, (20, size)) + 9.0 * (group == 0)
        scores[random.random((20, size)) < 0.2] = -np.inf
        rows, places = best_of_each(scores, top, behind, level, group, most)
        for user in range(20):
            expected: list[int] = []
            for place in by_definition(scores[user], size, behind, level):
                if sum(group[other] == group[place] for other in expected) < most:
                    expected.append(place)
            assert places[rows == user].tolist() == expected[:top]


def test_no_candidates_and_no_users_are_no_lists() -> None:
    for shape in ((2, 0), (0, 3)):
        rows, places = best_of(np.zeros(shape), 4, np.zeros(shape[1], bool), np.zeros(shape[1]))
        assert len(rows) == len(places) == 0


def test_ranks_begin_at_one_in_each_group() -> None:
    assert ranks_in(np.array([0, 0, 3, 5, 5, 5])).tolist() == [1, 2, 1, 1, 2, 3]
    assert ranks_in(np.zeros(0, np.int64)).tolist() == []
