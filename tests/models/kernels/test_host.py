from components.models.kernels import host


def test_parts_cover_everything_once():
    for total in (0, 1, 2, 17):
        seen: list[int] = []
        parts: list[int] = []

        def work(part: int, first: int, last: int, seen: list[int] = seen, parts: list[int] = parts) -> None:
            seen.extend(range(first, last))
            parts.append(part)

        host.in_parts(work, total)
        assert sorted(seen) == list(range(total))
        assert len(parts) <= host.parts(total)
        assert set(parts) == set(range(len(parts)))


def test_kernels_are_allowed_only_within():
    assert not host.are_allowed()
    with host.host_kernels():
        assert host.are_allowed()
        with host.host_kernels(False):
            assert not host.are_allowed()
        assert host.are_allowed()
    assert not host.are_allowed()
