"""Why a balance is what it is: tables in words, then properties over any history."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.inventory.explain import Published, explain
from amends_pipeline.inventory.refold import EVERY_DAY, Status
from amends_pipeline_tests import strategies
from amends_pipeline_tests.driver import drive, source
from amends_pipeline_tests.tables import configuration, day, history


def why(text: str, number: int, key: int = 0, sizes=()):
    """Explain key `a` (or another) at the end of day `number`, after a history."""
    run = drive(configuration(), source(history(text)), sizes)
    return explanation(run, key, day(number))


def explanation(run, key, when):
    shelf = run.shelf
    authorities = [
        (txn, entry) for (owner, txn), entry in shelf.authorities.items() if owner == key
    ]
    observations = [entry for entry in shelf.observations if entry.key == key]
    # In no particular order: an explanation puts them into its own.
    return explain(shelf.key(key, EVERY_DAY), authorities[::-1], observations, when)


def contributing(found) -> list[str]:
    return [
        f"{txn_id} r{candidate.revision} at {offset}: {candidate.qty} -> {close}"
        for txn_id, offset, candidate, close in found.contributing
    ]


def bystanders(found) -> list[str]:
    return [
        f"{txn_id} r{candidate.revision} at {offset}: {fate}" + ("" if by is None else f" by {by}")
        for txn_id, offset, candidate, fate, by in found.bystanders
    ]


def conflicts(found) -> list[str]:
    return [
        f"{txn_id} r{revision} {'current' if current else 'ended'} at "
        + ", ".join(str(assertion.offset) for assertion in assertions)
        for txn_id, revision, current, assertions in found.conflicts
    ]


STORY = """
    B r1 NEW day 2 -20
    A r1 NEW day 1 -50
    A r2 AMEND day 1 -30
    C r1 NEW day 3 50
    C r2 CANCEL day 3
    A r1 NEW day 1 -50
    A r2 AMEND day 1 -30
"""


def test_opening_and_transactions_in_the_order_of_their_valid_times():
    found = why(STORY, 2)
    assert (found.opening, found.balance, found.computed) == (100, 50, 50)
    assert contributing(found) == ["A r2 at 2: -30 -> 70", "B r1 at 0: -20 -> 50"]
    assert found.published == Published(day(2), 50, alerting=True)


def test_valid_times_come_before_names_and_names_before_offsets():
    text = """
        C r1 NEW day 2 -1
        Z r1 NEW day 1 at 00:00:00 -2
        B r1 NEW day 2 -4
        A r1 NEW day 2 at 12:00:00.000000001 -8
    """
    assert [each.txn_id for each in why(text, 2).contributing] == ["Z", "B", "C", "A"]


def test_what_is_superseded_stale_or_said_twice_is_no_part_of_it():
    assert bystanders(why(STORY, 2)) == [
        "A r1 at 1: superseded by 2",
        "A r1 at 5: superseded by 2",
        "A r2 at 6: duplicate by 2",
    ]


def test_a_day_that_lost_its_activity_carries_the_earlier_close():
    found = why(STORY, 3, sizes=[1] * 7)
    assert (found.balance, found.published.day) == (50, day(2))
    assert bystanders(found)[3:] == ["C r1 at 3: cancelled by 4", "C r2 at 4: cancellation"]


def test_before_all_activity_there_is_the_opening():
    found = why("A r1 NEW day 2 -50", 1)
    assert (found.balance, found.published) == (100, None)
    assert (contributing(found), bystanders(found)) == ([], [])


def test_an_untouched_key_has_its_opening():
    found = why(STORY, 3, key=1)
    assert (found.balance, found.status) == (100, Status.UNTOUCHED)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (1, ["A r1 at 0: superseded by 1", "A r2 at 1: later"]),
        (2, ["A r1 at 0: superseded by 1"]),
    ],
)
def test_a_transaction_that_moved_is_told_where_it_was(number, expected):
    found = why("A r1 NEW day 1 -50\nA r2 NEW day 2 -50\nB r1 NEW day 3 1", number)
    assert bystanders(found) == expected


def test_a_transaction_that_was_always_later_is_not_told():
    assert bystanders(why("A r1 NEW day 2 -50\nA r2 NEW day 3 -50", 1)) == []


def test_a_cancellation_is_superseded_by_a_later_one_and_cancels_nothing_while_in_conflict():
    assert bystanders(why("A r1 NEW day 1 5\nA r2 CANCEL day 1\nA r3 CANCEL day 1", 1)) == [
        "A r1 at 0: cancelled by 2",
        "A r2 at 1: superseded by 2",
        "A r3 at 2: cancellation",
    ]
    assert bystanders(why("A r1 NEW day 1 5\nA r2 CANCEL day 1\nA r2 CANCEL day 2", 1)) == [
        "A r1 at 0: superseded by 1",
        "A r2 at 1: conflicting",
        "A r2 at 2: conflicting",
    ]


CONFLICT = """
    A r1 NEW day 1 -50
    B r1 NEW day 2 -20
    B r2 NEW day 2 -21
    B r2 NEW day 2 -22
    B r2 NEW day 2 -21
    C r1 NEW day 1 7
