"""Days of many READY keys side by side as columns, and what a run of slices does to them.

`refold.py` and `diff.py` say what a change means, one key and one slice at a time. This module says
the same of many keys and many slices in one go: a late change shifts every later close of its key
by one constant, so what a slice does to a day is a running sum over the slices before it. Tests
hold the two equal.

Vocabulary: a *row* is one day of one key. A *group* is one key within one slice. A *pair* is a row
that a group may restate: every row from the group's first moved day on, unless its movements cancel
out.

All arithmetic is on 64-bit integers. The caller proves beforehand that no close comes near their
limit (`batch.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from amends_pipeline.inventory.envelope import Type
from amends_pipeline.inventory.key_columns import KeyChanges, KeyColumns, RowColumns
from amends_pipeline.inventory.keyfold import NeedsWholeKey
from amends_pipeline.inventory.known_keys import KnownKeys
from amends_pipeline.inventory.refold import EVERY_DAY, Status

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

PAIRS_AT_ONCE: Final = 150_000
"""Bounds the memory of a step: some 30 columns of that many integers."""
_DAY_BITS: Final = 33


class Movements(NamedTuple):
    """What records do to day totals, as columns in record order."""

    keys: Integers
    records: Integers
    """Position of the record within the batch."""
    days: Integers
    sums: Integers
    counts: Integers


class Published(NamedTuple):
    """Publications as columns of equal length."""

    slices: Integers
    keys: Integers
    types: Integers
    days: Integers
    versions: Integers
    closes: Integers
    causes: Integers
    """Position of the causing record within the batch."""

    @staticmethod
    def joined(parts: Iterable[Published]) -> Published:
        """The publications of all parts, one behind the other."""
        nothing = [np.zeros(0, dtype=np.int64)] * len(Published._fields)
        return Published(*map(np.concatenate, zip(nothing, *parts, strict=True)))


def _running(values: Integers, starts: Flags) -> Integers:
    """Running sums that begin anew at each start. The first member is a start."""
    sums = np.cumsum(values)
    at = np.flatnonzero(starts)
    return sums - np.repeat(sums[at] - values[at], np.diff(at, append=len(values)))


def _changes(*columns: Integers) -> Flags:
    """Where a member of any column differs from the one before it; true for the first."""
    flags = np.zeros(len(columns[0]), dtype=np.bool_)
    flags[:1] = True
    for column in columns:
        flags[1:] |= column[1:] != column[:-1]
    return flags


class Frame:
    """The rows that moves can reach: per key, its days from about the first moved one on.

    Days that the moves bring in stand among them from the beginning, without movement.
    """

    def __init__(self, known: KnownKeys, moves: Movements) -> None:
        self.keys = np.unique(moves.keys)
        key_index = np.searchsorted(self.keys, moves.keys)
        codes = (key_index << _DAY_BITS) + (moves.days - EVERY_DAY)
        moved = np.unique(codes)
        firsts = moved[np.searchsorted(moved >> _DAY_BITS, np.arange(len(self.keys)))]
        first_days = (firsts & ((1 << _DAY_BITS) - 1)) + EVERY_DAY
        for key in known.lacking(self.keys, first_days):
            raise NeedsWholeKey(key)
        self.before, self.has_earlier = known.take(self.keys, first_days)
        self._take_in(moved)
        self.row_of_move = np.searchsorted(self.codes, codes)
        self.key_index_of_move = key_index

    def _take_in(self, moved: Integers) -> None:
        heads, bounds, rows = self.before.heads, self.before.bounds, self.before.rows
        of_key = np.repeat(np.arange(len(self.keys)) << _DAY_BITS, np.diff(bounds))
        codes = of_key + (rows.days - EVERY_DAY)
        places = np.searchsorted(codes, moved)
        new = np.ones(len(moved), dtype=np.bool_)
        inside = places < len(codes)
        new[inside] = codes[places[inside]] != moved[inside]
        places = places[new]
        self.codes = np.insert(codes, places, moved[new])
        self.sums = np.insert(rows.sums, places, 0)
        self.counts = np.insert(rows.counts, places, 0)
        self.balance_versions = np.insert(rows.balance_versions, places, 0)
        self.alert_versions = np.insert(rows.alert_versions, places, 0)
        self.stored = np.insert(np.ones(len(codes), dtype=np.bool_), places, values=False)
        self.days = (self.codes & ((1 << _DAY_BITS) - 1)) + EVERY_DAY
        self.key_index = self.codes >> _DAY_BITS
        self.starts = np.searchsorted(self.key_index, np.arange(len(self.keys)))
        self.ends = np.append(self.starts[1:], len(self.codes))
        self.entering = heads.before
        self.thresholds = heads.thresholds
        self.affected = np.zeros(len(self.codes), dtype=np.bool_)
        self.peaks = np.zeros(len(self.codes), dtype=np.int64)
        self._fold()

    def _fold(self) -> None:
        first = np.zeros(len(self.codes), dtype=np.bool_)
        first[self.starts] = True
        self.closes = _running(self.sums, first) + self.entering[self.key_index]

    def advance(self, pairs: _Pairs, balances: Flags, alerts: Flags) -> None:
        """Move on to the state after the groups of `pairs`."""
        size = len(self.codes)
        np.add.at(self.sums, pairs.moves.rows, pairs.moves.sums)
        np.add.at(self.counts, pairs.moves.rows, pairs.moves.counts)
        self.balance_versions += np.bincount(pairs.rows[balances], minlength=size)
        self.alert_versions += np.bincount(pairs.rows[alerts], minlength=size)
        self.affected[pairs.rows] = True
        np.maximum.at(self.peaks, pairs.rows, np.abs(pairs.closes))
        self._fold()

    def changes(self) -> KeyChanges:
        """The new state of every key, all of them READY."""
        keep = self.stored | (self.counts > 0)
        keep |= (self.balance_versions > 0) | (self.alert_versions > 0)
        before = self.before.heads
        peaks = np.maximum(before.peaks, np.maximum.reduceat(self.peaks, self.starts))
        touched = before.statuses != int(Status.READY)
        kept = np.append(0, np.cumsum(keep))
        bounds = kept[np.append(self.starts, len(self.codes))]
        affected = np.flatnonzero(keep & self.affected)
        edges = np.searchsorted(affected, np.append(self.starts, len(self.codes)))
        some = edges[:-1] < edges[1:]
        firsts, lasts = bounds[:-1].copy(), bounds[:-1].copy()
        firsts[some] = kept[affected[edges[:-1][some]]]
        lasts[some] = kept[affected[edges[1:][some] - 1]] + 1
        heads = before._replace(
            statuses=np.full(len(self.keys), int(Status.READY)),
            status_versions=before.status_versions + touched,
            peaks=peaks,
        )
        first_day_is_new = ~self.stored[self.starts] & ~self.has_earlier
        return KeyChanges(
            KeyColumns(heads, bounds, self._columns(keep)),
            firsts,
            lasts,
            touched | (peaks != before.peaks) | first_day_is_new,
            {},
        )

    def _columns(self, keep: Flags) -> RowColumns:
        previous = np.append(0, self.closes[:-1])
        previous[self.starts] = self.entering
        thresholds = self.thresholds[self.key_index]
        alerting = (previous >= thresholds) & (thresholds > self.closes)
        columns = RowColumns(
            self.days,
            self.sums,
            self.counts,
            self.closes,
            self.counts > 0,
            alerting,
            self.balance_versions,
            self.alert_versions,
        )
        return columns if keep.all() else columns.take(keep)


class _Merged(NamedTuple):
    """Movements by group and row, each once, in that order."""

    groups: Integers
    """Number of the group, from 0."""
    slices: Integers
    rows: Integers
    sums: Integers
    counts: Integers
    causes: Integers
    """The last record up to this row that changed something, within the group."""
    shifts: Integers
    """What the closes from this row on have moved by, within the group."""
    lengths: Integers
    """How many rows that holds for."""

    def part(self, start: int, stop: int) -> _Merged:
        return _Merged(*(column[start:stop] for column in self))


def _merged(frame: Frame, moves: Movements, slices: Integers) -> _Merged:
    rows = frame.row_of_move
    sums, counts, records = moves.sums, moves.counts, moves.records
    causes = np.where(_changed(frame, rows, sums, counts), records, -1)
    groups = slices * len(frame.keys) + frame.key_index_of_move
    order = np.lexsort((rows, groups))
    rows, groups = rows[order], groups[order]
    at = np.flatnonzero(_changes(groups, rows))
    sums = np.add.reduceat(sums[order], at)
    causes = np.maximum.reduceat(causes[order], at)
    counts = np.add.reduceat(counts[order], at)
    rows, groups = rows[at], groups[at]
    starts = _changes(groups)
    numbers = np.cumsum(starts) - 1
    shifts = _running(sums, starts)
    reach = int(records.max()) + 2
    causes = np.maximum.accumulate(causes + numbers * reach) - numbers * reach
    key_ends = frame.ends[frame.key_index[rows]]
    ends = np.where(np.append(starts[1:], True), key_ends, np.append(rows[1:], 0))
    return _Merged(
        numbers,
        groups // len(frame.keys),
        rows,
        sums,
        counts,
        causes,
        shifts,
        np.where(shifts == 0, 1, ends - rows),
    )


def _changed(frame: Frame, rows: Integers, sums: Integers, counts: Integers) -> Flags:
    """Which movements changed the total or the activity of their day, in record order."""
    order = np.argsort(rows, kind="stable")
    ordered, steps = rows[order], counts[order]
    now = _running(steps, _changes(ordered)) + frame.counts[ordered]
    flips = np.empty(len(rows), dtype=np.bool_)
    flips[order] = (now - steps > 0) != (now > 0)
    flips |= sums != 0
    return flips


class _Pairs:
    """The pairs of some groups, in the order of groups, then rows; with closes before and after."""

    def __init__(self, frame: Frame, moves: _Merged) -> None:
        self.moves = moves
        ends = np.cumsum(moves.lengths)
        starts = ends - moves.lengths
        size = int(ends[-1])
        self.of_move = np.repeat(np.arange(len(starts)), moves.lengths)
        self.rows = moves.rows[self.of_move] + (np.arange(size) - starts[self.of_move])
        # Unique, so that the quicker, unstable sort will do.
        self.order = np.argsort(self.rows * size + np.arange(size))
        rows = self.rows[self.order]
        self.first_of_row = _changes(rows)
        steps = np.zeros(size, dtype=np.int64)
        steps[starts] = moves.counts
        steps = steps[self.order]
        counts = _running(steps, self.first_of_row) + frame.counts[rows]
        shifts = moves.shifts[self.of_move][self.order]
        closes = _running(shifts, self.first_of_row) + frame.closes[rows]
        self.closes, self.closes_before = self._back(closes), self._back(closes - shifts)
        self.present, self.present_before = self._back(counts > 0), self._back(counts > steps)
        self._enter(frame, starts, rows, closes)

    def _back(self, values: NDArray[Any]) -> NDArray[Any]:
        """From the order of rows to the order of pairs."""
        back = np.empty_like(values)
        back[self.order] = values
        return back

    def _enter(self, frame: Frame, starts: Integers, rows: Integers, closes: Integers) -> None:
        """Set the closes of the rows before each pair's, before and after its group."""
        self.previous = np.append(0, self.closes[:-1])
        self.previous_before = np.append(0, self.closes_before[:-1])
        groups = self.moves.groups[self.of_move]
        # Behind the row of another group, or behind rows that the own group leaves alone.
        linked = np.zeros(len(self.rows), dtype=np.bool_)
        linked[1:] = (groups[1:] == groups[:-1]) & (self.rows[1:] == self.rows[:-1] + 1)
        alone = starts[~linked[starts]]
        row, group = self.rows[alone], groups[alone]
        many = int(groups[-1]) + 1
        at = np.searchsorted(rows * many + groups[self.order], (row - 1) * many + group) - 1
        value = np.where((at >= 0) & (rows[at] == row - 1), closes[at], frame.closes[row - 1])
        key = frame.key_index[row]
        value = np.where(row == frame.starts[key], frame.entering[key], value)
        self.previous[alone] = self.previous_before[alone] = value

    def versions(self, published: Flags, stored: Integers) -> Integers:
        """The version of each published pair, given what stands in the rows."""
        steps = published[self.order].astype(np.int64)
        return self._back(_running(steps, self.first_of_row) + stored[self.rows[self.order]])


