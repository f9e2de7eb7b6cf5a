from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.kernel.joined import Joined, size_of


def joined(values: list[bytes]) -> Joined:
    return Joined(b"".join(values), np.cumsum([len(value) for value in values], dtype=np.int64))


def test_values_are_cut_out_in_their_order():
    values = joined([b"one", b"", b"three"])
    assert (values.raw, values.ends.tolist()) == (b"onethree", [3, 3, 8])
    assert list(values) == [b"one", b"", b"three"]
    assert (values[0], values[1], values[-1]) == (b"one", b"", b"three")
    assert values[1:] == [b"", b"three"]
    assert values[1:].raw == b"three"
    with pytest.raises(IndexError):
        values[3]
    assert values[::-2] == [b"three", b"one"]


def test_it_is_equal_to_a_sequence_of_the_same_values_alone():
    values = joined([b"one", b"two"])
    assert values == [b"one", b"two"] == values
    assert values == joined([b"one", b"two"])
    assert values != [b"onet", b"wo"]
    assert values != [b"one"]
    assert values != [b"one", "two"]
    assert values != 7


LISTS = st.lists(st.binary(max_size=4), max_size=8)
PLACES = st.none() | st.integers(-10, 10)


@given(LISTS, PLACES, PLACES)
def test_it_is_like_the_list(values, start, stop):
    like = joined(values)
    assert len(like) == len(values)
    assert list(like) == values
    assert [like[at] for at in range(-len(values), len(values))] == values * 2
    part = like[start:stop]
    assert isinstance(part, Joined)
    assert list(part) == values[start:stop]
    assert part.raw == b"".join(values[start:stop])
    assert size_of(part) == size_of(values[start:stop]) == len(part.raw)
