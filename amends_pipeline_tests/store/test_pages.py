from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.inventory.refold import EVERY_DAY, KeyChange, KeyState, Rows, Span, Status
from amends_pipeline.kernel.errors import DatabaseUnavailable
from amends_pipeline.kernel.instants import MAX_DAY, MIN_DAY
from amends_pipeline.store import pages

DayRow = tuple[int, int, int, int, bool, bool, int, int]


def rows_of(*rows: DayRow) -> Rows:
    return Rows(*map(list, zip(*rows, strict=True))) if rows else Rows.none()


def plain(day: int, close: int = 50) -> DayRow:
    return (day, -50, 1, close, True, False, 1, 0)


def state(*rows: DayRow, before: int = 100, loaded_from: int = EVERY_DAY) -> KeyState:
    columns = rows_of(*rows)
    return KeyState(0, 100, 60, Status.READY, 1, (), 100, before, loaded_from, columns)


@pytest.mark.parametrize(
    ("day", "page"),
    [
        (0, 0),
        (63, 0),
        (64, 1),
        (-1, -1),
        (-64, -1),
        (-65, -2),
        (MIN_DAY, -11_237),
        (EVERY_DAY, -11_237),
        (MAX_DAY, 45_826),
    ],
)
def test_pages_cover_64_days_each_from_1970_on_and_before_it(day, page):
    assert pages.page_of(day) == page
    assert pages.first_day(page) <= day < pages.first_day(page + 1)


def test_a_page_has_these_bytes():
    """Stored pages must stay readable: another format takes another number."""
    rows = rows_of(
        (64, -50, 1, 50, True, True, 3, 1),
        (66, 300, 2, 350, False, False, 200, 0),
    )
    assert pages.encode(1, 100, rows) == bytes.fromhex(
        "01 02"  # format 1, two rows
        "01 64"  # entered with 100, in one byte
        "01 00 02"  # days 0 and 2 of the page
        "02 ce ff 2c 01"  # sums -50 and 300, in two bytes each
        "01 01 02"  # counts
        "02 32 00 5e 01"  # closes 50 and 350
        "01 01 00"  # present
        "01 01 00"  # alerting
        "02 03 00 c8 00"  # balance versions: 200 needs two bytes with a sign
        "01 01 00"  # alert versions
    )


def test_a_column_of_one_value_is_that_value_once():
    rows = rows_of(*(plain(day) for day in range(64)))
    body = pages.encode(0, -1, rows)
    assert pages.decode(0, body) == (-1, rows)
    assert len(body) == 2 + 2 + (1 + 64) + 7 * 2


def test_a_page_of_another_format_is_refused():
    body = b"\x02" + pages.encode(0, 0, rows_of(plain(0)))[1:]
    with pytest.raises(DatabaseUnavailable, match="format 2"):
        pages.decode(0, body)


@pytest.mark.parametrize("bits", [7, 8, 15, 16, 31, 32, 63, 64, 65, 127, 128, 500])
@pytest.mark.parametrize("sign", [1, -1])
def test_no_integer_is_cut(bits, sign):
    numbers = [sign * 2**bits - 1, sign * 2**bits, 0]
    for number in numbers:
        rows = rows_of((0, number, 1, 0, True, False, 1, 0), (1, 5, 1, -number, True, False, 1, 0))
        assert pages.decode(0, pages.encode(0, number, rows)) == (number, rows)


INTEGERS = st.integers(-(2**70), 2**70) | st.integers(-300, 300)
ROWS = st.tuples(
    INTEGERS, st.integers(0, 2**40), INTEGERS, st.booleans(), st.booleans(), INTEGERS, INTEGERS
)


@given(
    st.integers(-11_237, 45_826),
    INTEGERS,
    st.dictionaries(st.integers(0, 63), ROWS, min_size=1),
)
def test_a_page_reads_back_as_it_was(page, before, by_day):
    rows = rows_of(*((page * 64 + day, *rest) for day, rest in sorted(by_day.items())))
    entering, read = pages.decode(page, pages.encode(page, before, rows))
    assert (entering, read) == (before, rows)
    assert all(type(value) is bool for value in read.present + read.alerting)


# --- what a change writes

FAR = state(*(plain(day, close=day) for day in (0, 5, 63, 64, 200, 201)))
"""Days on pages 0, 1 and 3."""


