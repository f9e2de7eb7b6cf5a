"""What a worker knows of keys reads as a plain mapping, however it is kept."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from amends_pipeline.inventory.key_columns import (
    SUFFIX_DAYS,
    KeyColumns,
    changed_rows,
    columns_of,
    fits,
)
from amends_pipeline.inventory.known_keys import KnownKeys
from amends_pipeline.inventory.refold import (
    EVERY_DAY,
    KeyChange,
    KeyState,
    Rows,
    Span,
    Status,
    untouched,
)
from amends_pipeline.kernel.integers import MAX_INT64, MIN_INT64
from amends_pipeline.store.pages import PAGE_DAYS
from amends_pipeline_tests.columns import as_columns

KEYS = st.integers(0, 3) | st.just(70)
NUMBERS = st.integers(-99, 99) | st.sampled_from([MIN_INT64, MAX_INT64])
WIDE = st.integers(-99, 99) | st.sampled_from([MAX_INT64 + 1, MIN_INT64 - 1])


DAYS = st.integers(-99, 99) | st.integers(-3, 3)
FROM_DAYS = [EVERY_DAY, -64, 0, 3]


@st.composite
def states(draw, key: int, numbers=NUMBERS, statuses=tuple(Status)) -> KeyState:
    loaded_from = draw(st.sampled_from(FROM_DAYS))
    by_day = draw(st.dictionaries(DAYS, st.tuples(numbers, st.booleans()), max_size=4))
    held = sorted((day, *rest) for day, rest in by_day.items() if day >= loaded_from)
    rows = [(day, sum_, 1, -sum_ - 1, here, not here, 2, day % 7) for day, sum_, here in held]
    columns = Rows(*map(list, zip(*rows, strict=True))) if rows else Rows.none()
    status = draw(st.sampled_from(statuses))
    reasons = (("A", 1),) if status is Status.BLOCKED else ()
    before = draw(NUMBERS)
    return KeyState(key, 100, 60, status, 1, reasons, 100, before, loaded_from, columns)


def tail(state: KeyState, from_day: int) -> KeyState:
    """The same state without the days before `from_day`, or as it is where there are none."""
    at = bisect_left(state.rows.days, from_day)
    if at == 0:
        return state
    rows = state.rows.between(at, len(state.rows.days))
    return state._replace(before=state.rows.closes[at - 1], loaded_from=from_day, rows=rows)


def behind(old: KeyState | None, new: KeyState) -> KeyState:
    """What is known once `new` is: the earlier days stay as they were."""
    if old is None or not fits(old) or old.loaded_from >= new.loaded_from:
        return new
    first = old.rows.between(0, bisect_left(old.rows.days, new.loaded_from))
    rows = Rows(*(early + late for early, late in zip(first, new.rows, strict=True)))
    return new._replace(before=old.before, loaded_from=old.loaded_from, rows=rows)


def ascending(*keys: int) -> np.ndarray:
    return np.array(sorted(keys), dtype=np.int64)


def test_a_batch_takes_whole_pages():
    assert SUFFIX_DAYS % PAGE_DAYS == 0


@given(st.data())
def test_columns_read_as_the_states_that_they_were_made_of(data):
    keys = sorted(data.draw(st.sets(KEYS)))
    plain = [Status.READY, Status.UNTOUCHED]
    made = {key: data.draw(states(key, statuses=plain)) for key in keys}
    columns = columns_of([made[key] for key in keys])
    assert dict(columns) == made
    chosen = sorted(data.draw(st.sets(st.sampled_from(keys)))) if keys else []
    taken = columns.take(np.array([keys.index(key) for key in chosen], dtype=np.int64))
    assert dict(taken) == {key: made[key] for key in chosen}
    for state in columns.values():
        numbers = [*state[:3], *state[6:9], *(each for column in state.rows for each in column)]
        assert {type(each) for each in numbers} <= {int, bool}


@pytest.mark.parametrize("chosen", [(), (2,), (0, 2), (1, 2), (1, 3), (0, 1, 3)], ids=str)
def test_keys_side_by_side_or_apart_are_taken_with_their_own_days(chosen):
    def with_days(key, *days):
        rows = [(day, key, 1, 100 + day, True, False, 1, 0) for day in days]
        return untouched(key, 100, 60)._replace(rows=Rows(*map(list, zip(*rows, strict=True))))

    made = [with_days(0, 1), with_days(1, 2, 3), with_days(2, 4), with_days(3, 5, 6)]
    taken = columns_of(made).take(np.array(chosen, dtype=np.int64))
    assert dict(taken) == {key: made[key] for key in chosen}


@pytest.mark.parametrize(
    ("change", "fitting"),
    [
        ({}, True),
        ({"status": Status.UNTOUCHED}, True),
        ({"status": Status.BLOCKED}, False),
        ({"peak": MAX_INT64}, True),
        ({"peak": MAX_INT64 + 1}, False),
        ({"rows": Rows([1], [MIN_INT64], [1], [MAX_INT64], [True], [True], [1], [1])}, True),
        ({"rows": Rows([1], [MIN_INT64 - 1], [1], [0], [True], [True], [1], [1])}, False),
        ({"rows": Rows([1], [MAX_INT64 + 1], [1], [0], [True], [True], [1], [1])}, False),
        ({"rows": Rows([1], [0], [1], [MAX_INT64 + 1], [True], [True], [1], [1])}, False),
    ],
)
def test_only_what_fits_64_bits_and_is_not_blocked_stands_in_columns(change, fitting):
    assert fits(untouched(0, 100, 60)._replace(status=Status.READY)._replace(**change)) == fitting


class KeptKeys(RuleBasedStateMachine):
    """Any sequence of what a worker does, beside a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.known = KnownKeys()
        self.model: dict[int, KeyState] = {}
        self.handed_out: list[tuple[KeyColumns, dict[int, KeyState]]] = []

    @rule(data=st.data(), key=KEYS)
    def set(self, data, key):
        self.known[key] = self.model[key] = data.draw(states(key, WIDE))

    @rule(key=KEYS)
    def get(self, key):
        assert self.known.get(key) == self.model.get(key)

    @rule(key=KEYS)
    def delete(self, key):
        assert self.known.pop(key, None) == self.model.pop(key, None)

    @rule()
    def clear(self):
        self.known.clear()
        self.model.clear()

    @rule(data=st.data(), keys=st.sets(KEYS), apart=st.sets(KEYS))
    def install(self, data, keys, apart):
        plain = [Status.READY, Status.UNTOUCHED]
        new = {key: data.draw(states(key, statuses=plain)) for key in keys}
        new |= {key: data.draw(states(key, WIDE)) for key in apart}
        changes = as_columns({key: KeyChange(state, Span(0, 0)) for key, state in new.items()})
        assert list(changes) == sorted(keys | apart)
        assert len(changes) == len(keys | apart)
        self.known.install(changes)
        for key, state in new.items():
            alone = key in changes.apart
            self.model[key] = state if alone else behind(self.model.get(key), state)

    @rule(data=st.data(), keys=st.sets(KEYS), kind=st.sampled_from([dict, KnownKeys]))
    def put(self, data, keys, kind):
        new = {key: data.draw(states(key, WIDE)) for key in keys}
        other = kind(new)
        if kind is KnownKeys and data.draw(st.booleans()):
            other.heads(ascending(*keys))
        self.known.put(other)
        self.model |= new

    @rule(data=st.data(), day=DAYS)
    def take(self, data, day):
        keys = ascending(*self.some(data))
        days = np.array([day + at for at in range(len(keys))], dtype=np.int64)
        wanted = {}
        for key, from_day in zip(keys.tolist(), days.tolist(), strict=True):
            wanted[key] = tail(self.model[key], from_day // 64 * 64)
        if all(fits(self.model[key]) for key in wanted):
            taken, cut = self.known.take(keys, days)
            assert dict(taken) == wanted
            assert cut.tolist() == [state != self.model[key] for key, state in wanted.items()]
            self.handed_out.append((taken, wanted))
        else:
            with pytest.raises(OverflowError):
                self.known.take(keys, days)

    @rule(data=st.data())
    def heads(self, data):
        keys = self.some(data)
        told = self.known.heads(ascending(*keys))
        expected = [
            (*state[:5], min(state.peak, MAX_INT64), state.before, state.loaded_from)
            for _, state in sorted(self.model.items())
            if state.key in keys
        ]
        assert list(zip(*map(np.ndarray.tolist, told), strict=True)) == expected

    @rule(asked=st.lists(st.tuples(KEYS, st.integers(-12, 12))))
    def lacking(self, asked):
        keys, days = (np.array([each[at] for each in asked], dtype=np.int64) for at in (0, 1))
        expected: dict[int, int] = {}
        for key, day in asked:
            state = self.model.get(key)
            if state is None or state.loaded_from > day:
                expected[key] = min(day, expected.get(key, day))
        assert self.known.lacking(keys, days) == expected

    @rule(keys=st.lists(KEYS))
    def apart(self, keys):
        blocked = [
            self.model[key]
            for key in keys
            if key in self.model and self.model[key].status is Status.BLOCKED
        ]
        standing = list(self.known.apart(keys))
        assert [state for state in standing if state.status is Status.BLOCKED] == blocked
        assert all(self.model[state.key] == state for state in standing)

    def some(self, data) -> set[int]:
        if not self.model:
            return set()
        return data.draw(st.sets(st.sampled_from(sorted(self.model))))

    @invariant()
    def it_counts_what_it_holds(self):
        assert len(self.known) == len(self.model)
        assert set(self.known) == set(self.model)
        assert [key for key in range(72) if key in self.known] == sorted(self.model)
        assert self.known.days == sum(len(state.rows.days) for state in self.model.values())

    @invariant()
    def what_was_handed_out_stays_what_it_was(self):
        for taken, states_then in self.handed_out:
            assert dict(taken) == states_then


TestKeptKeys = KeptKeys.TestCase
TestKeptKeys.settings = settings(stateful_step_count=12)


@given(st.lists(st.dictionaries(st.integers(0, 5), st.integers(1, 9), min_size=1), max_size=20))
def test_keys_that_grow_keep_all_of_their_days(steps):
    """Each batch takes the last days of its keys, and gives them back with new ones behind them."""
    known, model = KnownKeys(), {key: untouched(key, 100, 60) for key in range(6)}
    known.put(columns_of(list(model.values())))
    for at, grown in enumerate(steps):
        keys = ascending(*grown)
        days = np.full(len(keys), 20 * at, dtype=np.int64)
        taken, _ = known.take(keys, days)
        states_now = dict(taken)
        for key, count in grown.items():
            new = [(20 * at + i, at, 1, key, True, False, at + i, 0) for i in range(count)]
            columns = Rows(*map(list, zip(*new, strict=True)))
            for states_of in (model, states_now):
                both = zip(states_of[key].rows, columns, strict=True)
                rows = Rows(*(old + more for old, more in both))
                states_of[key] = states_of[key]._replace(rows=rows)
        changes = {key: KeyChange(state, Span(0, 0)) for key, state in states_now.items()}
        known.install(as_columns(changes))
    assert dict(known) == model


def test_a_key_in_columns_can_be_forgotten():
    known = KnownKeys(columns_of([untouched(key, 100, 60) for key in (2, 5)]))
    del known[2]
    assert list(known) == [5]
    assert len(known) == 1


def test_a_key_that_is_not_known_cannot_be_taken():
    with pytest.raises(KeyError):
        KnownKeys().take(ascending(3), ascending(0))
    with pytest.raises(KeyError):
        columns_of([untouched(2, 0, 0)])[3]


def test_rows_that_changed_are_counted_in_columns_and_apart():
    ready, blocked = untouched(0, 100, 60), untouched(1, 100, 60)._replace(status=Status.BLOCKED)
    changes = {0: KeyChange(ready, Span(1, 3)), 1: KeyChange(blocked, Span(0, 4))}
    assert changed_rows(changes) == changed_rows(as_columns(changes)) == 6