def _publish(frame: Frame, moves: _Merged) -> Published:
    """What consecutive groups publish; the frame moves on behind them."""
    pairs = _Pairs(frame, moves)
    key_index = frame.key_index[pairs.rows]
    thresholds = frame.thresholds[key_index]
    same = pairs.closes == pairs.closes_before
    alerting = (pairs.previous >= thresholds) & (thresholds > pairs.closes)
    alerted = (pairs.previous_before >= thresholds) & (thresholds > pairs.closes_before)
    alerts = (alerting & ~(alerted & same)) | (alerted & ~alerting)
    present, presented = pairs.present, pairs.present_before
    balances = (present & ~(presented & same)) | (presented & ~present)
    alert_versions = pairs.versions(alerts, frame.alert_versions)
    balance_versions = pairs.versions(balances, frame.balance_versions)
    alert_at, balance_at = np.flatnonzero(alerts), np.flatnonzero(balances)
    at = np.concatenate((alert_at, balance_at))
    alert_count = len(alert_at)
    of_move = pairs.of_move[at]
    # By group, alerts before balances; both are in the order of days already.
    order_code = moves.groups[of_move] * 2
    order_code[alert_count:] += 1
    order = np.argsort(order_code, kind="stable")
    stated = np.concatenate((alerting[alert_at], present[balance_at]))
    types = np.where(stated, int(Type.ALERT_RAISED), int(Type.ALERT_RETRACTED))
    types[alert_count:] += int(Type.BALANCE_STATED) - int(Type.ALERT_RAISED)
    versions = np.concatenate((alert_versions[alert_at], balance_versions[balance_at]))
    frame.advance(pairs, balances, alerts)
    columns = (
        moves.slices[of_move],
        frame.keys[key_index[at]],
        types,
        frame.days[pairs.rows[at]],
        versions,
        np.where(stated, pairs.closes[at], 0),
        moves.causes[of_move],
    )
    return Published(*(column[order] for column in columns))


