"""Rows of a unit as a person counts them with SQL."""

from __future__ import annotations

import pytest

from amends_pipeline.ports import Counted
from amends_pipeline.store import counting
from amends_pipeline_tests.contracts.bench import STORY

OF_TABLE = "SELECT count(*) FROM amends.{} WHERE unit_id = %s"
OF_VIEW = "SELECT count(*) FROM amends.{} WHERE namespace = 'main'"
TABLES = {
    Counted.TRANSACTIONS: "authority",
    Counted.OBSERVATIONS: "observation",
    Counted.QUARANTINED: "quarantine",
    Counted.PAGES: "key_page",
    Counted.OUTPUTS: "view_row",
}
READERS_VIEWS = ["balance", "alert", "key_status"]


def counts(bench):
    return dict(bench.ledger.operations.row_counts(bench.unit(), Counted))


@pytest.mark.parametrize("counted", TABLES)
def test_a_table_is_counted_as_with_sql(bench, counted):
    bench.drain(STORY)
    statement, unit_id = OF_TABLE.format(TABLES[counted]), bench.ledger.unit_id(bench.unit())
    [(by_hand,)] = bench.ledger.sql(statement, unit_id)
    assert counts(bench)[counted] == by_hand > 0


def test_what_readers_see_is_counted_as_with_sql(bench):
    bench.drain(STORY)
    by_hand = [bench.ledger.sql(OF_VIEW.format(view))[0][0] for view in READERS_VIEWS]
    assert counts(bench)[Counted.VISIBLE] == sum(by_hand) > 0


@pytest.mark.parametrize("view", ["outbox", "output_log"])
def test_frontiers_count_the_envelopes_that_people_see_with_sql(bench, view):
    bench.drain(STORY)
    [(by_hand,)] = bench.ledger.sql(OF_VIEW.format(view))
    ends = {
        "outbox": bench.progress().next_sequence,
        "output_log": bench.ledger.outputs.end(bench.unit()),
    }
    assert ends[view] == by_hand > 0


def test_counting_that_takes_too_long_is_given_up(bench, monkeypatch):
    monkeypatch.setattr(counting, "COUNTS", dict.fromkeys(Counted, "SELECT count(pg_sleep(30))"))
    monkeypatch.setattr(counting, "SET_TIMEOUT", "SET LOCAL statement_timeout = '50ms'")
    assert counts(bench) == {}
    monkeypatch.undo()
    assert counts(bench) == dict.fromkeys(Counted, 0)
