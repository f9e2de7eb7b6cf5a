from __future__ import annotations

import numpy as np
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amends_pipeline.kernel.errors import CounterExhausted
from amends_pipeline.store import arrays, bulk

INT8 = (-(2**63), 2**63 - 1)
FEW, MANY = 3, 40
"""On both sides of where numpy takes over."""


@pytest.fixture(scope="module")
def connection(postgres_server):
    with psycopg.connect(postgres_server.lease.url("postgres"), autocommit=True) as opened:
        arrays.register(opened)
        yield opened


def told(connection, array):
    """What PostgreSQL makes of an array, read back by psycopg's own loader."""
    return connection.execute("SELECT %s", (array,), binary=True).fetchone()[0]


@pytest.mark.parametrize(
    ("write", "column"),
    [
        (arrays.bools, [True, False]),
        (arrays.int2s, [0, -1, 2**15 - 1, -(2**15)]),
        (arrays.int4s, [0, -1, 2**31 - 1, -(2**31)]),
        (arrays.int8s, [0, -1, *INT8]),
        (arrays.texts, ["", "a", "NULL", '{"', "é😀", "x" * 3_000]),
        (arrays.texts, ["a", None, ""]),
        (arrays.blobs, [b"", b"\x00\xff", b"NULL"]),
        (arrays.blobs, [None, b"a"]),
    ],
)
@pytest.mark.parametrize("times", [0, 1, 20])
def test_postgresql_reads_what_was_written(connection, write, column, times):
    assert told(connection, write(column * times)) == column * times


@pytest.mark.parametrize("write", [arrays.int2s, arrays.int4s, arrays.int8s])
@pytest.mark.parametrize("values", [[7], list(range(24)), list(range(25)), range(100), (1, 2)])
def test_any_sequence_of_any_length_is_written_the_same_way(connection, write, values):
    assert told(connection, write(values)) == list(values)


@pytest.mark.parametrize("count", [FEW, MANY])
@pytest.mark.parametrize(
    ("write", "bits"), [(arrays.int2s, 16), (arrays.int4s, 32), (arrays.int8s, 64)]
)
@pytest.mark.parametrize("sign", [1, -1])
def test_an_integer_that_does_not_fit_is_refused_not_cut(write, bits, count, sign):
    largest = 2 ** (bits - 1) - (sign > 0)
    assert write([0] * count + [sign * largest])
    with pytest.raises(CounterExhausted, match=f"integers of {bits} bits"):
        write([0] * count + [sign * (largest + 1)])


@pytest.mark.parametrize("count", [FEW, MANY])
@pytest.mark.parametrize(
    ("write", "bits"), [(arrays.int2s, 16), (arrays.int4s, 32), (arrays.int8s, 64)]
)
def test_a_numpy_column_is_written_as_its_numbers_are(write, bits, count):
    limit = 2 ** (bits - 1)
    numbers = [*range(count), -limit, limit - 1]
    assert write(np.array(numbers)) == write(numbers)
    if bits < 64:
        for far in (-limit - 1, limit):
            with pytest.raises(CounterExhausted, match=f"integers of {bits} bits"):
                write(np.array([*numbers, far]))


@given(st.lists(st.text(max_size=3), min_size=1), st.data())
def test_texts_are_written_as_often_as_they_are_named(texts, data):
    at = data.draw(st.lists(st.sampled_from(range(len(texts)))))
    named = arrays.texts_at(texts, np.array(at, dtype=np.int64))
    assert named == arrays.texts([texts[each] for each in at])


def test_an_integer_too_long_to_print_is_refused_too():
    with pytest.raises(CounterExhausted):
        arrays.int8s([10**5_000])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.lists(st.integers(*INT8), max_size=60), st.lists(st.text('a\\{},"\n 😀'), max_size=60))
def test_arrays_keep_everything(connection, numbers, words):
    assert told(connection, arrays.int8s(numbers)) == numbers
    assert told(connection, arrays.texts(words)) == words


# --- rows from columns

THINGS = bulk.Table(
    "things",
    {"big": bulk.INT8, "small": bulk.INT2, "flag": bulk.BOOL, "word": bulk.TEXT, "raw": bulk.BLOB},
)


@pytest.fixture
def things(connection):
    connection.execute(
        "CREATE TEMPORARY TABLE things (big int8, small int2, flag boolean, word text, raw bytea)"
    )
    yield lambda: connection.execute("SELECT * FROM things ORDER BY big", binary=True).fetchall()
    connection.execute("DROP TABLE things")


def written(connection, columns, *, copying):
    write = THINGS.copy if copying else THINGS.insert
    write(connection, columns)


def rows_of(count):
    return [
        (i, i % 3 - 1, i % 2 == 0, f"é{i}" * (i % 5), bytes([i % 256]) if i % 7 else None)
        for i in range(count)
    ]


def columns_of(rows):
    return [list(column) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize("copying", [True, False])
@pytest.mark.parametrize("count", [1, 2, 255, 1_000])
def test_rows_arrive_alike_either_way(connection, things, count, copying):
    rows = rows_of(count)
    written(connection, columns_of(rows), copying=copying)
    assert things() == rows


def test_a_copy_goes_out_in_parts(connection, things, monkeypatch):
    monkeypatch.setattr(bulk, "_COPY_AT_ONCE", 100)
    rows = rows_of(301)
    THINGS.copy(connection, columns_of(rows))
    assert things() == rows


@pytest.mark.parametrize("copying", [True, False])
def test_no_rows_are_no_statement(connection, things, copying):
    written(connection, [[], [], [], [], []], copying=copying)
    assert things() == []


@pytest.mark.parametrize("copying", [True, False])
@pytest.mark.parametrize("words", [["", "a"], [None, "a"], [None, None], ["a", None]])
def test_nulls_and_empty_texts_stay_apart(connection, things, copying, words):
    rows = [(i, 0, False, words[i % 2], None) for i in range(9)]
    written(connection, columns_of(rows), copying=copying)
    assert things() == rows


@pytest.mark.parametrize("copying", [True, False])
def test_rows_of_which_one_does_not_fit_are_refused(connection, things, copying):
    rows = [(i, 2**15 - (i < 8), False, "", None) for i in range(9)]
    with pytest.raises(CounterExhausted, match="integers of 16 bits"):
        written(connection, columns_of(rows), copying=copying)
    assert things() == []


@pytest.mark.parametrize(
    ("sizes", "parts"),
    [
        ([], [[]]),
        ([1, 2, 3], [[1, 2, 3]]),
        ([5, 5], [[5, 5]]),
        ([5, 5, 1], [[5, 5], [1]]),
        ([11, 1, 30, 9, 2], [[11], [1], [30], [9], [2]]),
        ([0, 11], [[0], [11]]),
    ],
    ids=str,
)
def test_parts_are_as_large_as_one_parameter_may_be(sizes, parts, monkeypatch):
    monkeypatch.setattr(bulk, "LARGEST_BYTES", 10)
    assert [sizes[part] for part in bulk.runs(sizes)] == parts
