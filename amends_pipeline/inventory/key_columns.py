"""States of many stock keys side by side: columns, where `refold.py` has one value a key.

A batch touches thousands of keys, each with a few days. As columns they cost some array operations
together; as values each of them costs a dozen lists. They read as the mapping of values that they
stand for, so that whoever does not mind the cost of an object may look at them that way.

Columns hold what fits 64 bits and is not blocked. Whatever else a key may be stands apart, as a
value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from amends_pipeline.inventory.refold import (
    KeyChange,
    KeyState,
    Rows,
    Span,
    Status,
)
from amends_pipeline.kernel.integers import MAX_INT64, MIN_INT64

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

STATUSES: Final = tuple(Status)
"""Statuses by their number."""
SUFFIX_DAYS: Final = 64
"""A batch takes the days of a key from a multiple of so many on, so that a store that keeps as many
together finds them all."""


class RowColumns(NamedTuple):
    """The columns of `Rows`."""

    days: Integers
    sums: Integers
    counts: Integers
    closes: Integers
    present: Flags
    alerting: Flags
    balance_versions: Integers
    alert_versions: Integers

    @staticmethod
    def empty(count: int) -> RowColumns:
        """Room for so many rows, whatever stands there."""
        return RowColumns.of(np.empty(count, dtype=kind) for kind in _ROW_TYPES)

    def take(self, at: Integers | Flags | slice) -> RowColumns:
        """The rows at these positions."""
        return RowColumns.of(column[at] for column in self)

    @staticmethod
    def of(columns: Iterable[NDArray[Any]]) -> RowColumns:
        """These columns, in the order of the fields."""
        return RowColumns(*columns)

    def rows(self, start: int, stop: int) -> Rows:
        """The rows from `start` up to `stop` as lists of Python's own numbers."""
        return Rows(*(column[start:stop].tolist() for column in self))


_ROW_TYPES: Final = (
    np.int64,
    np.int64,
    np.int64,
    np.int64,
    np.bool_,
    np.bool_,
    np.int64,
    np.int64,
)


class Heads(NamedTuple):
    """What keys are apart from their days: the columns of `KeyState` but for reasons and rows."""

    keys: Integers
    openings: Integers
    thresholds: Integers
    statuses: Integers
    status_versions: Integers
    peaks: Integers
    before: Integers
    loaded_from: Integers

    def take(self, at: Integers) -> Heads:
        """The keys at these positions."""
        return Heads(*(column[at] for column in self))


@dataclass(frozen=True, slots=True, eq=False)
class KeyColumns(Mapping[int, KeyState]):
    """States of keys in the order of their numbers.

    The rows of key `i` stand at `bounds[i]` up to `bounds[i + 1]`.
    """

    heads: Heads
    bounds: Integers
    rows: RowColumns

    def __len__(self) -> int:
        return len(self.heads.keys)

    def __iter__(self) -> Iterator[int]:
        return iter(self.heads.keys.tolist())

    def __getitem__(self, key: int) -> KeyState:
        return self.state(place_of(self.heads.keys, key))

    def take(self, at: Integers) -> KeyColumns:
        """The keys at these positions, which ascend."""
        if len(at) == len(self):
            return self
        bounds = bounds_of(np.diff(self.bounds)[at])
        rows = self.rows.take(positions(self.bounds[at], bounds))
        return KeyColumns(self.heads.take(at), bounds, rows)

    def state(self, at: int) -> KeyState:
        """The state of the key at this position."""
        start, stop = self.bounds[at : at + 2].tolist()
        return state_of((int(column[at]) for column in self.heads), self.rows.rows(start, stop))


def bounds_of(lengths: Integers) -> Integers:
    """Where parts of these lengths begin, one behind the other, and where the last one ends."""
    bounds = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=bounds[1:])
    return bounds


def spread(starts: Integers, bounds: Integers) -> Integers:
    """Where rows stand that begin at `starts` somewhere, and at `bounds` one behind the other."""
    return np.repeat(starts - bounds[:-1], np.diff(bounds)) + np.arange(bounds[-1])


