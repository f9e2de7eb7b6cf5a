from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.kernel import arrow


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_integers(numbers):
    column = arrow.integers(np.array(numbers, dtype=np.int64))
    column.validate(full=True)
    assert column.equals(pa.array(numbers, pa.int64()))


def test_integers_of_a_column_with_steps():
    assert arrow.integers(np.arange(9)[::-4]).to_pylist() == [8, 4, 0]


@given(st.lists(st.booleans(), max_size=20))
def test_booleans(flags):
    column = arrow.booleans(np.array(flags, dtype=np.bool_))
    column.validate(full=True)
    assert column.equals(pa.array(flags, pa.bool_()))


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=5)))
def test_texts(strings):
    column = arrow.texts(strings)
    column.validate(full=True)
    assert column.equals(pa.array(strings, pa.string()))


def test_rows_are_taken_in_their_order():
    column = arrow.texts(["a", "é", "", "b"])
    assert arrow.taken(column, np.array([3, 1, 1])).to_pylist() == ["b", "é", "é"]
    with pytest.raises(IndexError):
        arrow.taken(column, np.array([4]))


BY_COLUMNS = """
import sys
from amends_pipeline.inventory import oracle
from amends_pipeline.inventory.config import parse_configuration

config = parse_configuration({
    "schema_version": 1, "namespace": "n", "source": "s", "partitions": 1,
    "origin": "2026-01-01T00:00:00Z",
    "keys": [{"stock_key": {"item": "I", "location": "L"},
              "opening_balance": 1, "reorder_threshold": 1}],
})
good = (b'{"txn_id":"T","revision":1,"kind":"NEW","stock_key":{"item":"I","location":"L"},'
        b'"valid_time":"2026-01-01T12:00:00Z","qty":-1,"source_time":"2026-01-01T12:00:00Z"}')
batch = oracle.RawBatch(range(3), [None] * 3, [b"{", good, good.replace(b"T", b"\\\\u0041", 1)])
result = oracle.compute(config, [oracle.History(0, [batch], frozenset())])
assert list(result.balances.rows()) == [(0, 20454, -1)]
assert "pandas" not in sys.modules
"""


def test_columns_do_not_bring_pandas_along():
    subprocess.run([sys.executable, "-c", BY_COLUMNS], check=True)
