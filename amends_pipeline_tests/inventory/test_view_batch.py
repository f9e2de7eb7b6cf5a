"""Envelopes applied together do what envelopes applied in order do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.inventory.config import parse_configuration
from amends_pipeline.inventory.envelope_columns import EnvelopeColumns
from amends_pipeline.inventory.view import apply
from amends_pipeline.inventory.view_batch import moves_of, output_ids
from amends_pipeline_tests.envelopes import LARGEST, batch, drawn, envelope
from amends_pipeline_tests.inventory.test_view_malformed import (
    AFTER,
    BLOCKED,
    GOOD,
    MALFORMED,
    READY,
)
from amends_pipeline_tests.tables import FIRST_DAY, configuration

CONFIG = parse_configuration(configuration(keys="abc"))


@st.composite
def streams(draw):
    """Rows that stand stored, and a batch; in most of them versions rise as they should."""
    few = drawn(3, FIRST_DAY, FIRST_DAY + 1)
    stored = {one.output_id: one for one in draw(st.lists(few, max_size=4))}
    versions = {output: row.version for output, row in stored.items()}
    delivered = []
    for one in draw(st.lists(few, max_size=12)):
        version = versions.get(one.output_id, 0) + draw(st.sampled_from([1, 1, 1, 1, 1, 1, 3, 0]))
        version = min(max(version, 1), LARGEST)
        versions[one.output_id] = version
        delivered.append(one._replace(version=version))
    return stored, delivered


@given(streams(), st.booleans())
def test_together_they_do_what_they_do_in_order(drawn_streams, as_columns):
    stored, delivered = drawn_streams
    given_batch = batch(delivered)
    expected = apply(CONFIG, 0, stored, given_batch)
    if as_columns:
        given_batch = EnvelopeColumns.of(given_batch)
    moves = moves_of(CONFIG, 0, given_batch)
    all_move_on = moves is not None and moves.pass_over(stored)
    if expected.fault or expected.duplicates or expected.outdated or not delivered:
        assert not all_move_on
    else:
        assert all_move_on
        assert moves.rows() == expected.rows
        assert list(moves.rows()) == sorted(expected.rows)
        for row in moves.rows().values():
            assert {type(number) for number in (*row[:5], *row.cause)} == {int, str}
    assert output_ids(given_batch) == {one.output_id for one in delivered}


@given(streams())
def test_whether_they_pass_over_what_is_stored_is_told_row_by_row(drawn_streams):
    stored, delivered = drawn_streams
    moves = moves_of(CONFIG, 0, batch(delivered))
    if moves is None:
        return
    first = {}
    for one in delivered:
        first.setdefault(one.output_id, one.version)
    expected = all(first[output] > row.version for output, row in stored.items() if output in first)
    assert moves.pass_over(stored) == expected


@pytest.mark.parametrize("one", [each[0] for each in MALFORMED.values()], ids=MALFORMED)
def test_what_is_malformed_is_found_among_others(one):
    delivered = batch([READY, one, AFTER])
    assert moves_of(CONFIG, 0, delivered) is None
    ids = {READY.output_id, AFTER.output_id}
    if 1 <= one.type <= 6:
        ids.add(one.output_id)
    assert output_ids(delivered) == ids


def test_an_envelope_of_another_partition_is_found():
    assert moves_of(CONFIG, 1, batch([GOOD])) is None


def test_the_last_of_each_output_is_what_moves_on():
    later = envelope("a day 3 balance v3 71, by A r3 at 5")
    last = envelope("a day 3 balance v4 withdrawn, by A r4 at 6")
    moves = moves_of(CONFIG, 0, batch([READY, BLOCKED, later, last, AFTER]))
    assert list(moves.rows().values()) == [last, AFTER, BLOCKED]
    assert moves.above.tolist() == [3, 1, 1]
    assert moves.pass_over({GOOD.output_id: GOOD})
    assert not moves.pass_over({GOOD.output_id: later})
    assert not moves.pass_over({BLOCKED.output_id: READY})
