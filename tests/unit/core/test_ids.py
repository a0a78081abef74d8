"""Ids that sort by time, and keys that follow content."""

import os
import uuid

from hypothesis import given
from hypothesis import strategies as st

from stem.core.envelope import check_id
from stem.core.ids import content_key, uuid7

dice = st.binary(min_size=10, max_size=10)
times = st.floats(0, 2**48 / 1000 - 1)


@given(times, dice)
def test_an_id_is_a_uuid_of_version_seven(now: float, roll: bytes) -> None:
    made = uuid7(now, roll)
    parsed = uuid.UUID(made)
    assert (str(parsed), parsed.version, parsed.variant) == (made, 7, uuid.RFC_4122)
    assert int.from_bytes(parsed.bytes[:6], "big") == int(now * 1000)
    assert check_id(made) == made


@given(times, times, dice, dice)
def test_later_ids_sort_later(one: float, two: float, roll: bytes, other: bytes) -> None:
    early, late = sorted((one, two))
    if int(early * 1000) < int(late * 1000):
        assert uuid7(early, roll) < uuid7(late, other)


def test_ids_of_one_moment_differ() -> None:
    assert len({uuid7(1_750_000_000.0, os.urandom(10)) for _ in range(10_000)}) == 10_000


def test_all_the_dice_count_but_for_the_fixed_bits() -> None:
    assert len({uuid7(0.0, (1 << bit).to_bytes(10, "big")) for bit in range(80)}) >= 74


def test_content_decides_the_key_whatever_the_order() -> None:
    assert content_key(["t", {"a": 1, "b": [1, {"y": 1, "x": 2}]}]) == content_key(
        ["t", {"b": [1, {"x": 2, "y": 1}], "a": 1}]
    )
    keys = {
        content_key(parts) for parts in ([], ["a"], ["a", "b"], ["ab"], [["a", "b"]], [1], ["1"], [None], [{"a": 1}])
    }
    assert len(keys) == 9
    assert all(len(key) == 64 for key in keys)
