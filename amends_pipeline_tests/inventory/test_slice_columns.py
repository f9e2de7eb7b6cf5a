"""Records read as columns are the records that are read as values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.inventory.config import parse_configuration
from amends_pipeline.inventory.slice import read_slice
from amends_pipeline.inventory.slice_columns import one_behind_the_other, read_columns
from amends_pipeline_tests.driver import records, source
from amends_pipeline_tests.inventory.test_slice import arbitrary
from amends_pipeline_tests.strategies import configurations, histories
from amends_pipeline_tests.tables import Line, configuration, history

CONFIG = parse_configuration(configuration())


def assert_same(config, lines, *, partition=0, aside=frozenset()):
    cut = records(source(lines, 3))
    slice_ = read_slice(config, partition, cut, aside)
    columns = read_columns(config, partition, cut, aside)
    assert (columns.start, columns.until) == (slice_.start, slice_.until)
    assert list(columns.accepted.accepted()) == slice_.accepted
    assert columns.rejections == slice_.rejections


@st.composite
def logs(draw):
    config = draw(configurations())
    return parse_configuration(config), draw(histories(config, 20))


@given(logs(), st.integers(0, 1), st.sets(st.integers(0, 60).map(lambda n: n * 3)))
def test_any_history(drawn, partition, aside):
    config, lines = drawn
    assert_same(config, lines, partition=partition, aside=frozenset(aside))


@given(st.lists(st.tuples(arbitrary, st.none() | st.binary(max_size=30)), max_size=5))
def test_any_bytes(pairs):
    assert_same(CONFIG, [Line(value, key) for value, key in pairs])


@pytest.mark.parametrize("origin", ["2026-01-01T12:00:00Z", "2026-01-01T12:00:00.000000001Z"])
def test_the_origin_counts_to_the_nanosecond(origin):
    config = parse_configuration(configuration(origin=origin))
    lines = history("A r1 NEW day 1 5\nB r1 NEW day 2 5")
    assert_same(config, lines)
    columns = read_columns(config, 0, records(source(lines)), frozenset())
    assert columns.accepted.txn_ids.to_pylist() == (["A", "B"] if "." not in origin else ["B"])


def test_transport_keys():
    plain = history("A r1 NEW day 1 5")[0]
    right = b'["DEMO-PART","DEPOT-A"]'
    keyed = [plain, plain._replace(raw_key=right), plain._replace(raw_key=right + b" ")]
    assert_same(CONFIG, keyed)
    assert_same(CONFIG, keyed, partition=1)


def test_parts_are_put_one_behind_the_other():
    lines = history("A r1 NEW day 1 5\nmalformed\nB r2 CANCEL day 3\nmalformed\nC r1 NEW day 1 5")
    whole = records(source(lines))
    parts = [
        read_columns(
            CONFIG,
            0,
            whole._replace(
                start=start,
                until=until,
                offsets=whole.offsets[start:until],
                keys=whole.keys[start:until],
                values=whole.values[start:until],
            ),
            frozenset(),
        )
        for start, until in ((0, 2), (2, 3), (3, 5))
    ]
    joined = one_behind_the_other(parts)
    slice_ = read_slice(CONFIG, 0, whole, frozenset())
    assert list(joined.accepted.accepted()) == slice_.accepted
    assert joined.rejections == slice_.rejections
    assert (joined.start, joined.until) == (0, 5)
