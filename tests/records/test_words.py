import numpy as np
import pytest

from components.records.words import LARGEST, MALFORMED, SLACK, TOO_MANY, read_packed

LIMIT = np.uint64(2**31 - 1)
WIDEST = {1: 2**7 - 1, 2: 2**14 - 1, 3: 2**21 - 1, 4: 2**28 - 1, 5: 2**31 - 1}


def _varint(value: int) -> bytes:
    value = int(value) % 2**64
    out = []
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _read(encoded: bytes, room: int, limit: np.uint64 = LIMIT, behind: bytes = b"") -> tuple[int, int, np.ndarray]:
    """What read_packed says of a list that other bytes stand before and behind, and what it wrote."""
    data = np.frombuffer(b"\xff\x80\x05" + encoded + behind + bytes(SLACK), np.uint8)
    out = np.full(room + 5, -7, np.int32)
    count, outside = read_packed(data, 3, 3 + len(encoded), out, 2, room, limit)
    assert (out[:2] == -7).all() and (out[2 + room :] == -7).all()
    return count, outside, out[2 : 2 + max(count, 0)]


@pytest.mark.slow
@pytest.mark.parametrize("behind", [b"", b"\xff" * 100, b"\x01" * 100], ids=["nothing", "long ones", "short ones"])
@pytest.mark.parametrize("widths", [[1], [2], [3], [4], [5], [1, 4], [1, 2, 3, 4], [3, 3, 3, 5]])
def test_lists_of_any_length_are_read(widths: list[int], behind: bytes):
    random = np.random.default_rng(sum(widths))
    for count in [*range(40), 100, 1000]:
        most = [WIDEST[width] for width in random.choice(widths, count)]
        values = [int(random.integers(m + 1)) if random.random() < 0.8 else random.choice([0, m]) for m in most]
        read, outside, out = _read(b"".join(map(_varint, values)), count, behind=behind)
        assert (read, outside) == (count, 0)
        np.testing.assert_array_equal(out, values)


@pytest.mark.parametrize(("value", "stored"), [(1001, 1001), (2**31, LARGEST), (-1, -1), (2**40, LARGEST)])
def test_values_that_are_not_allowed_are_counted_wherever_they_stand(value: int, stored: int):
    values = list(range(100))
    for place in (0, 1, 15, 16, 17, 50, 83, 84, 99):
        given = [*values[:place], value, *values[place + 1 :]]
        count, outside, out = _read(b"".join(map(_varint, given)), 100, np.uint64(1000))
        assert (count, outside) == (100, 1)
        np.testing.assert_array_equal(out, [*values[:place], stored, *values[place + 1 :]])


def test_nothing_is_written_behind_the_room():
    encoded = b"".join(map(_varint, range(0, 100_000, 1000)))
    for room in (0, 1, 15, 16, 17, 40, 99):
        assert _read(encoded, room)[0] == TOO_MANY
    assert _read(encoded, 100)[0] == 100
    assert _read(encoded, 200)[0] == 100


@pytest.mark.parametrize("good", [0, 3, 16, 40])
def test_a_varint_that_is_cut_off_or_never_ends_is_malformed(good: int):
    begun = b"".join(map(_varint, range(good)))
    for rest in (b"\x80", b"\xff\xff\xff", b"\xff" * 11 + b"\x01", b"\xff" * 70):
        assert _read(begun + rest, 200)[0] == MALFORMED
        assert _read(begun + rest, 200, behind=b"\x01" * 80)[0] == MALFORMED
