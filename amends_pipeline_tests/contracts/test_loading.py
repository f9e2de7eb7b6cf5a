from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amends_pipeline.inventory.diff import reconcile
from amends_pipeline.inventory.refold import (
    EVERY_DAY,
    KeyChange,
    KeyState,
    Rows,
    Span,
    Status,
    Total,
    merge,
    refold,
    untouched,
)
from amends_pipeline.kernel.instants import MAX_DAY, MIN_DAY
from amends_pipeline.store import keys, keys_together
from amends_pipeline_tests.columns import as_columns
from amends_pipeline_tests.contracts.bench import change, decision, provisioned, state
from amends_pipeline_tests.envelopes import SMALLEST
from amends_pipeline_tests.tables import configuration

OPENING = 100


def row(day: int, close: int | None = None):
    """A day whose every column tells it from its neighbours."""
    number = abs(day) % 1_000
    closed = day if close is None else close
    return (day, 3 * day, number % 7, closed, day % 2 == 0, day % 3 == 0, number, number // 2)


def tail(whole: KeyState, from_day: int) -> KeyState:
    """What is left of a whole state from a day on, told the slow way."""
    rows = list(zip(*whole.rows, strict=True))
    left = [each for each in rows if each[0] >= from_day]
    before = [OPENING] + [each[3] for each in rows if each[0] < from_day]
    columns = Rows(*map(list, zip(*left, strict=True))) if left else Rows.none()
    return whole._replace(before=before[-1], loaded_from=from_day, rows=columns)


def assert_loads(bench, key: int, whole: KeyState, from_day: int) -> None:
    """At least the suffix is loaded, and it is the tail of the whole, entered rightly."""
    loaded = bench.store.keys(bench.unit(), {key: from_day})[key]
    assert loaded.loaded_from <= from_day
    assert loaded == tail(whole, loaded.loaded_from)


@pytest.fixture(autouse=True, params=["one by one", "as columns"])
def _way(request, monkeypatch):
    """PostgreSQL's store reads many keys in another way than few."""
    if request.param == "as columns":
        monkeypatch.setattr(keys, "MANY", 1)
        monkeypatch.setattr(keys_together, "KEYS_A_ROW", 2)


@pytest.fixture
def ancient(ledger):
    return provisioned(ledger, configuration(keys="abc", origin="0001-01-01T00:00:00Z"))


HISTORIES = {
    "one day": [5],
    "the ends of the calendar": [MIN_DAY, MAX_DAY],
    "around 1970": [-2, -1, 0, 1, 2],
    "every day of a while": list(range(20_000, 20_300)),
    "at powers of two": sorted({s * 2**i + d for i in range(19) for s in (1, -1) for d in (-1, 0)}),
    "far apart": list(range(MIN_DAY, MAX_DAY, 30_011)),
    "no day": [],
}


@pytest.mark.parametrize("days", HISTORIES.values(), ids=HISTORIES)
def test_a_load_from_any_day_is_the_tail_of_the_whole(ancient, days):
    whole = state(rows=[row(day) for day in days])
    ancient.store.commit(ancient.claim(), [decision(keys={0: change(whole)})])
    edges = {edge + step for edge in days for step in (-1, 0, 1)}
    for from_day in sorted({EVERY_DAY, MIN_DAY, MAX_DAY, 0} | edges):
        if EVERY_DAY <= from_day <= MAX_DAY:
            assert_loads(ancient, 0, whole, from_day)
    assert ancient.store.keys(ancient.unit(), {0: EVERY_DAY})[0] == whole


def test_a_key_that_was_never_touched_is_whole_whatever_was_asked(ancient):
    ancient.store.commit(ancient.claim(), [decision(keys={0: change(state(rows=[row(5)]))})])
    for from_day in (EVERY_DAY, 0, MAX_DAY):
        assert ancient.store.keys(ancient.unit(), {1: from_day}) == {1: untouched(1, 100, 60)}


def test_each_key_is_loaded_from_its_own_day(ancient):
    wholes = {
        key: state(key, rows=[row(day + key) for day in range(0, 900, 9)]) for key in range(3)
    }
    changes = {key: change(whole) for key, whole in wholes.items()}
    ancient.store.commit(ancient.claim(), [decision(keys=changes)])
    asked = {0: 800, 1: EVERY_DAY, 2: 401}
    loaded = ancient.store.keys(ancient.unit(), asked)
    assert set(loaded) == {0, 1, 2}
    for key, from_day in asked.items():
        assert loaded[key].loaded_from <= from_day
        assert loaded[key] == tail(wholes[key], loaded[key].loaded_from)
    assert loaded[1].whole
    assert ancient.store.keys(ancient.unit(), {}) == {}


def test_a_blocked_key_is_entered_with_its_published_close(ancient):
    """Its sums go on, and say nothing about its closes."""
    rows = [
        (10, -50, 1, 50, True, True, 1, 1),
        (11, 2**80, 2, 50, False, False, 0, 0),
        (12, -7, 1, 43, True, False, 3, 2),
        (13, 0, 0, 43, False, False, 4, 0),
    ]
    whole = state(
        rows=rows, status=Status.BLOCKED, status_version=2, reasons=(("A", 1), ("B", 2)), peak=2**63
    )
    ancient.store.commit(ancient.claim(), [decision(keys={0: change(whole)})])
    for from_day in range(9, 15):
        assert_loads(ancient, 0, whole, from_day)


@pytest.mark.parametrize("from_day", [EVERY_DAY, 20_000, 20_050, 20_064, 20_099, 20_100, 20_500])
def test_a_change_of_a_suffix_leaves_the_days_before_it(ancient, from_day):
    days = range(20_000, 20_100)
    whole = state(rows=[row(day) for day in days])
    token = ancient.claim()
    ancient.store.commit(token, [decision(keys={0: change(whole)})])
    loaded = ancient.store.keys(ancient.unit(), {0: from_day})[0]
    rows = list(zip(*loaded.rows, strict=True))
    first = bisect_left(loaded.rows.days, from_day)
    new = [row(day, close=SMALLEST) for day in loaded.rows.days[first:]] + [row(MAX_DAY)]
    columns = Rows(*map(list, zip(*rows[:first], *new, strict=True)))
    changed = loaded._replace(status_version=7, peak=5, rows=columns)
    ancient.store.commit(token, [decision(1, 2, keys={0: change(changed, first)})])
    expected = [row(day, close=SMALLEST if day >= from_day else None) for day in days]
    expected_whole = state(rows=[*expected, row(MAX_DAY)], status_version=7, peak=5)
    for day in (EVERY_DAY, *range(19_999, 20_101), MAX_DAY):
        assert_loads(ancient, 0, expected_whole, day)


@pytest.mark.parametrize("headed", [True, False])
def test_changes_as_columns_are_stored_as_others_are(ancient, headed):
    token = ancient.claim()
    first = {key: change(state(key, rows=[row(day) for day in (9, 99)])) for key in (0, 1)}
    ancient.store.commit(token, [decision(keys=as_columns(first))])
    rows = [row(9), *(row(day, close=-day) for day in (99, 100, 300))]
    ready = state(0, rows=rows, status_version=9 if headed else 1, peak=500 if headed else 100)
    earlier = state(1, rows=[row(8), *rows])
    blocked = state(2, rows=rows, status=Status.BLOCKED, reasons=(("A", 1),), peak=2**63)
    both = as_columns({1: change(earlier), 2: change(blocked)})
    ancient.store.commit(token, [decision(1, 2, keys=both)])
    suffix = as_columns({0: KeyChange(ready, Span(1, 4), headed)})
    ancient.store.commit(token, [decision(2, 3, keys=suffix)])
    for key, whole in enumerate([ready, earlier, blocked]):
        for from_day in (EVERY_DAY, 8, 9, 10, 98, 99, 100, 101, 300):
            assert_loads(ancient, key, whole, from_day)


def test_a_change_of_rows_alone_leaves_the_rest_as_it_was(ancient):
    token = ancient.claim()
    blocked = state(rows=[row(9), row(99)], status=Status.BLOCKED, reasons=(("A", 1),), peak=500)
    ancient.store.commit(token, [decision(keys={0: change(blocked)})])
    more = blocked._replace(rows=state(rows=[row(9), row(98), row(99)]).rows)
    rows_alone = KeyChange(more, Span(1, 3), headed=False)
    ancient.store.commit(token, [decision(1, 2, keys={0: rows_alone})])
    for from_day in (EVERY_DAY, 9, 10, 98, 99, 100):
        assert_loads(ancient, 0, more, from_day)


def test_days_come_between_days(ancient):
    token = ancient.claim()
    store, unit = ancient.store, ancient.unit()
    store.commit(token, [decision(keys={0: change(state(rows=[row(10), row(30)]))})])
    between = state(rows=[row(5), row(10), row(20), row(30)])
    store.commit(token, [decision(1, 2, keys={0: change(between)})])
    assert store.keys(unit, {0: EVERY_DAY})[0] == between
    for from_day in range(4, 32):
        assert_loads(ancient, 0, between, from_day)


DAYS = st.integers(-3, 3) | st.integers(0, 600) | st.sampled_from([MIN_DAY, MAX_DAY])
TOTALS = st.sampled_from([Total(0, 0), Total(-50, 1), Total(20, 2), Total(0, 1), Total(30, 1)])
STEPS = st.tuples(DAYS, st.dictionaries(DAYS, TOTALS, min_size=1, max_size=5))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(st.lists(STEPS, min_size=1, max_size=6))
def test_refolded_suffixes_add_up_to_the_whole(ledger, steps):
    """Each step loads from a day on, changes totals of days there, and stores what it refolds."""
    number = len(ledger.store.namespaces())
    document = configuration(origin="0001-01-01T00:00:00Z", namespace=f"n-{number}")
    bench = provisioned(ledger, document)
    store, unit, token = bench.store, bench.unit(), bench.claim()
    model: dict[int, tuple] = {}
    for at, (from_day, totals) in enumerate(steps):
        loaded = store.keys(unit, {0: from_day})[0]
        here = {day: total for day, total in totals.items() if day >= from_day}
        old, changed = merge(loaded.before, loaded.rows, here)
        new, span = refold(loaded.before, loaded.threshold, old, changed)
        rows, _ = reconcile(old, new, span)
        ready = loaded._replace(status=Status.READY, status_version=1, rows=rows)
        store.commit(token, [decision(at, at + 1, keys={0: KeyChange(ready, span)})])
        model |= {each[0]: each for each in list(zip(*rows, strict=True))[slice(*span)]}
        whole = state(rows=sorted(model.values()))
        for day in (EVERY_DAY, from_day, *sorted(totals)):
            assert_loads(bench, 0, whole, day)
        closes = accumulate((each[1] for each in sorted(model.values())), initial=OPENING)
        assert whole.rows.closes == list(closes)[1:]
