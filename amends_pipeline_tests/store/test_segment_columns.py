"""Arrays and segments read as columns say what they say when they are read one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.inventory.envelope import ENCODER_VERSION
from amends_pipeline.ports import Segment
from amends_pipeline.store import array_columns, arrays, segment_columns, segments
from amends_pipeline_tests.contracts.bench import segments_of
from amends_pipeline_tests.envelopes import INT64, batch, drawn, envelopes
from amends_pipeline_tests.tables import FIRST_DAY

FOUR = """
    a day 1 alert v1 50, by A r1 at 0
    a day 1 balance v1 50, by A r1 at 0
    a day 2 balance v1 30, by Bé-2 r1 at 1
    a status v2 BLOCKED by A r1, B r2, by A r1 at 0
"""
BASE = 2**40
NAMES = ["base", "count", *segments.COLUMNS.split(", ")]


# --- arrays


@given(st.lists(INT64, max_size=40))
def test_integers_are_read_as_they_were_written(numbers):
    read = array_columns.integers(arrays.int8s(numbers), 8)
    assert read is not None
    assert read.tolist() == numbers


@pytest.mark.parametrize(("write", "size"), [(arrays.int2s, 2), (arrays.int4s, 4)])
@pytest.mark.parametrize("count", [0, 1, 40])
def test_smaller_integers_are_read_as_they_were_written(write, size, count):
    limit = 2 ** (8 * size - 1)
    numbers = ([-limit, limit - 1, 0, -1] * count)[:count]
    assert array_columns.integers(write(numbers), size).tolist() == numbers


@given(st.lists(st.text(max_size=5), max_size=40))
def test_texts_are_read_as_they_were_written(texts):
    assert array_columns.texts(arrays.texts(texts)) == texts


def test_what_is_no_plain_array_is_not_read():
    null = arrays.texts(["a", None])
    assert array_columns.texts(null) is None
    assert array_columns.integers(null, 4) is None
    assert array_columns.integers(arrays.int4s([1, 2]), 8) is None
    two_dimensions = (2).to_bytes(4, "big") + bytes(arrays.int4s([1]))[4:]
    assert array_columns.integers(two_dimensions, 4) is None


# --- segments


def cells(given_batch, base=BASE):
    """The binary cells of a segment's row, by name."""
    values = [
        base.to_bytes(8, "big"),
        len(given_batch).to_bytes(4, "big"),
        *segments.parameters(given_batch),
    ]
    row = dict(zip(NAMES, values, strict=True))
    return row | {"encoder_version": row["encoder_version"].to_bytes(4, "big")}


@given(st.lists(drawn(3, FIRST_DAY, FIRST_DAY + 3), min_size=1, max_size=30).map(batch))
def test_a_segment_is_read_as_it_was_written(given_batch):
    segment = segment_columns.read(list(cells(given_batch).values()))
    assert segment == Segment(BASE, given_batch)
    again = segments.parameters(segment.envelopes)
    assert again == segments.parameters(given_batch)


ODD = {
    "another encoder": {"encoder_version": (ENCODER_VERSION + 1).to_bytes(4, "big")},
    "another count": {"count": (5).to_bytes(4, "big")},
    "none at all": {"count": (0).to_bytes(4, "big")},
    "no types": {"type": None},
    "a null among the texts": {"cause_txn_id": arrays.texts(["A", None])},
    "no texts": {"cause_txn_id": None},
    "too few keys": {"key": arrays.int4s([0, 0, 0])},
    "too many keys": {"key": arrays.int4s([0] * 5)},
    "no versions": {"version": None},
    "a cause that is not there": {"cause_index": arrays.int4s([0, 0, 3, 0])},
    "a cause before the first": {"cause_index": arrays.int4s([0, -1, 1, 0])},
    "too few causes": {"cause_offset": arrays.int8s([0])},
    "reasons of nobody": {"reason_position": arrays.int4s([3, 4])},
    "reasons before the first": {"reason_position": arrays.int4s([-1, 3])},
    "reasons without revisions": {"reason_revision": None},
    "too few reasons": {"reason_txn_id": arrays.texts(["A"])},
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_a_segment_that_is_odd_is_left_to_who_can_tell(odd):
    row = cells(batch(envelopes(FOUR)))
    assert segment_columns.read(list(row.values())) is not None
    assert segment_columns.read(list((row | odd).values())) is None


# --- logs whose segments are all taken for long ones


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(segments, "MANY_ROWS", 1)
    monkeypatch.setattr(segments, "SEGMENT_ROWS", 3)


ROWS = envelopes(
    """
    a day 1 alert v1 50, by A r1 at 0
    a day 1 balance v1 50, by A r1 at 0
    a day 2 balance v1 30, by B r1 at 1
    a status v1 READY, by A r1 at 0
    b day 1 balance v1 50, by C r1 at 2
    b status v2 BLOCKED by A r1, B r2, by D r2 at 7
    c day 9 balance v1 -50, by B r1 at 1
    """
)


@pytest.mark.parametrize("start", range(7))
@pytest.mark.parametrize("limit", [1, 3, 100])
def test_a_long_batch_is_kept_in_several_segments(bench, small, start, limit):
    outputs, unit = bench.ledger.outputs, bench.unit()
    outputs.append(unit, batch(ROWS[:1]))
    assert outputs.append(unit, batch(ROWS[1:])) == 1
    stored = bench.ledger.sql(
        "SELECT base, count, cardinality(cause_txn_id) FROM amends.output_segment ORDER BY base"
    )
    assert stored == [(0, 1, 1), (1, 3, 3), (4, 3, 3)]
    rows = segments_of(outputs.read(unit, start, limit))
    assert rows == list(enumerate(ROWS))[start : start + len(rows)]
    assert limit <= len(rows) <= limit + 2 or len(rows) == 7 - start


def test_the_relay_takes_long_segments_as_they_are(bench, small):
    bench.work("A r1 NEW day 1 -50\n B r1 NEW day 2 -20\n b/A r1 NEW day 2 -30", size=3)
    sent = []
    outbox = [each for _, _, each in bench.store.outbox(bench.unit())]
    assert len(outbox) == 6
    bench.publish()
    for segment in bench.ledger.outputs.read(bench.unit(), 0, 100):
        sent += segment.envelopes
    assert sent == outbox