"""


def test_a_blocked_key_shows_the_rows_of_the_moment_before_and_what_is_certain():
    found = why(CONFLICT, 2, sizes=[1] * 6)
    assert (found.status, found.reasons) == (Status.BLOCKED, (("B", 2),))
    assert (found.balance, found.computed) == (29, 57)
    assert contributing(found) == ["A r1 at 0: -50 -> 50", "C r1 at 5: 7 -> 57"]
    assert bystanders(found) == [
        "B r1 at 1: superseded by 2",
        "B r2 at 2: conflicting",
        "B r2 at 3: conflicting",
        "B r2 at 4: conflicting",
    ]
    assert conflicts(found) == ["B r2 current at 2, 3, 4"]


def test_a_conflict_that_was_ended_stays_on_record():
    found = why(CONFLICT + "B r3 NEW day 2 -5", 2)
    assert (found.status, found.balance) == (Status.READY, 52)
    assert conflicts(found) == ["B r2 ended at 2, 3, 4"]


def test_a_conflict_on_a_later_day_blocks_all_the_same():
    found = why("A r1 NEW day 1 -50\nB r1 NEW day 9 1\nB r1 NEW day 9 2", 1)
    assert found.status is Status.BLOCKED
    assert bystanders(found) == []
    assert conflicts(found) == ["B r1 current at 1, 2"]


@st.composite
def runs(draw):
    config = draw(strategies.configurations(partitions=1))
    lines = draw(strategies.histories(config))
    return drive(config, source(lines, step=2), draw(strategies.cuts(len(lines))))


@given(runs(), st.integers(0, 5))
def test_contributions_add_up_to_what_a_ready_key_has_published(run, number):
    for key in range(len(run.config.keys)):
        found = explanation(run, key, day(number))
        if found.status is not Status.BLOCKED:
            assert found.computed == found.balance


@given(runs())
def test_at_the_end_every_accepted_record_stands_in_exactly_one_place(run):
    for key in range(len(run.config.keys)):
        found = explanation(run, key, day(99))
        told = [each.offset for each in (*found.contributing, *found.bystanders)]
        accepted = [
            entry.offset for (owner, _), entry in run.shelf.authorities.items() if owner == key
        ]
        accepted += [entry.offset for entry in run.shelf.observations if entry.key == key]
        assert sorted(told) == sorted(accepted)


@given(runs())
def test_current_conflicts_are_the_reasons_of_the_status(run):
    for key in range(len(run.config.keys)):
        found = explanation(run, key, day(1))
        current = [(each.txn_id, each.revision) for each in found.conflicts if each.current]
        assert sorted(current) == sorted(found.reasons)
        told = {
            (*run.config.keys[key].stock_key, each.txn_id, each.revision)
            for each in found.conflicts
        }
        assert told == {
            each for each in run.conflicts() if each[:2] == run.config.keys[key].stock_key
        }
