"""What a batch decided stands for the one behind it, and for whoever must look back at it."""

from __future__ import annotations

import numpy as np
import pytest

from amends_pipeline.inventory import identities as hashing
from amends_pipeline.inventory.config import parse_configuration
from amends_pipeline.inventory.identities import Identities
from amends_pipeline.inventory.slice import Records
from amends_pipeline.inventory.slice_columns import read_columns
from amends_pipeline.inventory.weighing import Standing, weigh
from amends_pipeline_tests.tables import FIRST_DAY, configuration, history, lines

CONFIG = parse_configuration(configuration())
EARLIER = """
    A r1 NEW day 1 -50
    b/A r3 NEW day 2 20
    B r1 NEW day 2 20
    B r1 NEW day 2 30
    C r2 CANCEL day 3
    D r1 NEW day 4 10
    D r2 AMEND day 5 15
    E r1 NEW day 6 7
"""
LATER = """
    D r3 AMEND day 5 16
    X r1 NEW day 1 1
    A r2 AMEND day 1 -30
    C r3 NEW day 3 5
    b/A r4 CANCEL day 2
    B r2 AMEND day 2 25
"""


def batch(table, start=0):
    """The accepted records of a table, at offsets from `start` on."""
    log = history(table)
    offsets, end = range(start, start + len(log)), start + len(log)
    keys, values = [each.raw_key for each in log], [each.value for each in log]
    records = Records(start, end, offsets, keys, values)
    return read_columns(CONFIG, 0, records, frozenset()).accepted


def decided(table, start=0):
    """What stands after a batch that nothing stood before."""
    accepted = batch(table, start)
    standing = Standing(Identities(accepted))
    assert weigh(accepted, standing, ()) is not None
    return standing


def told(standing):
    """Lines of what stands, in the order in which the batch first speaks of each."""
    everything = range(len(standing.identities))
    numbers, texts = standing.identities.keys, standing.identities.texts(np.array(everything))
    for key, txn, stands in zip(
        numbers.tolist(), texts.to_pylist(), standing.authorities(everything), strict=True
    ):
        name = f"{'ab'[key]}/{txn}"
        if stands is None:
            yield f"{name} nothing"
            continue
        one = stands.candidate
        said = f"{one.kind} day {one.day - FIRST_DAY + 1} {one.qty}"
        conflict = ", in conflict" * stands.conflicted
        yield f"{name} r{one.revision} {said} at {stands.offset}{conflict}"


def test_what_was_decided_is_found_by_the_next_batch():
    standing = Standing(Identities(batch(LATER)))
    found = decided(EARLIER).find(standing.identities, np.arange(6))
    standing.take_over(found)
    assert list(told(standing)) == lines("""
        a/D r2 AMEND day 5 15 at 6
        a/X nothing
        a/A r1 NEW day 1 -50 at 0
        a/C r2 CANCEL day 3 0 at 4
        b/A r3 NEW day 2 20 at 1
        a/B r1 NEW day 2 20 at 2, in conflict
    """)


def test_only_what_is_wanted_is_found():
    standing = Standing(Identities(batch("A r2 AMEND day 1 1; B r2 AMEND day 2 1")))
    standing.take_over(decided(EARLIER).find(standing.identities, np.array([1])))
    assert list(told(standing)) == ["a/A nothing", "a/B r1 NEW day 2 20 at 2, in conflict"]


def test_equal_hashes_of_different_transactions_leave_it_open(monkeypatch):
    def same(numbers, _):
        return np.zeros(len(numbers), dtype=np.uint64)

    monkeypatch.setattr(hashing, "hashes", same)
    wanted = Identities(batch("B r1 NEW day 1 1"))
    assert decided("A r1 NEW day 1 1").find(wanted, np.array([0])) is None


def test_before_is_what_was_found_last_whatever_was_weighed_since():
    accepted = batch("A r4 CANCEL day 1; A r4 NEW day 1 9; X r1 NEW day 1 1", start=20)
    standing = Standing(Identities(accepted))
    for table, start in (("A r1 NEW day 1 -50", 0), ("A r2 AMEND day 2 5; A r3 NEW day 3 6", 10)):
        standing.take_over(decided(table, start).find(standing.identities, np.arange(2)))
    assert weigh(accepted, standing, ()) is not None
    assert list(told(standing)) == [
        "a/A r4 CANCEL day 1 0 at 20, in conflict",
        "a/X r1 NEW day 1 1 at 22",
    ]
    assert list(told(standing.before())) == ["a/A r3 NEW day 3 6 at 11", "a/X nothing"]


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("X r1 NEW day 5 1", 5),
        ("X r1 CANCEL day 5", None),
        ("E r2 AMEND day 5 1", 5),
        ("E r2 AMEND day 9 1", 6),
        ("E r2 CANCEL day 9", 6),
        ("C r3 NEW day 5 1", 5),
        ("C r3 CANCEL day 1", None),
        ("B r2 AMEND day 5 1", 5),
        ("B r2 CANCEL day 1", None),
    ],
)
def test_the_first_day_that_a_record_can_change(line, first):
    accepted = batch(line)
    standing = Standing(Identities(accepted))
    standing.take_over(decided(EARLIER).find(standing.identities, np.array([0])))
    never = FIRST_DAY + 999
    days = standing.first_days(accepted, never).tolist()
    assert days == [never if first is None else FIRST_DAY + first - 1]