def written_pages(*changes: KeyChange) -> list[tuple[int, bytes]]:
    return [(page, body) for _, page, body in pages.writes({0: changes})]


def written(*changes: KeyChange) -> dict[int, tuple[int, list[int]]]:
    """For each written page: the balance it is entered with, and its days."""
    stored = {page: pages.decode(page, body) for page, body in written_pages(*changes)}
    return {page: (before, rows.days) for page, (before, rows) in stored.items()}


@pytest.mark.parametrize(
    ("span", "touched"),
    [
        (Span(0, 0), []),
        (Span(3, 3), []),
        (Span(0, 1), [0]),
        (Span(1, 3), [0]),
        (Span(2, 4), [0, 1]),
        (Span(3, 4), [1]),
        (Span(4, 6), [3]),
        (Span(1, 6), [0, 1, 3]),
        (Span(0, 6), [0, 1, 3]),
    ],
)
def test_a_change_writes_the_pages_that_it_touches_whole(span, touched):
    whole = {0: (100, [0, 5, 63]), 1: (63, [64]), 3: (64, [200, 201])}
    assert written(KeyChange(FAR, span)) == {page: whole[page] for page in touched}


def test_days_far_apart_cost_no_more_than_their_pages():
    ends = state(plain(MIN_DAY), plain(MAX_DAY))
    assert written(KeyChange(ends, Span(0, 2))) == {
        -11_237: (100, [MIN_DAY]),
        45_826: (50, [MAX_DAY]),
    }


def test_a_loaded_suffix_is_entered_with_the_balance_before_it():
    suffix = state(plain(64), plain(130), before=63, loaded_from=64)
    assert written(KeyChange(suffix, Span(0, 2))) == {1: (63, [64]), 2: (50, [130])}


def test_of_several_changes_each_page_is_written_as_the_last_one_of_it_leaves_it():
    first = state(plain(0, 1), plain(64, 2), plain(128, 3))
    then = state(plain(0, 1), plain(64, 20), plain(128, 30))
    last = state(plain(0, 1), plain(64, 20), plain(128, 30), plain(129, 31))
    changes = [
        KeyChange(first, Span(0, 3)),
        KeyChange(then, Span(1, 3)),
        KeyChange(last, Span(3, 4)),
    ]
    assert written(*changes) == {0: (100, [0]), 1: (1, [64]), 2: (20, [128, 129])}


def test_pages_put_together_are_the_rows():
    bodies = written_pages(KeyChange(FAR, Span(0, 6)))
    assert pages.load(bodies, 100) == (100, FAR.rows)
    assert pages.load(bodies[1:], 100) == (63, Rows(*(column[3:] for column in FAR.rows)))
    assert pages.load([], 7) == (7, Rows.none())


@given(st.sets(st.integers(-400, 400), min_size=1), st.data())
def test_writing_and_loading_any_days_gives_them_back(days, data):
    ordered = sorted(days)
    whole = state(*(plain(day, close=7 * day) for day in ordered))
    bodies = written_pages(KeyChange(whole, Span(0, len(ordered))))
    assert pages.load(bodies, 100) == (100, whole.rows)
    first = data.draw(st.integers(0, len(bodies) - 1))
    before, suffix = pages.load(bodies[first:], 100)
    at = len(ordered) - len(suffix.days)
    assert suffix.days == ordered[at:]
    assert before == (7 * ordered[at - 1] if at else 100)
    for page, _ in bodies:
        assert any(pages.page_of(day) == page for day in ordered)


DAYS = st.dictionaries(st.integers(-300, 300), ROWS, min_size=1, max_size=12)


@given(st.dictionaries(st.integers(0, 9), DAYS, min_size=1, max_size=4))
def test_many_pages_are_packed_as_each_one_is(by_key):
    changes = {}
    for key, by_day in by_key.items():
        of_key = state(*((each, *rest) for each, rest in sorted(by_day.items())), before=key - 3)
        changes[key] = [KeyChange(of_key._replace(key=key), Span(0, len(by_day)))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "_MANY", 1)
        together = pages.writes(changes)
        patch.setattr(pages, "_MANY", 10**6)
        assert together == pages.writes(changes)
    assert {key for key, _, _ in together} == set(changes)
