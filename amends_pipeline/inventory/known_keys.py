"""The states of stock keys that a worker knows, most of them as columns.

A batch takes columns out and puts columns back. One correction takes one state out, as a value,
which then stands apart until a batch wants it again.

Rows are put behind all others; those that they take the place of stay until there are too many of
them. What was handed out is never written to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from amends_pipeline.inventory.key_columns import (
    Heads,
    Integers,
    KeyChanges,
    KeyColumns,
    RowColumns,
    columns_of,
    fits,
    positions,
    state_of,
)
from amends_pipeline.inventory.refold import INT64_MAX, KeyChange, KeyState

_APART: Final = -1
"""The number of rows of a key that does not stand in columns."""
_LEAST_ROOM: Final = 1_024


class KnownKeys(MutableMapping[int, KeyState]):
    """States by key number."""

    def __init__(self, states: Mapping[int, KeyState] | None = None) -> None:
        self._apart: dict[int, KeyState] = {}
        """States that stand as values."""
        self._apart_days = 0
        self._held = 0
        """How many keys stand in columns."""
        self._live = 0
        """How many rows of the columns belong to a key now."""
        self._used = 0
        """How many rows of the columns are filled."""
        self._rows = RowColumns.empty(0)
        self._heads = Heads(*(np.zeros(0, dtype=np.int64) for _ in Heads._fields))
        """By key number."""
        self._starts = np.zeros(0, dtype=np.int64)
        self._lengths = np.full(0, _APART)
        """By key number: where the rows of a key begin, and how many there are."""
        if states:
            self.put(states)

    # --- as values

    def __len__(self) -> int:
        return len(self._apart) + self._held

    def __iter__(self) -> Iterator[int]:
        return iter([*self._apart, *np.flatnonzero(self._lengths != _APART).tolist()])

    def __contains__(self, key: object) -> bool:
        return key in self._apart or (isinstance(key, int) and self._holds(key))

    def __getitem__(self, key: int) -> KeyState:
        state = self._apart.get(key)
        if state is None:
            if not self._holds(key):
                raise KeyError(key)
            start, length = int(self._starts[key]), int(self._lengths[key])
            head = [int(column[key]) for column in self._heads]
            state = state_of(head, self._rows.rows(start, start + length))
            self[key] = state
        return state

    def __setitem__(self, key: int, state: KeyState) -> None:
        before = self._apart.get(key)
        if before is not None:
            self._apart_days -= len(before.rows.days)
        elif self._held and self._holds(key):
            self._leave(np.array([key]))
        self._apart_days += len(state.rows.days)
        self._apart[key] = state

    def __delitem__(self, key: int) -> None:
        if self._holds(key):
            self._leave(np.array([key]))
        else:
            self._apart_days -= len(self._apart.pop(key).rows.days)

    def clear(self) -> None:
        """Forget all of them, and give their memory back."""
        KnownKeys.__init__(self)

    @property
    def days(self) -> int:
        """How many days of all keys are kept."""
        return self._apart_days + self._live

    def _holds(self, key: int) -> bool:
        """Whether a key stands in columns."""
        return 0 <= key < len(self._lengths) and bool(self._lengths[key] != _APART)

    # --- as columns

    def put(self, states: Mapping[int, KeyState]) -> None:
        """Let these states stand for their keys."""
        if isinstance(states, KeyColumns):
            self._put(states)
        elif isinstance(states, KnownKeys):
            self._put(states.take(np.flatnonzero(states._lengths != _APART)))  # noqa: SLF001 - of its own kind
            self.update(states._apart)  # noqa: SLF001 - as above
        else:
            self.update(states)

    def install(self, changes: Mapping[int, KeyChange]) -> None:
        """Let the states after these changes stand for their keys."""
        if isinstance(changes, KeyChanges):
            self._put(changes.columns)
            changes = changes.apart
        for key, change in changes.items():
            self[key] = change.state

    def take(self, keys: Integers) -> KeyColumns:
        """The states of these keys, which ascend and stand here. They may not be written to.

        Raises OverflowError when one of them is blocked, or does not fit 64 bits.
        """
        self._settle(keys)
        starts, lengths = self._starts[keys], self._lengths[keys]
        if (lengths == _APART).any():
            raise OverflowError
        bounds = np.zeros(len(keys) + 1, dtype=np.int64)
        np.cumsum(lengths, out=bounds[1:])
        heads = Heads(*(column[keys] for column in self._heads))
        return KeyColumns(heads, bounds, self._rows.take(positions(starts, bounds)))

    def heads(self, keys: Integers) -> Heads:
        """These keys, which ascend and stand here, without their days. Peaks end at 64 bits."""
        self._settle(keys)
        heads = Heads(*(column[keys] for column in self._heads))
        for at in np.flatnonzero(self._lengths[keys] == _APART).tolist():
            state = self._apart[int(keys[at])]
            members = (*state[:5], min(state.peak, INT64_MAX), state.before, state.loaded_from)
            for column, value in zip(heads, members, strict=True):
                column[at] = value
        return heads

    def lacking(self, keys: Integers, days: Integers) -> dict[int, int]:
        """Those of these keys that are not known from their day on, with the earliest such day.

        A key may be named more than once.
        """
        self._make_place(int(keys.max(initial=-1)))
        held = self._lengths[keys] != _APART
        doubtful = np.flatnonzero(~held | (self._heads.loaded_from[keys] > days))
        lacking: dict[int, int] = {}
        for key, day in zip(keys[doubtful].tolist(), days[doubtful].tolist(), strict=True):
            state = self._apart.get(key)
            if state is None or state.loaded_from > day:
                lacking[key] = min(day, lacking.get(key, day))
        return lacking

    def apart(self, keys: Iterable[int]) -> Iterator[KeyState]:
        """Those of these keys that do not stand in columns; every blocked one is among them."""
        return (self._apart[key] for key in keys if key in self._apart)

    def _settle(self, keys: Integers) -> None:
        """Put those of these keys that stand apart into columns, if they fit. Raises KeyError."""
        self._make_place(int(keys.max(initial=-1)))
        apart = keys[self._lengths[keys] == _APART].tolist()
        states = [state for state in map(self._apart.__getitem__, apart) if fits(state)]
        if states:
            self._put(columns_of(states))

    def _put(self, columns: KeyColumns) -> None:
        keys = columns.heads.keys
        self._make_place(int(keys.max(initial=-1)))
        self._leave(keys[self._lengths[keys] != _APART])
        if self._apart:
            # There are few of them, or this is how they settle.
            for key in self._apart.keys() & set(keys.tolist()):
                self._apart_days -= len(self._apart.pop(key).rows.days)
        count = len(columns.rows.days)
        self._make_room(count)
        for column, values in zip(self._rows, columns.rows, strict=True):
            column[self._used : self._used + count] = values
        for column, values in zip(self._heads, columns.heads, strict=True):
            column[keys] = values
        self._starts[keys] = self._used + columns.bounds[:-1]
        self._lengths[keys] = np.diff(columns.bounds)
        self._used += count
        self._live += count
        self._held += len(keys)

    def _leave(self, keys: Integers) -> None:
        """Let keys stand in columns no longer."""
        self._live -= int(self._lengths[keys].sum())
        self._held -= len(keys)
        self._lengths[keys] = _APART

    def _make_place(self, key: int) -> None:
        """Make the columns by key number reach as far as `key`."""
        size = len(self._lengths)
        if key < size:
            return
        more = max(key + 1, 2 * size) - size
        self._heads = Heads(
            *(np.append(each, np.zeros_like(each, shape=more)) for each in self._heads)
        )
        self._starts = np.append(self._starts, np.zeros(more, dtype=np.int64))
        self._lengths = np.append(self._lengths, np.full(more, _APART))

    def _make_room(self, count: int) -> None:
        """Make room for so many rows more: in new arrays, without the rows of nobody."""
        if self._used + count <= len(self._rows.days):
            return
        room = max((self._live + count) * 3 // 2, _LEAST_ROOM)
        held = np.flatnonzero(self._lengths != _APART)
        bounds = np.zeros(len(held) + 1, dtype=np.int64)
        np.cumsum(self._lengths[held], out=bounds[1:])
        at = positions(self._starts[held], bounds)
        # One column after the other, so that no more than one stands twice.
        columns: list[NDArray[Any]] = list(self._rows)
        self._rows = RowColumns.empty(0)
        for number, column in enumerate(columns):
            roomy = np.empty(room, dtype=column.dtype)
            roomy[: self._live] = column[at]
            columns[number] = roomy
        self._rows = RowColumns.of(columns)
        self._starts[held] = bounds[:-1]
        self._used = self._live
