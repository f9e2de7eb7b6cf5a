from __future__ import annotations

import random

import pytest

from amends_pipeline.inventory.envelope import STATUS_DAY, Cause, Envelope, Family, OutputId, Type
from amends_pipeline.inventory.view_batch import moves_of
from amends_pipeline.kernel.errors import FrontierMoved, ProtocolStop
from amends_pipeline.kernel.instants import MAX_DAY, MIN_DAY
from amends_pipeline.ports import Role
from amends_pipeline_tests.contracts.bench import STORY, provisioned
from amends_pipeline_tests.envelopes import LARGEST, SMALLEST, batch, envelopes
from amends_pipeline_tests.tables import FIRST_DAY, configuration

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


# --- rows as columns, each only over what it moves on from

FRESH = envelopes(
    """
    a day 1 alert v1 50, by A r1 at 0
    a day 1 balance v1 50, by A r1 at 0
    a day 2 balance v1 30, by Bé r1 at 1
    a status v1 READY, by A r1 at 0
    b status v1 BLOCKED by A r1, B r2, by B r2 at 7
    """
)
LATER = envelopes(
    """
    a day 1 alert v2 withdrawn, by A r2 at 8
    a day 1 balance v2 70, by A r2 at 8
    a day 1 balance v3 80, by A r3 at 9
    a status v2 BLOCKED by C r2, by C r2 at 9
    b status v2 READY, by B r3 at 9
    c day 2 balance v1 30, by B r1 at 9
    c day 2 balance v2 31, by B r2 at 9
    """
)


def moves(bench, rows):
    columns = moves_of(bench.config, 0, batch(rows))
    assert columns is not None
    return columns


def advance(bench, rows, start):
    token = bench.claim(Role.VIEW)
    return bench.store.advance_view(token, start, start + len(rows), moves(bench, rows))


def test_rows_that_move_on_are_stored(bench):
    assert advance(bench, FRESH, 0)
    assert stored(bench, FRESH) == by_id(FRESH)
    assert advance(bench, LATER, 5)
    assert stored(bench, FRESH + LATER) == by_id(FRESH) | by_id(LATER)
    assert bench.progress()[3:5] == (12, None)


IN_THE_WAY = {
    "the same again": "a day 1 balance v1 50, by A r1 at 0",
    "another of that version": "a day 1 balance v1 51, by A r1 at 0",
    "one that was passed": "a day 2 balance v2 30, by B r1 at 1",
    "the one before": "a day 2 balance v1 30, by B r1 at 1",
}


@pytest.mark.parametrize("line", IN_THE_WAY.values(), ids=IN_THE_WAY)
def test_nothing_is_done_when_one_row_does_not_move_on(bench, line):
    store(bench, [*FRESH[:2], FRESH[2]._replace(version=3)])
    among = envelopes(
        f"b day 1 balance v1 9, by Z r1 at 9\n {line}\n c status v1 READY, by Z r1 at 9"
    )
    token = bench.claim(Role.VIEW)
    with bench.unchanged():
        assert not bench.store.advance_view(token, 3, 6, moves(bench, among))
    assert stored(bench, among[::2]) == {}


def test_a_row_that_was_missed_may_be_left_to_a_closer_look(bench):
    """Of an output that is not stored a higher version than 1 came first."""
    late = envelopes("a day 1 balance v7 50, by A r7 at 0")
    done = advance(bench, late, 0)
    assert bench.progress().view_next == (1 if done else 0)
    assert stored(bench, late) == (by_id(late) if done else {})


@pytest.mark.parametrize("txn_id", ["x" * 601, "é" * 5_000])
def test_a_long_transaction_id_is_kept_whole_or_left_to_a_closer_look(bench, txn_id):
    rows = [FRESH[1], FRESH[2]._replace(cause=FRESH[2].cause._replace(txn_id=txn_id))]
    done = advance(bench, rows, 0)
    assert stored(bench, rows) == (by_id(rows) if done else {})


def drawn_rows(count, version):
    draw = random.Random(count)  # noqa: S311 - drawn rows, the same each time
    return [
        Envelope(
            *(draw.randrange(3), Type.BALANCE_STATED, at, version, draw.randrange(-(10**12), 99)),
            Cause(
                draw.randrange(2**40), draw.choice(["A", "é", "B-12", '"\\\u2028']) * version, at
            ),
            (),
        )
        for at in range(FIRST_DAY, FIRST_DAY + count)
    ]


def test_many_rows_move_on_as_few_do(bench):
    many = [*drawn_rows(300, 1), *FRESH[3:]]
    assert advance(bench, many, 0)
    assert stored(bench, many) == by_id(many)
    others = [row._replace(key=(row.key + 1) % 3) for row in drawn_rows(300, 1)]
    newer = [*drawn_rows(300, 2), *others, LATER[4]]
    token = bench.claim(Role.VIEW)
    with bench.unchanged():
        one_again = moves(bench, [*newer, FRESH[3]])
        assert not bench.store.advance_view(token, 302, 904, one_again)
    assert stored(bench, newer) == by_id(many[:300]) | by_id(FRESH[4:])
    assert advance(bench, [*newer, LATER[3]], 302)
    assert stored(bench, [*newer, LATER[3]]) == by_id([*newer, LATER[3]])


def test_many_rows_of_which_one_is_there_already_change_nothing(bench):
    many = drawn_rows(300, 1)
    store(bench, many[150:151])
    token = bench.claim(Role.VIEW)
    with bench.unchanged():
        assert not bench.store.advance_view(token, 1, 301, moves(bench, many))
    assert stored(bench, many) == by_id(many[150:151])


@pytest.mark.parametrize("start", [0, 4, 6])
def test_an_advance_must_start_at_the_views_frontier(bench, start):
    advance(bench, FRESH, 0)
    token = bench.claim(Role.VIEW)
    for rows in (LATER, FRESH):
        with bench.unchanged(), pytest.raises(FrontierMoved):
            bench.store.advance_view(token, start, 12, moves(bench, rows))


def test_a_view_that_stopped_does_not_advance(bench):
    store(bench, FRESH[:2], stop="why")
    token = bench.claim(Role.VIEW)
    for rows in (FRESH[2:], FRESH):
        with bench.unchanged(), pytest.raises(ProtocolStop, match="why"):
            bench.store.advance_view(token, 2, 5, moves(bench, rows))
