"""Ids sort by time, and their grammar keeps paths, URLs and terminals safe."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakelog.errors import BadId
from wakelog.log.ids import RANDOM_BYTES, checked_id, is_id, new_id

CHANCE = st.binary(min_size=RANDOM_BYTES, max_size=RANDOM_BYTES)
DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
MOMENTS = st.integers(0, 2**48 - 1)


@given(MOMENTS, CHANCE)
def test_ids_are_ulids(moment, chance):
    """LOG-3: an id is a ULID in lower case that contains its time and all random bits."""
    made = new_id(moment, chance)
    assert len(made) == 26
    assert is_id(made)
    value = 0
    for digit in made:
        value = value * 32 + DIGITS.index(digit)
    assert value == moment << 80 | int.from_bytes(chance, "big")


@given(MOMENTS, MOMENTS, CHANCE, CHANCE)
def test_ids_sort_by_time(one, other, chance, more):
    """LOG-3: earlier ids come first, whatever the random bits are."""
    if one != other:
        assert (new_id(one, chance) < new_id(other, more)) == (one < other)


@given(CHANCE, CHANCE)
def test_random_bits_make_a_difference(one, other):
    """Two ids of the same moment differ where their random bytes do."""
    assert (new_id(1, one) == new_id(1, other)) == (one == other)


@pytest.mark.parametrize(("moment", "chance"), [(-1, bytes(10)), (2**48, bytes(10)), (0, bytes(9)), (0, bytes(11))])
def test_invalid_arguments_are_refused(moment, chance):
    with pytest.raises(BadId):
        new_id(moment, chance)


@pytest.mark.parametrize("text", ["a", "A-1", "0.x_y", "x" * 128, "tg-12345"])
def test_valid_ids(text):
    assert checked_id(text) == text


@pytest.mark.parametrize(
    "text", ["", ".", "..", "-a", "_a", "a/b", "a\\b", "a b", "a\n", "a\x00", "é", "x" * 129, "a\u202eb"]
)
def test_invalid_ids(text):
    """Law 13: nothing that could be a path, a control character or a look-alike is an id."""
    assert not is_id(text)
    with pytest.raises(BadId):
        checked_id(text)
