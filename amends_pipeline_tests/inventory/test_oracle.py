"""The oracle on hand-made tables: authority, days, crossings, exact integers."""

from __future__ import annotations

import pytest

from amends_pipeline.inventory.config import parse_configuration
from amends_pipeline.inventory.oracle import OracleError, compute
from amends_pipeline_tests.inventory.histories import given_records, told
from amends_pipeline_tests.tables import configuration, history, lines

MAX, MIN = 2**63 - 1, -(2**63)

TABLES = {
    "a correction moves closes and the crossing": (
        """
        ISSUE-001 r1 NEW day 1 -50
        ISSUE-002 r1 NEW day 2 -20
        RECEIPT-003 r1 NEW day 3 50
        ISSUE-001 r2 AMEND day 1 -30
        """,
        """
        a READY
        a day 1: 70
        a day 2: 50, alert
        a day 3: 100
        """,
    ),
    "a cancellation empties its day, whatever its own time": (
        """
        A r1 NEW day 2 -50
        B r1 NEW day 3 0
        A r2 CANCEL day 9
        """,
        """
        a READY
        a day 3: 100
        """,
    ),
    "a cancellation alone touches the key and states no day": ("A r1 CANCEL day 2", "a READY"),
    "a late lower revision changes nothing, a higher one reactivates": (
        """
        A r3 CANCEL day 1
        A r1 NEW day 1 -90
        b/A r2 CANCEL day 1
        b/A r3 AMEND day 4 -1
        """,
        """
        a READY
        b READY
        b day 4: 99
        """,
    ),
    "duplicates count once": (
        """
        A r1 NEW day 1 -50
        A r1 NEW day 1 -50
        """,
        """
        a READY
        a day 1: 50, alert
        """,
    ),
    "at the threshold is not below it; staying below raises nothing more": (
        """
        A r1 NEW day 1 -40
        B r1 NEW day 2 -1
        C r1 NEW day 3 -1
        D r1 NEW day 4 2
        E r1 NEW day 6 -1
        """,
        """
        a READY
        a day 1: 60
        a day 2: 59, alert
        a day 3: 58
        a day 4: 60
        a day 6: 59, alert
        """,
    ),
    "two things said at the highest revision block the key, not its neighbour": (
        """
        A r1 NEW day 1 -50
        B r2 NEW day 1 -1
        B r2 AMEND day 1 -1
        b/B r2 NEW day 1 -1
        """,
        """
        a BLOCKED by B r2
        b READY
        b day 1: 99
        a conflict B r2
        """,
    ),
    "a nanosecond makes another assertion, even of a cancellation": (
        """
        A r1 CANCEL day 1 at 12:00:00.000000001
        A r1 CANCEL day 1 at 12:00:00.000000002
        b/A r1 NEW day 1 at 12:00:00.100 -1
        b/A r1 NEW day 1 at 12:00:00.1 -1
        """,
        """
        a BLOCKED by A r1
        b READY
        b day 1: 99
        a conflict A r1
        """,
    ),
    "reasons are the conflicts in force, conflicts are all of them": (
        """
        Z r1 NEW day 1 1
        Z r1 NEW day 1 2
        A r1 NEW day 1 1
        A r1 NEW day 1 2
        A r1 NEW day 2 2
        é r10 NEW day 1 1
        é r10 NEW day 1 2
        é r9 NEW day 1 1
        é r9 NEW day 1 2
        A r2 NEW day 1 5
        """,
        """
        a BLOCKED by Z r1, é r10
        a conflict A r1
        a conflict Z r1
        a conflict é r9
        a conflict é r10
        """,
    ),
    "a higher revision unblocks": (
        """
        A r1 NEW day 1 1
        A r1 NEW day 1 2
        B r1 NEW day 2 7
        A r2 AMEND day 1 3
        """,
        """
        a READY
        a day 1: 103
        a day 2: 110
        a conflict A r1
        """,
    ),
    "rejected records are kept out and named": (
        """
        malformed
        A r0 NEW day 1 5
        A r1 NEW day 0 5
        A r1 NEW day 1 5
        """,
        """
        a READY
        a day 1: 105
        rejected 0 MALFORMED
        rejected 1 REVISION
        rejected 2 VALID_TIME
        """,
    ),
    "nothing comes of nothing": ("", ""),
}


