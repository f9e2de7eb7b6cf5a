"""The rows of many keys in arrays of all of them, each key's one behind the other, with some room.

A batch changes the last rows of a key and adds a few. They are written where the old ones stand as
long as there is room; else all rows of the key go to the end, and the place that they had is
nobody's until everything is moved together.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from amends_pipeline.inventory.key_columns import Integers, RowColumns, bounds_of, spread
from amends_pipeline.inventory.refold import Rows

_ABSENT: Final = -1


class KeyRows:
    """Rows by key number."""

    def __init__(self) -> None:
        self.keys = 0
        """How many keys are here."""
        self.days = 0
        """How many rows they have together."""
        self._used = 0
        """Where the end is."""
        self._rows = RowColumns.empty(0)
        # By key number: where the rows of a key begin, how many there are, for how many is room.
        self._starts = np.zeros(0, dtype=np.int64)
        self._lengths = np.full(0, _ABSENT)
        self._rooms = np.zeros(0, dtype=np.int64)

    def reach(self, count: int) -> None:
        """Make the columns by key number so long, which are shorter now."""
        more = count - len(self._lengths)
        self._starts = np.append(self._starts, np.zeros(more, dtype=np.int64))
        self._lengths = np.append(self._lengths, np.full(more, _ABSENT))
        self._rooms = np.append(self._rooms, np.zeros(more, dtype=np.int64))

    def holds(self, key: int) -> bool:
        """Whether a key is here."""
        return 0 <= key < len(self._lengths) and bool(self._lengths[key] != _ABSENT)

    def held(self, keys: Integers) -> NDArray[np.bool_]:
        """Which of these keys are here; all of them are within reach."""
        found: NDArray[np.bool_] = self._lengths[keys] != _ABSENT
        return found

    def numbers(self) -> Integers:
        """The keys that are here, ascending."""
        return np.flatnonzero(self._lengths != _ABSENT)

    def of(self, key: int) -> Rows:
        """The rows of a key that is here, as values."""
        start = int(self._starts[key])
        return self._rows.rows(start, start + int(self._lengths[key]))

    def before(self, keys: Integers, days: Integers) -> Integers:
        """How many rows each of these keys has before its day."""
        starts = self._starts[keys]
        low, high = starts.copy(), starts + self._lengths[keys]
        # All of them are halved together.
        open_ = np.flatnonzero(low < high)
        while len(open_):
            middle = (low[open_] + high[open_]) >> 1
            earlier = self._rows.days[middle] < days[open_]
            low[open_[earlier]] = middle[earlier] + 1
            high[open_[~earlier]] = middle[~earlier]
            open_ = open_[low[open_] < high[open_]]
        return low - starts

    def closes_before(self, keys: Integers, positions: Integers) -> Integers:
        """The close of the row before each position, which is not the first."""
        closes: Integers = self._rows.closes[self._starts[keys] + positions - 1]
        return closes

    def take(self, keys: Integers, left_out: Integers) -> tuple[Integers, RowColumns]:
        """The rows of these keys but for so many first ones: where each key's begin, and copies."""
        counts = self._lengths[keys] - left_out
        bounds = bounds_of(counts)
        return bounds, self._rows.take(spread(self._starts[keys] + left_out, bounds))

    def put(self, keys: Integers, kept: Integers, bounds: Integers, rows: RowColumns) -> None:
        """Let these rows stand behind so many first ones that each key keeps."""
        was, lengths = self._lengths[keys], kept + np.diff(bounds)
        moving = np.flatnonzero((was == _ABSENT) | (lengths > self._rooms[keys]))
        if len(moving):
            self._move(keys[moving], kept[moving], _roomy(lengths[moving]))
        at = spread(self._starts[keys] + kept, bounds)
        for column, values in zip(self._rows, rows, strict=True):
            column[at] = values
        self._lengths[keys] = lengths
        self.keys += int((was == _ABSENT).sum())
        self.days += int(lengths.sum() - np.maximum(was, 0).sum())

    def drop(self, keys: Integers) -> None:
        """Forget keys that are here."""
        self.days -= int(self._lengths[keys].sum())
        self.keys -= len(keys)
        self._lengths[keys] = _ABSENT

    def _move(self, keys: Integers, kept: Integers, rooms: Integers) -> None:
        """Give keys room at the end, and take their first rows there."""
        needed = int(rooms.sum())
        if self._used + needed > len(self._rows.days):
            self._tidy(needed)
        starts = self._used + bounds_of(rooms)[:-1]
        bounds = bounds_of(kept)
        here, there = spread(self._starts[keys], bounds), spread(starts, bounds)
        for column in self._rows:
            column[there] = column[here]
        self._starts[keys], self._rooms[keys] = starts, rooms
        self._used += needed

    def _tidy(self, needed: int) -> None:
        """Put everything into new arrays, with room for so many rows more and then some."""
        keys = self.numbers()
        lengths = self._lengths[keys]
        rooms = _roomy(lengths)
        room = bounds_of(rooms)
        size = (int(room[-1]) + needed) * 3 // 2
        bounds = bounds_of(lengths)
        here, there = spread(self._starts[keys], bounds), spread(room[:-1], bounds)
        # One column after the other, so that no more than one stands twice.
        columns: list[NDArray[Any]] = list(self._rows)
        self._rows = RowColumns.empty(0)
        for number, column in enumerate(columns):
            columns[number] = np.empty(size, dtype=column.dtype)
            columns[number][there] = column[here]
        self._rows = RowColumns.of(columns)
        self._starts[keys], self._rooms[keys] = room[:-1], rooms
        self._used = int(room[-1])


def _roomy(lengths: Integers) -> Integers:
    """Room for so many rows and a few more."""
    return lengths + lengths // 4 + 2
