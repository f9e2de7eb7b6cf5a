"""Envelopes applied together do what envelopes applied in order do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.inventory import view_batch
from amends_pipeline.inventory.config import parse_configuration
from amends_pipeline.inventory.view import apply
from amends_pipeline.inventory.view_batch import apply_batch, output_ids
from amends_pipeline_tests.envelopes import LARGEST, batch, drawn, envelope
from amends_pipeline_tests.inventory.test_view_malformed import AFTER, GOOD, MALFORMED, READY
from amends_pipeline_tests.tables import FIRST_DAY, configuration

CONFIG = parse_configuration(configuration(keys="abc"))


@st.composite
def streams(draw):
    """Rows that stand stored, and a batch; in most of them versions rise as they should."""
    few = drawn(3, FIRST_DAY, FIRST_DAY + 1)
    if draw(st.booleans()):
        few = few.filter(lambda one: not one.reasons)
    stored = {one.output_id: one for one in draw(st.lists(few, max_size=4))}
    versions = {output: row.version for output, row in stored.items()}
    delivered = []
    for one in draw(st.lists(few, max_size=12)):
        version = versions.get(one.output_id, 0) + draw(st.sampled_from([1, 1, 1, 1, 1, 1, 3, 0]))
        version = min(max(version, 1), LARGEST)
        versions[one.output_id] = version
        delivered.append(one._replace(version=version))
    return stored, delivered


@given(streams())
def test_together_they_do_what_they_do_in_order(drawn_streams):
    stored, delivered = drawn_streams
    applied = apply_batch(CONFIG, 0, stored, batch(delivered))
    expected = apply(CONFIG, 0, stored, batch(delivered))
    assert applied == expected
    assert {type(number) for row in applied.rows.values() for number in row[1:5]} <= {int} | {
        type(one.type) for one in delivered
    }
    assert output_ids(batch(delivered)) == {one.output_id for one in delivered}


@pytest.mark.parametrize("one", [each[0] for each in MALFORMED.values()], ids=MALFORMED)
def test_what_is_malformed_is_found_among_others(one):
    delivered = batch([READY, one, AFTER])
    applied = apply_batch(CONFIG, 0, {}, delivered)
    assert applied == apply(CONFIG, 0, {}, delivered)
    assert applied.fault is not None
    ids = {READY.output_id, AFTER.output_id}
    if 1 <= one.type <= 6:
        ids.add(one.output_id)
    assert output_ids(delivered) == ids


def test_an_envelope_of_another_partition_is_found():
    applied = apply_batch(CONFIG, 1, {}, batch([GOOD]))
    assert applied.fault == apply(CONFIG, 1, {}, batch([GOOD])).fault
    assert applied.fault is not None


def test_the_ordinary_case_is_not_left_to_the_careful_way(monkeypatch):
    def refuse(*_):
        raise AssertionError

    monkeypatch.setattr(view_batch, "apply", refuse)
    stored = {GOOD.output_id: GOOD}
    later = envelope("a day 3 balance v3 71, by A r3 at 5")
    last = envelope("a day 3 balance v4 withdrawn, by A r4 at 6")
    applied = apply_batch(CONFIG, 0, stored, batch([READY, later, last, AFTER]))
    assert list(applied.rows.values()) == [READY, last, AFTER]
    assert (applied.consumed, applied.duplicates, applied.outdated) == (4, 0, 0)
