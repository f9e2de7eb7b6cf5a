from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.inventory.refold import (
    EVERY_DAY,
    NOTHING,
    Rows,
    Span,
    Status,
    Total,
    merge,
    out_of_range,
    prune,
    refold,
    refold_whole,
    untouched,
)
from amends_pipeline.kernel.integers import MAX_INT64, MIN_INT64


def plain(opening: int, threshold: int, totals: dict[int, Total]) -> dict[int, tuple]:
    """The definition: (close, present, alerting) of every day that has a row."""
    defined, close = {}, opening
    for day in sorted(totals):
        moved, active = totals[day]
        before, close = close, close + (moved if active else 0)
        defined[day] = (close, active > 0, active > 0 and before >= threshold and close < threshold)
    return defined


def folded(opening: int, threshold: int, totals: dict[int, Total]) -> Rows:
    """Rows that stand as the definition says, all published once."""
    defined = plain(opening, threshold, totals)
    days = sorted(totals)
    return (
        Rows(
            days,
            [totals[day].sum for day in days],
            [totals[day].active for day in days],
            *(list(column) for column in zip(*(defined[day] for day in days), strict=True)),
            [1] * len(days),
            [0] * len(days),
        )
        if days
        else Rows.none()
    )


def told(rows: Rows) -> list[str]:
    """Rows as text: day, movement (number of transactions), close, what is published of it."""
    return [
        f"{day}: {moved:+} ({count}) {close}{' shown' * shown}{' alert' * alert}"
        for day, moved, count, close, shown, alert, _, _ in zip(*rows, strict=True)
    ]


BEFORE = folded(100, 60, {1: Total(-50, 1), 2: Total(-20, 1), 3: Total(50, 1)})


@pytest.mark.parametrize(
    ("change", "span", "expected"),
    [
        (  # the worked example: every later close moves by 20
            {1: Total(-30, 1)},
            (0, 3),
            ["1: -30 (1) 70 shown", "2: -20 (1) 50 shown alert", "3: +50 (1) 100 shown"],
        ),
        (  # the last day empties and keeps its place, at the balance carried over it
            {3: NOTHING},
            (2, 3),
            ["1: -50 (1) 50 shown alert", "2: -20 (1) 30 shown", "3: +0 (0) 30"],
        ),
        (  # moved from day 1 to day 2: day 3 is as it was
            {1: NOTHING, 2: Total(-70, 2)},
            (0, 2),
            ["1: +0 (0) 100", "2: -70 (2) 30 shown alert", "3: +50 (1) 80 shown"],
        ),
        (  # a day before all others
            {0: Total(-41, 1)},
            (0, 4),
            [
                "0: -41 (1) 59 shown alert",
                "1: -50 (1) 9 shown",
                "2: -20 (1) -11 shown",
                "3: +50 (1) 39 shown",
            ],
        ),
        (  # a day after all others, with no movement: it counts as activity
            {9: Total(0, 1)},
            (3, 4),
            [*told(BEFORE), "9: +0 (1) 80 shown"],
        ),
        (  # two days between, the second takes back the first: the tail is not looked at
            {1: Total(-60, 2), 2: Total(-10, 1)},
            (0, 2),
            ["1: -60 (2) 40 shown alert", "2: -10 (1) 30 shown", "3: +50 (1) 80 shown"],
        ),
        ({}, (0, 0), told(BEFORE)),
    ],
)
def test_a_change_reaches_the_days_that_it_moves_and_no_others(change, span, expected):
    merged, changed = merge(100, BEFORE, change)
    rows, reached = refold(100, 60, merged, changed)
    assert told(rows) == expected
    assert reached == span


def test_a_new_day_enters_unpublished_at_the_balance_carried_over_it():
    rows, span = merge(100, BEFORE, {0: Total(7, 1), 5: Total(9, 1)})
    assert told(rows) == ["0: +7 (1) 100", *told(BEFORE), "5: +9 (1) 80"]
    assert span == (0, 5)
    assert told(BEFORE)[0] == "1: -50 (1) 50 shown alert"  # what was handed in stays as it was


def test_a_crossing_goes_from_at_least_the_threshold_to_below_it():
    crossings = {
        close: refold_whole(opening, 60, merge(opening, Rows.none(), {1: Total(moved, 1)})[0])[0]
        for opening, moved, close in [(60, -1, 59), (60, 0, 60), (59, -1, 58), (61, -1, 60)]
    }
    assert {close: rows.alerting for close, rows in crossings.items()} == {
        59: [True],
        58: [False],
        60: [False],
    }