def fold_together(
    known: KnownKeys, moves: Movements, slices: Integers
) -> tuple[list[Published], KeyChanges]:
    """Fold READY keys over all slices: what is published, in order, and the states after it.

    `slices` tells the slice of each move. Raises NeedsWholeKey when a loader left out a day that is
    moved, OverflowError when a number does not fit 64 bits.
    """
    if not len(moves.keys):
        return [], KeyChanges.none()
    frame = Frame(known, moves)
    merged = _merged(frame, moves, slices)
    published = [_publish(frame, merged.part(start, stop)) for start, stop in _parts(merged)]
    return published, frame.changes()


def _parts(merged: _Merged) -> Iterator[tuple[int, int]]:
    """Runs of whole groups that have about `PAIRS_AT_ONCE` pairs."""
    total = np.cumsum(merged.lengths)
    group_ends = np.append(np.flatnonzero(_changes(merged.groups))[1:], len(total))
    start = 0
    while start < len(total):
        done = int(total[start - 1]) if start else 0
        limit = np.searchsorted(total, done + PAIRS_AT_ONCE, side="right")
        at = int(np.searchsorted(group_ends, limit, side="right"))
        stop = int(group_ends[max(at - 1, 0)])
        if stop <= start:
            stop = int(group_ends[np.searchsorted(group_ends, start, side="right")])
        yield start, stop
        start = stop