@pytest.mark.parametrize(("records", "expected"), TABLES.values(), ids=TABLES)
def test_tables(records, expected):
    config = parse_configuration(configuration())
    assert told(config, compute(config, [given_records(history(records))])) == lines(expected)


@pytest.mark.parametrize(("records", "expected"), TABLES.values(), ids=TABLES)
def test_the_order_of_arrival_decides_nothing(records, expected):
    config = parse_configuration(configuration())
    turned = history(records)[::-1]
    facts = [line for line in lines(expected) if "rejected" not in line]
    result = told(config, compute(config, [given_records(turned)]))
    assert [line for line in result if "rejected" not in line] == facts


def test_all_numbers_are_python_integers():
    config = parse_configuration(configuration())
    records = history(
        "A r1 NEW day 1 -50\nB r1 NEW day 2 1\nB r1 NEW day 2 2\nb/C r1 NEW day 1 -60"
    )
    result = compute(config, [given_records(records)])
    assert told(config, result)
    numbers = [
        *(
            value
            for table in (result.balances, result.alerts)
            for row in table.rows()
            for value in row
        ),
        *result.statuses,
        *(conflict.revision for conflict in result.conflicts),
    ]
    assert {type(number) for number in numbers} == {int}


def quantities(opening, *rows):
    """One key, a record for each (day, qty)."""
    config = parse_configuration(configuration(opening=opening, threshold=0, keys="a"))
    text = "\n".join(f"T{at} r1 NEW day {on} {qty}" for at, (on, qty) in enumerate(rows))
    return told(config, compute(config, [given_records(history(text))]))


def test_a_large_quantity_and_none_on_one_day_stay_exact():
    # Sums that pass a double come back as 9007199254740992.
    assert quantities(0, (1, 9007199254740993), (1, 0), (3, -1)) == [
        "a READY",
        "a day 1: 9007199254740993",
        "a day 3: 9007199254740992",
    ]


def test_closes_reach_both_ends_of_64_bits():
    assert quantities(MAX, (1, 0), (2, MIN), (3, MIN + 1), (4, MAX), (5, MAX)) == [
        "a READY",
        f"a day 1: {MAX}",
        "a day 2: -1, alert",
        f"a day 3: {MIN}",
        "a day 4: -1",
        f"a day 5: {MAX - 1}",
    ]


def test_a_day_may_sum_far_beyond_64_bits_on_its_way():
    rows = [(1, MAX)] * 40 + [(1, -MAX)] * 39 + [(2, MIN)] * 2 + [(2, MAX), (2, 2)]
    assert quantities(0, *rows) == [
        "a READY",
        f"a day 1: {MAX}",
        f"a day 2: {MAX + 2 * MIN + MAX + 2}",
    ]


@pytest.mark.parametrize(
    ("opening", "rows", "found"),
    [
        (MAX, [(3, 1)], f"on 2026-01-03: expected .*, found {MAX + 1}"),
        (MIN, [(3, -1)], f"on 2026-01-03: expected .*, found {MIN - 1}"),
        (1, [(1, MAX), (2, -5)], f"on 2026-01-01: expected .*, found {MAX + 1}"),
        (0, [(1, MAX)] * 50, f"on 2026-01-01: expected .*, found {50 * MAX}"),
    ],
    ids=["above", "below", "back in range a day later", "far above"],
)
def test_a_close_outside_64_bits_has_no_answer(opening, rows, found):
    with pytest.raises(OracleError, match=f'item "DEMO-PART" at location "DEPOT-A" {found}'):
        quantities(opening, *rows)


def test_a_blocked_key_has_no_closes_to_overflow():
    config = parse_configuration(configuration(opening=MAX))
    records = history("A r1 NEW day 1 5\nB r1 NEW day 1 1\nB r1 NEW day 1 2")
    assert told(config, compute(config, [given_records(records)])) == [
        "a BLOCKED by B r1",
        "a conflict B r1",
    ]