TOTALS = st.dictionaries(
    st.integers(1, 9),
    st.builds(
        lambda moved, active: Total(moved if active else 0, active),
        st.integers(-40, 40),
        st.integers(0, 2),
    ),
    max_size=9,
)


@given(TOTALS, TOTALS, st.integers(-20, 120), st.sampled_from([60, 0]))
def test_the_fast_form_equals_the_definition(stored, change, opening, threshold):
    merged, changed = merge(opening, folded(opening, threshold, stored), change)
    rows, span = refold(opening, threshold, merged, changed)
    defined = plain(opening, threshold, stored | change)
    shown = zip(rows.closes, rows.present, rows.alerting, strict=True)
    assert dict(zip(rows.days, shown, strict=True)) == defined
    untouched_days = [i for i in range(len(rows.days)) if not span.start <= i < span.stop]
    assert [[column[i] for i in untouched_days] for column in rows] == [
        [column[i] for i in untouched_days] for column in merged
    ]


@given(TOTALS, TOTALS, st.integers(-20, 120), st.integers(1, 9))
def test_a_suffix_refolds_as_the_whole_does(stored, change, opening, from_day):
    change = {day: total for day, total in change.items() if day >= from_day}
    whole = folded(opening, 60, stored)
    cut = sum(day < from_day for day in whole.days)
    before = whole.closes[cut - 1] if cut else opening
    of_suffix, _ = refold(before, 60, *merge(before, Rows(*(c[cut:] for c in whole)), change))
    of_whole, _ = refold(opening, 60, *merge(opening, whole, change))
    assert of_suffix == Rows(*(column[cut:] for column in of_whole))


@given(TOTALS, TOTALS, st.integers(-20, 120))
def test_refolding_the_whole_takes_nothing_over_from_published_closes(stored, wrong, opening):
    rows = folded(opening, 60, stored)
    # What a blocked key shows has nothing to do with its sums.
    misleading = folded(999, 60, dict.fromkeys(rows.days, Total(1, 1)) | wrong)
    shown = rows._replace(closes=misleading.closes[: len(rows.days)])
    refolded, span = refold_whole(opening, 60, shown)
    assert refolded == rows
    assert span == (0, len(rows.days))


def test_a_day_that_came_to_nothing_is_left_out_unless_it_was_stored_or_published():
    rows = Rows(
        [1, 2, 3, 4, 5],
        [0, 0, 0, 0, 0],
        [0, 0, 0, 0, 1],
        [7, 7, 7, 7, 7],
        [False] * 5,
        [False] * 5,
        [0, 2, 0, 0, 0],  # day 2 was published once
        [0, 0, 0, 0, 0],
    )
    left, span = prune(rows, Span(0, 5), stored=[3])
    assert (left.days, span) == ([2, 3, 5], (0, 3))
    assert left.balance_versions == [2, 0, 0]
    left, span = prune(rows, Span(3, 5), stored=[1, 2, 3])
    assert (left.days, span) == ([1, 2, 3, 5], (3, 4))
    unchanged, span = prune(rows, Span(4, 5), stored=[1, 2, 3, 4])
    assert unchanged is rows
    assert span == (4, 5)


@pytest.mark.parametrize(
    ("closes", "position"),
    [
        ([], None),
        ([MAX_INT64, MIN_INT64, 0], None),
        ([0, MAX_INT64 + 1, MIN_INT64 - 1], 1),
        ([MIN_INT64 - 1], 0),
        ([MAX_INT64, MIN_INT64, MAX_INT64 + 1], 2),
    ],
)
def test_a_close_fits_when_64_signed_bits_hold_it(closes, position):
    assert out_of_range(closes) == position


def test_closes_are_exact_beyond_64_bits():
    rows = merge(MAX_INT64, Rows.none(), {1: Total(MAX_INT64, 1), 2: Total(-MAX_INT64, 1)})[0]
    assert refold_whole(MAX_INT64, 0, rows)[0].closes == [2 * MAX_INT64, MAX_INT64]


def test_a_key_that_no_record_named_has_no_rows_and_no_version():
    state = untouched(3, opening=-7, threshold=60)
    assert (state.status, state.status_version, state.reasons) == (Status.UNTOUCHED, 0, ())
    assert (state.before, state.peak, state.loaded_from, state.whole) == (-7, 7, EVERY_DAY, True)
    assert state.rows == Rows.none()
    assert not state._replace(loaded_from=1).whole


def test_the_total_of_a_day_without_a_row_is_nothing():
    assert [BEFORE.total(day) for day in (0, 1, 3, 4)] == [
        NOTHING,
        Total(-50, 1),
        Total(50, 1),
        NOTHING,
    ]
