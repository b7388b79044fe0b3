"""Schedules when something goes wrong: killed reconcilers, several at once, lost answers, a late status."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from components.errors import KfrecError
from pipelines.cluster import lock
from pipelines.cluster.connection import connect
from pipelines.cluster.lock import LockTimes
from pipelines.cluster.reconcile import Reconciler
from pipelines.cluster.schedules import load_schedules
from tests.fakes.kfp_api import KfpApi, Killed
from tests.fakes.turns import Turns
from tests.pipelines.cluster.reconciling import IR, NIGHTLY, QUICK, apply, write


def changed(tmp_path: Path, hour: int = 4) -> Path:
    return write(tmp_path / f"changed-{hour}.yaml", {**NIGHTLY, "cron": f"0 0 {hour} * * *"})


def calls_of_a_change(tmp_path: Path) -> int:
    """How many requests it takes to change a schedule, after those of connecting."""
    api = KfpApi()
    with api.served() as url:
        apply(url, write(tmp_path / "a.yaml", NIGHTLY))
        before = len(api.calls)
        apply(url, changed(tmp_path))
        return len(api.calls) - before


def test_a_reconciler_killed_at_any_call_leaves_one_schedule_at_most_and_the_next_goes_on(tmp_path: Path) -> None:
    total = calls_of_a_change(tmp_path)
    assert total > 12
    for kill_at in range(total):
        api = KfpApi()
        with api.served() as url:
            apply(url, write(tmp_path / "a.yaml", NIGHTLY))
            last = len(api.calls) + kill_at

            def kill(number: int, last: int = last) -> None:
                if number >= last:
                    raise Killed

            api.before_call = kill
            try:
                apply(url, changed(tmp_path))
            except KfrecError:
                pass
            else:
                assert kill_at == total - 1, "only the last call, which gives the lock back, can be done without"
            assert len(api.enabled("nightly")) <= 1
            api.before_call = lambda number: None
            apply(url, changed(tmp_path))
            (run,) = api.recurring.values()
            assert (run["status"], run["trigger"]["cron_schedule"]["cron"]) == ("ENABLED", "0 0 4 * * *")
            assert api.violations == []


class Interleaved:
    """Two reconcilers, a and b, that want different things of one schedule and make their requests in a given order.

    The lock is taken over at once, so that neither ever waits for the other: as if a holder slept past its time.
    """

    def __init__(self, tmp_path: Path) -> None:
        self.api = KfpApi()
        self.old = load_schedules(write(tmp_path / "old.yaml", NIGHTLY))
        self.wanted = {name: load_schedules(changed(tmp_path, hour)) for name, hour in (("a", 4), ("b", 5))}

    def __enter__(self) -> Interleaved:
        self._servers = {name: self.api.served(name) for name in "ab"}
        self.reconcilers = {}
        for name, server in self._servers.items():
            url = server.__enter__()
            self.reconcilers[name] = Reconciler(connect(url), url, lambda name: IR, echo=lambda line: None, times=QUICK)
        return self

    def __exit__(self, *error: object) -> None:
        for server in self._servers.values():
            server.__exit__(None, None, None)

    def run(self, order: Sequence[str]) -> list[str]:
        """Both from the same beginning; returns who made each request, after checking what must hold."""
        api = self.api
        api.turn = KfpApi().turn
        for kind in (api.recurring, api.experiments, api.pipelines, api.versions):
            kind.clear()
        self.reconcilers["a"].apply(self.old)
        turns = Turns(order)
        api.turn = turns.turn
        unexpected: list[Exception] = []

        def reconcile(name: str) -> None:
            try:
                self.reconcilers[name].apply(self.wanted[name])
            except KfrecError as error:
                if "run it again" not in str(error):
                    unexpected.append(error)
            finally:
                turns.leave(name)

        threads = [threading.Thread(target=reconcile, args=(name,)) for name in "ab"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert unexpected == []
        assert api.violations == [], f"two were enabled at some moment, in the order {''.join(order)}"
        self.reconcilers["b"].apply(self.wanted["b"])
        (run,) = api.recurring.values()
        assert (run["status"], run["trigger"]["cron_schedule"]["cron"]) == ("ENABLED", "0 0 5 * * *"), order
        assert api.violations == []
        return turns.taken


def test_two_reconcilers_that_stop_at_any_request_never_have_two_schedules_enabled(tmp_path: Path) -> None:
    with Interleaved(tmp_path) as two:
        alone = two.run("a" * 100).count("a")
        two.run("ab" * 50)
        two.run("aab" * 50)
        # Around the change itself: a makes n requests, b makes m, a goes on to its end, then b.
        for n in range(alone - 8, alone, 3):
            for m in range(alone - 6, alone):
                two.run("a" * n + "b" * m + "a" * 100)


@pytest.mark.slow
def test_two_reconcilers_never_have_two_schedules_enabled_wherever_both_stop(tmp_path: Path) -> None:
    with Interleaved(tmp_path) as two:
        alone = two.run("a" * 100).count("a")
        for n in range(alone + 1):
            # Every other pair of stops, as on a chessboard: all of them take minutes.
            for m in range(n % 2, alone + 1, 2):
                two.run("a" * n + "b" * m + "a" * 100)


@pytest.mark.parametrize("lag", [1, 3])
def test_a_status_that_kfp_shows_late_leads_to_nothing_wrong(api: KfpApi, url: str, tmp_path: Path, lag: int) -> None:
    api.status_lag = lag
    file = tmp_path / "schedules.yaml"
    for hour, paused in ((2, False), (2, True), (2, False), (3, False), (4, True), (4, False), (5, True)):
        apply(url, write(file, {**NIGHTLY, "cron": f"0 0 {hour} * * *", "paused": paused}))
        (run,) = api.recurring.values()
        assert run["status"] == ("DISABLED" if paused else "ENABLED")
    assert api.violations == []


@pytest.mark.parametrize("status", [500, 503])
def test_a_server_that_fails_once_is_one_line_and_the_next_time_goes_on(
    api: KfpApi, url: str, tmp_path: Path, status: int
) -> None:
    apply(url, write(tmp_path / "a.yaml", NIGHTLY))
    begun = len(api.calls)
    api.before_call = lambda number: api.answers.append(status) if number == begun + 9 else None
    with pytest.raises(KfrecError, match=f"answered {status}: as the test asked for"):
        apply(url, changed(tmp_path))
    apply(url, changed(tmp_path))
    (run,) = api.recurring.values()
    assert run["status"] == "ENABLED" and api.violations == []


def test_a_schedule_that_someone_deletes_meanwhile_is_told(api: KfpApi, url: str, tmp_path: Path) -> None:
    file = write(tmp_path / "schedules.yaml", NIGHTLY)
    apply(url, file)
    begun = len(api.calls)

    def delete(number: int) -> None:
        if number > begun and api.calls[-1] == ("GET", "/apis/v2beta1/recurringruns"):
            api.recurring.clear()

    api.before_call = delete
    with pytest.raises(KfrecError, match="nightly: it was changed at the same time; run it again"):
        apply(url, file)


@pytest.mark.parametrize("lost", [("POST", "recurringruns"), ("POST", ":disable"), ("POST", ":enable"),
                                  ("DELETE", "recurringruns"), ("POST", "experiments")])  # fmt: skip
def test_an_answer_that_got_lost_does_no_harm(api: KfpApi, url: str, tmp_path: Path, lost: tuple[str, str]) -> None:
    file = tmp_path / "schedules.yaml"
    apply(url, write(file, NIGHTLY))
    write(file, {**NIGHTLY, "cron": "0 0 4 * * *"})
    api.lose_answer_of = lost
    for _ in range(2):
        try:
            apply(url, file)
        except KfrecError as error:
            assert "\n" not in str(error)
    (run,) = api.recurring.values()
    assert run["status"] == "ENABLED" and api.violations == []


@pytest.mark.parametrize("seed", range(6))
def test_two_reconcilers_at_once_never_have_two_schedules_enabled(
    api: KfpApi, url: str, tmp_path: Path, seed: int
) -> None:
    apply(url, write(tmp_path / "old.yaml", NIGHTLY))
    files = [write(tmp_path / f"{n}.yaml", {**NIGHTLY, "cron": f"0 0 {n + 4} * * *"}) for n in range(2)]
    drawn = random.Random(seed)
    api.before_call = lambda number: time.sleep(drawn.random() * 0.01)
    times = LockTimes(life=60.0, work=30.0, wait=30.0, pause=0.005)
    failures: list[BaseException] = []

    def reconcile(file: Path) -> None:
        try:
            apply(url, file, times=times)
        except BaseException as error:  # told by the test
            failures.append(error)

    threads = [threading.Thread(target=reconcile, args=(file,)) for file in files]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == [] and api.violations == []
    (run,) = api.recurring.values()
    assert run["status"] == "ENABLED"
    assert run["trigger"]["cron_schedule"]["cron"] in ("0 0 4 * * *", "0 0 5 * * *")


def test_a_lock_held_by_someone_else_is_waited_for_and_then_told(api: KfpApi, url: str, tmp_path: Path) -> None:
    api.create_experiment({}, {"display_name": lock.NAME})
    times = LockTimes(life=60.0, work=30.0, wait=0.2, pause=0.01)
    with pytest.raises(KfrecError, match=r"another reconciler has been changing schedules for more than 0\.2 s"):
        apply(url, write(tmp_path / "schedules.yaml", NIGHTLY), times=times)
    assert api.recurring == {}


def test_a_holder_whose_time_is_up_stops(api: KfpApi, url: str, tmp_path: Path) -> None:
    times = LockTimes(life=60.0, work=0.0, wait=1.0, pause=0.01)
    with pytest.raises(KfrecError, match="this took longer than 0 s; run it again"):
        apply(url, write(tmp_path / "schedules.yaml", NIGHTLY), times=times)
    assert api.recurring == {}
