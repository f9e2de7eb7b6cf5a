"""Rows from numpy columns are, byte for byte, the rows from Python's columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.kernel.errors import CounterExhausted
from amends_pipeline.store import packing
from amends_pipeline.store.bulk import BOOL, INT2, INT4, INT8, TEXT, Table

TABLE = Table("t", {"a": INT8, "b": INT4, "c": INT2, "d": BOOL, "e": TEXT, "f": TEXT})
KINDS = [kind.number for kind in (INT8, INT4, INT2, BOOL)]


def signed(bits):
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


ROWS = st.lists(
    st.tuples(signed(64), signed(32), signed(16), st.booleans(), st.text(max_size=5)), min_size=1
)


def columns(rows):
    *numbers, texts = zip(*rows, strict=True)
    kinds = (np.int64, np.int64, np.int64, np.bool_)
    arrays = [np.array(each, dtype=kind) for each, kind in zip(numbers, kinds, strict=True)]
    return arrays, packing.Texts.of(pa.array(texts, pa.string()))


def told(rows):
    """The rows as another function packs them."""
    given_columns = [*map(list, zip(*rows, strict=True)), [None] * len(rows)]
    return [b"".join(row) for row in TABLE._rows(given_columns)]  # noqa: SLF001 - the other way


@given(ROWS)
def test_every_row_is_there_and_those_of_one_length_stay_in_order(rows):
    packed = list(packing.rows(KINDS, *columns(rows), 1))
    lengths = sorted({len(text.encode()) for *_, text in rows})
    expected = [
        b"".join(told([row for row in rows if len(row[-1].encode()) == length]))
        for length in lengths
    ]
    assert packed == expected


@given(ROWS, st.integers(1, 4))
def test_many_lengths_are_packed_part_by_part(rows, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "MOST_LENGTHS", most)
        packed = b"".join(packing.rows(KINDS, *columns(rows), 1))
    assert len(packed) == sum(map(len, told(rows)))
    assert all(row in packed for row in told(rows))


def test_parts_of_texts():
    texts = pa.array(["never", "a", "bc", "", "\u00e9\u00e9"], pa.string())[1:]
    whole = packing.Texts.of(texts)
    assert whole.lengths.tolist() == [1, 2, 0, 4]
    assert whole.part(1, 3).lengths.tolist() == [2, 0]
    assert whole.rectangle(np.array([1]), 2).tobytes() == b"bc"


@pytest.mark.parametrize("row", [(0, 2**31, 0, False, ""), (0, 0, -(2**15) - 1, False, "")])
def test_a_number_that_does_not_fit_is_told(row):
    numbers, texts = columns([row])
    with pytest.raises(CounterExhausted):
        list(packing.rows(KINDS, numbers, texts, 1))


@given(st.lists(st.text(max_size=5), max_size=9), st.data())
def test_texts_can_be_named_in_any_order_and_again(texts, data):
    whole = packing.Texts.of_strings(texts)
    at = data.draw(
        st.lists(st.sampled_from(range(len(texts))), max_size=9) if texts else st.just([])
    )
    taken = whole.take(np.array(at, dtype=np.int64))
    for length in {len(texts[each].encode()) for each in at}:
        chosen = [texts[each].encode() for each in at if len(texts[each].encode()) == length]
        where = np.flatnonzero(taken.lengths == length)
        assert taken.rectangle(where, length).tobytes() == b"".join(chosen)
    assert taken.lengths.tolist() == [len(texts[each].encode()) for each in at]
