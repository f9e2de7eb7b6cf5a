"""The states of stock keys that a worker knows, most of them as columns.

A batch takes the last days of its keys out as columns and puts columns back. One correction takes
one state out, as a value, which then stands apart until a batch wants it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping

import numpy as np

from amends_pipeline.inventory.key_columns import (
    SUFFIX_DAYS,
    Flags,
    Heads,
    Integers,
    KeyChanges,
    KeyColumns,
    columns_of,
    fits,
    state_of,
)
from amends_pipeline.inventory.key_rows import KeyRows
from amends_pipeline.inventory.refold import KeyChange, KeyState
from amends_pipeline.kernel.integers import MAX_INT64


class KnownKeys(MutableMapping[int, KeyState]):
    """States by key number."""

    def __init__(self, states: Mapping[int, KeyState] | None = None) -> None:
        self._apart: dict[int, KeyState] = {}
        """States that stand as values."""
        self._apart_days = 0
        self._rows = KeyRows()
        self._heads = Heads(*(np.zeros(0, dtype=np.int64) for _ in Heads._fields))
        """By key number, of the keys that have rows in columns."""
        if states:
            self.put(states)

    # --- as values

    def __len__(self) -> int:
        return len(self._apart) + self._rows.keys

    def __iter__(self) -> Iterator[int]:
        return iter([*self._apart, *self._rows.numbers().tolist()])

    def __contains__(self, key: object) -> bool:
        return key in self._apart or (isinstance(key, int) and self._rows.holds(key))

    def __getitem__(self, key: int) -> KeyState:
        state = self._apart.get(key)
        if state is None:
            if not self._rows.holds(key):
                raise KeyError(key)
            head = [int(column[key]) for column in self._heads]
            state = self[key] = state_of(head, self._rows.of(key))
        return state

    def __setitem__(self, key: int, state: KeyState) -> None:
        before = self._apart.get(key)
        if before is not None:
            self._apart_days -= len(before.rows.days)
        elif self._rows.keys and self._rows.holds(key):
            self._rows.drop(np.array([key]))
        self._apart_days += len(state.rows.days)
        self._apart[key] = state

    def __delitem__(self, key: int) -> None:
        if self._rows.holds(key):
            self._rows.drop(np.array([key]))
        else:
            self._apart_days -= len(self._apart.pop(key).rows.days)

    def clear(self) -> None:
        """Forget all of them, and give their memory back."""
        KnownKeys.__init__(self)

    @property
    def days(self) -> int:
        """How many days of all keys are kept."""
        return self._apart_days + self._rows.days

    # --- as columns

    def put(self, states: Mapping[int, KeyState]) -> None:
        """Let these states stand for their keys."""
        if isinstance(states, KnownKeys):
            keys = states._rows.numbers()  # noqa: SLF001 - of its own kind
            columns, _ = states.take(keys, states.heads(keys).loaded_from)
            self.put(columns)
            states = states._apart  # noqa: SLF001 - as above
        if isinstance(states, KeyColumns):
            self._put(states, states.heads, np.zeros_like(states.heads.keys))
        else:
            self.update(states)

    def install(self, changes: Mapping[int, KeyChange]) -> None:
        """Let the states after these changes stand for their keys.

        Columns may hold less of a key than is known: the days before them stay as they are.
        """
        if isinstance(changes, KeyChanges):
            self._install(changes.columns)
            changes = changes.apart
        for key, change in changes.items():
            self[key] = change.state

    def take(self, keys: Integers, days: Integers) -> tuple[KeyColumns, Flags]:
        """Copies of the states of these keys, which ascend and stand here, at least from a day on.

        Tells too of which of them days were left out. Raises OverflowError when one of them is
        blocked, or does not fit 64 bits.
        """
        self._settle(keys)
        if not self._rows.held(keys).all():
            raise OverflowError
        heads = self._heads.take(keys)
        from_days = days - days % SUFFIX_DAYS
        left_out = self._rows.before(keys, from_days)
        cut = left_out > 0
        heads.before[cut] = self._rows.closes_before(keys[cut], left_out[cut])
        heads.loaded_from[cut] = from_days[cut]
        return KeyColumns(heads, *self._rows.take(keys, left_out)), cut

    def heads(self, keys: Integers) -> Heads:
        """These keys, which ascend and stand here, without their days. Peaks end at 64 bits."""
        self._settle(keys)
        heads = self._heads.take(keys)
        for at in np.flatnonzero(~self._rows.held(keys)).tolist():
            state = self._apart[int(keys[at])]
            members = (*state[:5], min(state.peak, MAX_INT64), state.before, state.loaded_from)
            for column, value in zip(heads, members, strict=True):
                column[at] = value
        return heads

    def lacking(self, keys: Integers, days: Integers) -> dict[int, int]:
        """Those of these keys that are not known from their day on, with the earliest such day.

        A key may be named more than once.
        """
        self._reach(keys)
        known = self._rows.held(keys) & (self._heads.loaded_from[keys] <= days)
        doubtful = np.flatnonzero(~known)
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
        self._reach(keys)
        apart = keys[~self._rows.held(keys)].tolist()
        states = [state for state in map(self._apart.__getitem__, apart) if fits(state)]
        if states:
            columns = columns_of(states)
            self._put(columns, columns.heads, np.zeros_like(columns.heads.keys))

    def _install(self, columns: KeyColumns) -> None:
        keys, heads = columns.heads.keys, columns.heads
        self._reach(keys)
        if self._apart:
            self._settle(keys[np.isin(keys, list(self._apart))])
        known_from = np.where(self._rows.held(keys), self._heads.loaded_from[keys], MAX_INT64)
        more = np.flatnonzero(known_from < heads.loaded_from)
        kept = np.zeros_like(keys)
        kept[more] = self._rows.before(keys[more], heads.loaded_from[more])
        before, loaded_from = heads.before.copy(), heads.loaded_from.copy()
        before[more] = self._heads.before[keys[more]]
        loaded_from[more] = known_from[more]
        self._put(columns, heads._replace(before=before, loaded_from=loaded_from), kept)

    def _put(self, columns: KeyColumns, heads: Heads, kept: Integers) -> None:
        """Let columns stand behind so many first rows of each key, with these heads."""
        keys = heads.keys
        self._reach(keys)
        if self._apart:
            # There are few of them, or this is how they settle.
            for key in self._apart.keys() & set(keys.tolist()):
                self._apart_days -= len(self._apart.pop(key).rows.days)
        self._rows.put(keys, kept, columns.bounds, columns.rows)
        for column, values in zip(self._heads, heads, strict=True):
            column[keys] = values

    def _reach(self, keys: Integers) -> None:
        """Make the columns by key number reach as far as these keys."""
        more = int(keys.max(initial=-1)) + 1 - len(self._heads.keys)
        if more > 0:
            more = max(more, len(self._heads.keys))
            self._heads = Heads(
                *(np.append(each, np.zeros(more, dtype=np.int64)) for each in self._heads)
            )
            self._rows.reach(len(self._heads.keys))
