"""How many rows a unit has, in every ledger."""

from __future__ import annotations

import pytest

from amends_pipeline.kernel.errors import InputError, UnknownNamespace
from amends_pipeline.ports import Counted, Unit
from amends_pipeline_tests.contracts.bench import STORY, provisioned
from amends_pipeline_tests.tables import configuration

NOTHING = dict.fromkeys(Counted, 0)


def counts(bench, partition=0):
    return dict(bench.ledger.operations.row_counts(bench.unit(partition), Counted))


def test_a_unit_that_nobody_worked_on_has_no_rows(bench):
    assert counts(bench) == NOTHING


def test_each_record_that_was_processed_is_counted_once(bench):
    bench.drain(STORY)
    found = counts(bench)
    assert found == {
        Counted.TRANSACTIONS: 4,  # A and B of a; A and C of b
        Counted.OBSERVATIONS: 5,  # of A: superseded, twice, stale; of B: superseded; of C: other
        Counted.QUARANTINED: 1,
        Counted.PAGES: 2,
        Counted.OUTPUTS: 8,  # of a: two days, two alerts, a status; of b: two days, a status
        Counted.VISIBLE: 5,  # of a: a day, a status
    }
    evidence = (Counted.TRANSACTIONS, Counted.OBSERVATIONS, Counted.QUARANTINED)
    assert sum(found[each] for each in evidence) == 10


def test_days_are_counted_by_pages_of_64_and_withdrawn_ones_stay(bench):
    bench.drain("A r1 NEW day 1 -1\n B r1 NEW day 200 -1\n c/C r1 NEW day 200 -1")
    assert counts(bench)[Counted.PAGES] == 3
    bench.drain("B r2 CANCEL day 200")
    assert counts(bench)[Counted.PAGES] == 3


def test_what_is_withdrawn_stays_an_output_and_is_not_seen(bench):
    bench.drain("A r1 NEW day 1 -50")  # a balance, an alert, a status
    assert (counts(bench)[Counted.OUTPUTS], counts(bench)[Counted.VISIBLE]) == (3, 3)
    bench.drain("A r2 CANCEL day 1")
    assert (counts(bench)[Counted.OUTPUTS], counts(bench)[Counted.VISIBLE]) == (3, 1)


def test_units_are_counted_apart_and_only_what_is_asked_for(ledger):
    document = configuration(keys="ab", partitions=2)
    document["keys"][1]["partition"] = 1
    bench = provisioned(ledger, document)
    bench.drain("A r1 NEW day 1 -1\n B r1 NEW day 2 -1", partition=0)
    bench.drain("b/A r1 NEW day 1 -1", partition=1)
    asked = ledger.operations.row_counts(bench.unit(0), [Counted.TRANSACTIONS])
    assert asked == {Counted.TRANSACTIONS: 2}
    assert counts(bench, 1)[Counted.TRANSACTIONS] == 1
    assert ledger.operations.row_counts(bench.unit(0), []) == {}


def test_there_must_be_such_a_unit(bench):
    with pytest.raises(UnknownNamespace):
        bench.ledger.operations.row_counts(Unit("none", 0), Counted)
    with pytest.raises(InputError):
        bench.ledger.operations.row_counts(Unit("main", 7), Counted)
