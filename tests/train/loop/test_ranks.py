"""The interface of the processes that train together."""

from __future__ import annotations

from components.train.loop.ranks import Horovod, Ranks


def test_no_operation_of_several_ranks_is_that_of_a_single_one() -> None:
    operations = {name for name, value in vars(Ranks).items() if callable(value) and not name.startswith("_")}
    assert len(operations) == 10 and operations <= vars(Horovod).keys()
