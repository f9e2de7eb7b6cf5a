from __future__ import annotations

import pytest

from amends_pipeline.inventory.envelope import STATUS_DAY, Cause, Envelope, Family, OutputId, Type
from amends_pipeline.kernel.errors import FrontierMoved, ProtocolStop
from amends_pipeline.kernel.instants import MAX_DAY, MIN_DAY
from amends_pipeline.ports import Role
from amends_pipeline_tests.contracts.bench import STORY, provisioned
from amends_pipeline_tests.envelopes import LARGEST, SMALLEST, envelopes
from amends_pipeline_tests.tables import configuration

ROWS = envelopes(
    """
    a day 1 alert v2 withdrawn, by A r2 at 3
    a day 1 balance v2 70, by A r2 at 3
    a day 3 balance v3 withdrawn, by B r2 at 4
    a status v2 BLOCKED by A r1, B r2, by B r2 at 7
    b day 2 alert v1 50, by A r2 at 3
    b status v1 READY, by C r1 at 3
    """
)
EXTREMES = [
    Envelope(0, Type.BALANCE_STATED, MIN_DAY, LARGEST, SMALLEST, Cause(LARGEST, "x", LARGEST), ()),
    Envelope(0, Type.ALERT_RAISED, MAX_DAY, 1, LARGEST, Cause(0, '"\\\u2028\x01', 1), ()),
    Envelope(2, Type.BALANCE_STATED, 0, 1, -1, Cause(0, "x" * 5_000, 1), ()),
    Envelope(
        *(1, Type.BLOCKED_STATED, STATUS_DAY, 1, 0, Cause(0, "Cafe\u0301", 1)),
        (("Caf\u00e9", 1), ("Caf\u00e9", LARGEST), ("\uff61", 1), ("\U0001f600", 1)),
    ),
]


def by_id(rows):
    return {row.output_id: row for row in rows}


def store(bench, rows, start=0, until=None, stop=None):
    token = bench.claim(Role.VIEW)
    end = start + len(rows) if until is None else until
    bench.store.commit_view(token, start, end, by_id(rows), stop)


def stored(bench, rows):
    return dict(bench.store.view_rows(bench.unit(), [row.output_id for row in rows]))


def test_rows_come_back_withdrawals_too(bench):
    store(bench, ROWS)
    assert stored(bench, ROWS) == by_id(ROWS)
    assert bench.progress().view_next == 6
    again = type(bench)(bench.ledger.reopened(), bench.config)
    assert stored(again, ROWS) == by_id(ROWS)


def test_extreme_rows_come_back(ledger):
    bench = provisioned(ledger, configuration(keys="abc", origin="0001-01-01T00:00:00Z"))
    store(bench, EXTREMES)
    assert stored(bench, EXTREMES) == by_id(EXTREMES)


def test_only_what_is_asked_and_stored_is_returned(bench):
    store(bench, ROWS[:2])
    never = [OutputId(Family.BALANCE, 2, 20_500), OutputId(Family.KEY_STATUS, 0, STATUS_DAY)]
    asked = [ROWS[1].output_id, *never]
    assert dict(bench.store.view_rows(bench.unit(), asked)) == by_id(ROWS[1:2])
    assert dict(bench.store.view_rows(bench.unit(), [])) == {}


def test_a_row_replaces_the_row_of_its_output(bench):
    store(bench, ROWS)
    newer = envelopes(
        """
        a day 1 alert v3 40, by D r1 at 9
        a day 1 balance v3 withdrawn, by A r3 at 8
        a status v3 READY, by B r3 at 9
        """
    )
    store(bench, newer, 6)
    assert stored(bench, ROWS) == by_id(ROWS) | by_id(newer)


def test_the_frontier_moves_over_rows_that_change_nothing(bench):
    store(bench, ROWS)
    store(bench, [], 6, 10)
    assert bench.progress().view_next == 10
    assert stored(bench, ROWS) == by_id(ROWS)


@pytest.mark.parametrize("start", [0, 5, 7])
def test_a_commit_must_start_at_the_views_frontier(bench, start):
    store(bench, ROWS)
    token = bench.claim(Role.VIEW)
    late = envelopes("a day 1 balance v9 1, by Z r1 at 99")
    with bench.unchanged(), pytest.raises(FrontierMoved):
        bench.store.commit_view(token, start, 10, by_id(late), None)
    assert stored(bench, late) == by_id(ROWS[1:2])


def test_a_stop_keeps_what_came_before_it_and_ends_the_view(bench):
    why = 'expected "a\u2028b", found \\x1b[31m' + "x" * 5_000
    store(bench, ROWS[:4], 0, 4, stop=why)
    progress = bench.progress()
    assert (progress.view_next, progress.view_stop) == (4, why)
    assert stored(bench, ROWS) == by_id(ROWS[:4])
    token = bench.claim(Role.VIEW)
    for stop in (None, why):
        with bench.unchanged(), pytest.raises(ProtocolStop):
            bench.store.commit_view(token, 4, 6, by_id(ROWS[4:]), stop)


def test_a_stop_can_come_with_no_row_at_all(bench):
    store(bench, [], 0, 0, stop="why")
    assert bench.progress()[3:5] == (0, "why")


def test_reset_forgets_rows_stop_and_frontier_and_nothing_else(bench):
    bench.drain(STORY)
    before = bench.observed()
    store(bench, [], bench.progress().view_next, stop="why")
    bench.store.reset_view(bench.claim(Role.VIEW))
    assert bench.progress()[3:5] == (0, None)
    outputs = [each.output_id for _, _, each in bench.store.outbox(bench.unit())]
    assert dict(bench.store.view_rows(bench.unit(), outputs)) == {}
    with bench.store.snapshot("main") as snapshot:
        assert list(snapshot.visible()) == []
    bench.project()
    after = bench.observed()
    for observed in (before, after):
        observed["main|p0"]["progress"] = observed["main|p0"]["progress"][:5]
        observed["snapshot"]["progress"] = observed["snapshot"]["progress"][0][:5]
    assert after == before


def test_views_of_other_units_are_left_alone(ledger):
    keys = configuration(keys="abc", partitions=2)["keys"]
    keys[2]["partition"] = 1
    one = provisioned(ledger, configuration(partitions=2) | {"keys": keys})
    other = provisioned(ledger, configuration(partitions=2, namespace="other") | {"keys": keys})
    on_1 = envelopes("c status v1 READY, by A r1 at 0")
    for bench in (one, other):
        store(bench, ROWS)
        ledger.store.commit_view(bench.claim(Role.VIEW, 1), 0, 1, by_id(on_1), None)
    one.store.reset_view(one.claim(Role.VIEW, 0))
    assert stored(one, ROWS) == {}
    assert stored(other, ROWS) == by_id(ROWS)
    for bench in (one, other):
        rows = ledger.store.view_rows(bench.unit(1), [on_1[0].output_id])
        assert dict(rows) == by_id(on_1)


def test_what_was_stored_is_not_shared(bench):
    given = by_id(ROWS)
    bench.store.commit_view(bench.claim(Role.VIEW), 0, 6, given, None)
    given.clear()
    found = bench.store.view_rows(bench.unit(), by_id(ROWS))
    if isinstance(found, dict):
        found.clear()
    assert stored(bench, ROWS) == by_id(ROWS)
