"""What a worker knows of keys reads as a plain mapping, however it is kept."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from amends_pipeline.inventory.key_columns import KeyColumns, columns_of, fits
from amends_pipeline.inventory.known_keys import KnownKeys
from amends_pipeline.inventory.refold import (
    EVERY_DAY,
    INT64_MAX,
    INT64_MIN,
    KeyChange,
    KeyState,
    Rows,
    Span,
    Status,
    untouched,
)
from amends_pipeline_tests.columns import as_columns

KEYS = st.integers(0, 6) | st.just(70)
NUMBERS = st.integers(-99, 99) | st.sampled_from([INT64_MIN, INT64_MAX])
WIDE = NUMBERS | st.sampled_from([INT64_MAX + 1, INT64_MIN - 1])


@st.composite
def states(draw, key: int, numbers=NUMBERS, statuses=tuple(Status)) -> KeyState:
    days = sorted(draw(st.sets(st.integers(-9, 9), max_size=4)))
    status = draw(st.sampled_from(statuses))
    column = st.lists(numbers, min_size=len(days), max_size=len(days))
    flags = st.lists(st.booleans(), min_size=len(days), max_size=len(days))
    rows = Rows(
        days,
        *(draw(each) for each in (column, column, column, flags, flags, column, column)),
    )
    rows = rows._replace(counts=[1] * len(days), balance_versions=[1] * len(days))
    rows = rows._replace(alert_versions=[0] * len(days))
    reasons = (("A", 1),) if status is Status.BLOCKED else ()
    loaded_from = draw(st.sampled_from([EVERY_DAY, -9]))
    return KeyState(key, 100, 60, status, 1, reasons, 100, draw(NUMBERS), loaded_from, rows)


def ascending(*keys: int) -> np.ndarray:
    return np.array(sorted(keys), dtype=np.int64)


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


@pytest.mark.parametrize(
    ("change", "fitting"),
    [
        ({}, True),
        ({"status": Status.UNTOUCHED}, True),
        ({"status": Status.BLOCKED}, False),
        ({"peak": INT64_MAX}, True),
        ({"peak": INT64_MAX + 1}, False),
        ({"rows": Rows([1], [INT64_MIN], [1], [INT64_MAX], [True], [True], [1], [1])}, True),
        ({"rows": Rows([1], [INT64_MIN - 1], [1], [0], [True], [True], [1], [1])}, False),
        ({"rows": Rows([1], [INT64_MAX + 1], [1], [0], [True], [True], [1], [1])}, False),
        ({"rows": Rows([1], [0], [1], [INT64_MAX + 1], [True], [True], [1], [1])}, False),
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
        self.model |= {key: change.state for key, change in changes.items()}

    @rule(data=st.data(), keys=st.sets(KEYS), kind=st.sampled_from([dict, KnownKeys]))
    def put(self, data, keys, kind):
        new = {key: data.draw(states(key, WIDE)) for key in keys}
        other = kind(new)
        if kind is KnownKeys and data.draw(st.booleans()):
            other.heads(ascending(*keys))
        self.known.put(other)
        self.model |= new

    @rule(data=st.data())
    def take(self, data):
        keys = self.some(data)
        wanted = {key: self.model[key] for key in keys}
        if all(map(fits, wanted.values())):
            taken = self.known.take(ascending(*keys))
            assert dict(taken) == wanted
            self.handed_out.append((taken, wanted))
        else:
            with pytest.raises(OverflowError):
                self.known.take(ascending(*keys))

    @rule(data=st.data())
    def heads(self, data):
        keys = self.some(data)
        told = self.known.heads(ascending(*keys))
        expected = [
            (*state[:5], min(state.peak, INT64_MAX), state.before, state.loaded_from)
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


def test_a_key_that_is_not_known_cannot_be_taken():
    with pytest.raises(KeyError):
        KnownKeys().take(ascending(3))
    with pytest.raises(KeyError):
        columns_of([untouched(2, 0, 0)])[3]