def positions(starts: Integers, bounds: Integers) -> Integers | slice:
    """As `spread`, and in the shortest way."""
    if len(starts) and (starts[1:] == starts[:-1] + np.diff(bounds)[:-1]).all():
        return slice(int(starts[0]), int(starts[0] + bounds[-1]))
    return spread(starts, bounds)


def place_of(keys: Integers, key: int) -> int:
    """Where `key` stands among ascending keys. Raises KeyError."""
    at = int(np.searchsorted(keys, key))
    if at == len(keys) or keys[at] != key:
        raise KeyError(key)
    return at


def state_of(head: Iterable[int], rows: Rows) -> KeyState:
    """A state from the members of `Heads` and its rows."""
    key, opening, threshold, status, status_version, peak, before, loaded_from = head
    return KeyState(
        key,
        opening,
        threshold,
        STATUSES[status],
        status_version,
        (),
        peak,
        before,
        loaded_from,
        rows,
    )


def fits(state: KeyState) -> bool:
    """Whether a state can stand in columns: it is not blocked, and all of it fits 64 bits."""
    if state.status is Status.BLOCKED or state.peak > MAX_INT64:
        return False
    numbers = (state.rows.sums, state.rows.closes)
    return all(not column or _within(column) for column in numbers)


def _within(column: Sequence[int]) -> bool:
    return min(column) >= MIN_INT64 and max(column) <= MAX_INT64


def columns_of(states: Sequence[KeyState]) -> KeyColumns:
    """Columns of states that fit, in the order of their keys."""
    columns: Sequence[Sequence[Any]] = list(zip(*states, strict=True)) or [()] * len(
        KeyState._fields
    )
    *numbers, reasons, peaks, before, loaded_from, rows = columns
    del reasons
    heads = (*numbers, peaks, before, loaded_from)
    bounds = bounds_of(np.array([len(each.days) for each in rows], dtype=np.int64))
    parts: Iterable[tuple[Sequence[Any], ...]] = zip(*rows, strict=True)
    members = list(parts) or [()] * len(_ROW_TYPES)
    return KeyColumns(
        Heads(*(np.array(column, dtype=np.int64) for column in heads)),
        bounds,
        RowColumns.of(
            np.fromiter(chain.from_iterable(column), kind, bounds[-1])
            for column, kind in zip(members, _ROW_TYPES, strict=True)
        ),
    )


@dataclass(frozen=True, slots=True, eq=False)
class KeyChanges(Mapping[int, KeyChange]):
    """What a batch makes of its keys: most as columns, some apart, in the order of their numbers.

    The rows of the key at position `i` that differ from what was stored stand at `firsts[i]` up to
    `lasts[i]` among all rows.
    """

    columns: KeyColumns
    firsts: Integers
    lasts: Integers
    headed: Flags
    """Which keys differ in more than their rows, or have a first day that they had not."""
    apart: Mapping[int, KeyChange]

    @staticmethod
    def none() -> KeyChanges:
        """No change."""
        nothing = np.zeros(0, dtype=np.int64)
        return KeyChanges(columns_of(()), nothing, nothing, nothing > 0, {})

    def __len__(self) -> int:
        return len(self.columns) + len(self.apart)

    def __iter__(self) -> Iterator[int]:
        return iter(sorted([*self.columns, *self.apart]))

    def __getitem__(self, key: int) -> KeyChange:
        change = self.apart.get(key)
        if change is not None:
            return change
        at = place_of(self.columns.heads.keys, key)
        start = int(self.columns.bounds[at])
        span = Span(int(self.firsts[at]) - start, int(self.lasts[at]) - start)
        return KeyChange(self.columns.state(at), span, bool(self.headed[at]))

    def beside(self, apart: Mapping[int, KeyChange]) -> KeyChanges:
        """These changes and some of other keys."""
        return KeyChanges(
            self.columns, self.firsts, self.lasts, self.headed, {**self.apart, **apart}
        )


def changed_rows(changes: Mapping[int, KeyChange]) -> int:
    """How many rows of all keys differ from what was stored."""
    count = 0
    if isinstance(changes, KeyChanges):
        count = int((changes.lasts - changes.firsts).sum())
        changes = changes.apart
    return count + sum(change.changed.stop - change.changed.start for change in changes.values())
