"""Envelopes as columns are the envelopes that they were made of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.inventory.envelope import EnvelopeBatch, joined
from amends_pipeline.inventory.envelope_columns import EnvelopeColumns, together
from amends_pipeline_tests.envelopes import LARGEST, batch, drawn, envelope
from amends_pipeline_tests.tables import FIRST_DAY

ONE = envelope("a day 1 balance v2 70, by A r2 at 3")
BATCHES = st.lists(drawn(3, FIRST_DAY, FIRST_DAY + 3), max_size=9).map(batch)


def columns_of(given_batch):
    columns = EnvelopeColumns.of(given_batch)
    assert columns is not None
    return columns


def plain(value):
    """Whether all numbers within are Python's own."""
    if isinstance(value, (tuple, list)):
        return all(map(plain, value))
    return not hasattr(value, "dtype")


@given(BATCHES)
def test_they_are_the_same_envelopes(given_batch):
    columns = columns_of(given_batch)
    assert len(columns) == len(given_batch)
    assert columns.listed() == given_batch
    seen = list(columns)
    assert seen == list(given_batch)
    assert [columns.at(i) for i in range(len(columns))] == seen
    assert plain(seen)
    assert plain([columns.at(i) for i in range(len(columns))])


@given(BATCHES, BATCHES)
def test_they_are_equal_when_their_envelopes_are(one, other):
    same = list(one) == list(other)
    assert (columns_of(one) == columns_of(other)) == same
    assert (columns_of(one) == other) == (other == columns_of(one)) == same
    assert columns_of(one) == one == columns_of(one)
    assert columns_of(one) != list(one)


@given(BATCHES, st.data())
def test_a_part_has_its_envelopes_and_the_causes_that_they_need(given_batch, data):
    cuts = st.integers(0, len(given_batch))
    low, high = sorted((data.draw(cuts), data.draw(cuts)))
    part = columns_of(given_batch).slice(low, high)
    assert list(part) == list(given_batch)[low:high] == list(given_batch.slice(low, high))
    assert sorted(set(part.cause_index.tolist())) == list(range(len(part.causes)))


@given(st.lists(st.tuples(BATCHES, st.booleans()), max_size=4))
def test_together_they_follow_one_another(parts):
    given_parts = [columns_of(part) if columns else part for part, columns in parts]
    whole = together(given_parts)
    assert list(whole) == list(joined([part for part, _ in parts]))
    assert plain(list(whole))
    some = any(columns for _, columns in parts)
    assert isinstance(whole, EnvelopeColumns if some else EnvelopeBatch)


@pytest.mark.parametrize("member", ["key", "type", "day", "version", "close"])
def test_a_number_of_65_bits_makes_no_column(member):
    long = batch([ONE, ONE._replace(**{member: LARGEST + 1})])
    assert EnvelopeColumns.of(long) is None
    whole = together([columns_of(batch([ONE])), long])
    assert whole == joined([batch([ONE]), long])
