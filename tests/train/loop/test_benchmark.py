import numpy as np
import pytest

from components.train.loop.benchmark import Meter, latencies, summarize


def test_latencies_are_milliseconds() -> None:
    found = latencies(np.arange(1, 102) / 1000)
    assert found == pytest.approx({"latency_mean": 51, "latency_p90": 91, "latency_p95": 96, "latency_p99": 100})


def test_steps_of_a_window_share_its_mean_and_the_first_window_does_not_count() -> None:
    meter = Meter()
    meter.stop(10, 1)
    assert meter.latencies["latency_mean"] == pytest.approx(meter.step_seconds * 1000)  # there is nothing else yet
    meter.stop(10, 4)
    seconds = [meter.step_seconds] * 4
    meter.stop(10, 1)
    assert meter.latencies == pytest.approx(latencies(np.array([*seconds, meter.step_seconds])))


def test_a_benchmark_waits_for_the_slowest_rank_and_leaves_out_the_first_steps() -> None:
    rows = np.array([[10, 10, 10], [10, 10, 10]])
    cycles, steps = np.array([[9.0, 1.0, 1.0], [1.0, 2.0, 4.0]]), np.array([[5.0, 0.5, 1.0], [1.0, 1.0, 0.5]])
    found = summarize(rows, cycles, steps, warmup=1)
    assert found.throughput == pytest.approx(40 / 6)
    assert (found.steps, found.samples, found.time) == (2, 40, 15.0)
    assert (found.latency_mean, found.step_mean) == pytest.approx((3000.0, 1000.0))
