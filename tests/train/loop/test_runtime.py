from pathlib import Path

import pytest

from components.train.loop.runtime import Core, bind, near_gpu, plan, topology

# Two sockets of four cores with two threads each, numbered as Linux does: threads 0-7 first, their siblings 8-15.
CORES = [Core(core // 4, (core, core + 8)) for core in range(8)]


def cpus(affinity: str, local_size: int) -> list[list[int] | None]:
    planned = [plan(affinity, CORES, rank, local_size) for rank in range(local_size)]
    return [sorted(found) if found is not None else None for found in planned]


@pytest.mark.parametrize(
    ("affinity", "expected"),
    [
        ("socket", [[0, 1, 2, 3, 8, 9, 10, 11]] * 2 + [[4, 5, 6, 7, 12, 13, 14, 15]] * 2),
        ("single", [[0, 8], [0, 8], [4, 12], [4, 12]]),
        ("single_unique", [[0, 8], [1, 9], [4, 12], [5, 13]]),
        ("socket_unique_interleaved", [[0, 2, 8, 10], [1, 3, 9, 11], [4, 6, 12, 14], [5, 7, 13, 15]]),
        ("socket_unique_continuous", [[0, 1, 8, 9], [2, 3, 10, 11], [4, 5, 12, 13], [6, 7, 14, 15]]),
        ("disabled", [None] * 4),
    ],
)
def test_four_ranks_on_two_sockets(affinity: str, expected: list[list[int] | None]) -> None:
    assert cpus(affinity, 4) == expected


def test_one_rank_has_the_whole_machine() -> None:
    assert cpus("socket", 1) == [list(range(16))]


@pytest.mark.parametrize("affinity", ["single_unique", "socket_unique_interleaved", "socket_unique_continuous"])
def test_more_ranks_than_cores_still_get_one_each(affinity: str) -> None:
    assert all(found for found in cpus(affinity, 20))


def test_the_topology_comes_from_the_kernels_files_and_the_allowed_cpus(tmp_path: Path) -> None:
    for cpu, (package, siblings) in {0: ("0", "0,2"), 1: ("1", "1,3"), 2: ("0", "0,2"), 3: ("1", "1,3")}.items():
        folder = tmp_path / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        (folder / "physical_package_id").write_text(package + "\n")
        (folder / "thread_siblings_list").write_text(siblings + "\n")
    assert topology({0, 1, 2}, tmp_path) == [Core(0, (0, 2)), Core(1, (1,))]


def test_a_kernel_that_describes_nothing_gives_single_cores(tmp_path: Path) -> None:
    assert topology({0, 1}, tmp_path) == [Core(0, (0,)), Core(0, (1,))]


def test_a_kernel_that_refuses_leaves_the_process_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int, mask: object) -> None:
        raise PermissionError

    monkeypatch.setattr("os.sched_setaffinity", refuse)
    assert bind("socket", 0, 1) is None


def _gpus(folder: Path, lists: dict[str, str]) -> tuple[Path, Path]:
    for bus, cpus in lists.items():
        (folder / "gpus" / bus.upper()).mkdir(parents=True)
        (folder / "pci" / bus).mkdir(parents=True)
        (folder / "pci" / bus / "local_cpulist").write_text(cpus + "\n")
    return folder / "gpus", folder / "pci"


def test_a_rank_is_near_its_own_gpu(tmp_path: Path) -> None:
    places = _gpus(tmp_path, {"0000:07:00.0": "0-3,8-11", "0000:47:00.0": "4-7,12-15"})
    allowed = frozenset(range(12))
    assert near_gpu(0, allowed, *places) == {0, 1, 2, 3, 8, 9, 10, 11}
    assert near_gpu(1, allowed, *places) == {4, 5, 6, 7}
    assert near_gpu(2, allowed, *places) == near_gpu(0, allowed, *places)


def test_without_a_gpu_or_its_cpus_all_are_near(tmp_path: Path) -> None:
    allowed = frozenset({0, 1})
    assert near_gpu(0, allowed, tmp_path / "none", tmp_path) == allowed
    assert near_gpu(0, allowed, *_gpus(tmp_path, {"0000:07:00.0": "4-7"})) == allowed
