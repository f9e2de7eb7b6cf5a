"""The days that a change touches, and their new closes and crossings.

A key's days are parallel columns, sorted by day. A day whose transactions were all withdrawn keeps
its row, because its output versions must survive: its count and sum are 0 and its close is the
balance carried over it. A row is visible (`present`) when it was published as an activity day, and
`alerting` when its published close crossed the threshold downward.

For a READY key the published columns follow from the sums; for a BLOCKED key they stand frozen at
the moment before it blocked, while sums and counts go on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from enum import IntEnum
from itertools import accumulate, compress, pairwise
from typing import NamedTuple

from amends_pipeline.kernel.instants import MIN_DAY
from amends_pipeline.kernel.integers import MAX_INT64, MIN_INT64

EVERY_DAY = MIN_DAY - 1
"""A day before all days: a change dated so changes every day of a key."""


class Status(IntEnum):
    """Trust in a key's rows. UNTOUCHED is logically READY and publishes nothing yet."""

    UNTOUCHED = 0
    READY = 1
    BLOCKED = 2


class Total(NamedTuple):
    """The authoritative movement of one day: sum of active quantities, and how many are active."""

    sum: int
    active: int


NOTHING = Total(0, 0)


class Rows(NamedTuple):
    """Columns of a key's days, of equal length, sorted by day. Treated as immutable."""

    days: list[int]
    sums: list[int]
    counts: list[int]
    closes: list[int]
    present: list[bool]
    alerting: list[bool]
    balance_versions: list[int]
    alert_versions: list[int]

    @staticmethod
    def none() -> Rows:
        """No days at all."""
        return Rows([], [], [], [], [], [], [], [])

    def copied(self) -> Rows:
        """The same rows in lists of their own."""
        return Rows(
            self.days.copy(),
            self.sums.copy(),
            self.counts.copy(),
            self.closes.copy(),
            self.present.copy(),
            self.alerting.copy(),
            self.balance_versions.copy(),
            self.alert_versions.copy(),
        )

    def between(self, start: int, stop: int) -> Rows:
        """The rows from position `start` up to `stop`, in lists of their own."""
        return Rows(
            self.days[start:stop],
            self.sums[start:stop],
            self.counts[start:stop],
            self.closes[start:stop],
            self.present[start:stop],
            self.alerting[start:stop],
            self.balance_versions[start:stop],
            self.alert_versions[start:stop],
        )

    def insert(self, at: int, day: int, close: int) -> None:
        """Put in a day without movement, unpublished; for rows that are not shared yet."""
        self.days.insert(at, day)
        self.sums.insert(at, 0)
        self.counts.insert(at, 0)
        self.closes.insert(at, close)
        self.present.insert(at, False)
        self.alerting.insert(at, False)
        self.balance_versions.insert(at, 0)
        self.alert_versions.insert(at, 0)

    def total(self, day: int) -> Total:
        """The authoritative movement of `day`; nothing when the day has no row."""
        at = bisect_left(self.days, day)
        if at < len(self.days) and self.days[at] == day:
            return Total(self.sums[at], self.counts[at])
        return NOTHING


class KeyState(NamedTuple):
    """Everything that later decisions need to know of one stock key.

    `rows` may hold a suffix only: the days from `loaded_from` on, entered with the published
    balance `before`. A whole key has `loaded_from` = EVERY_DAY and `before` = `opening`.
    """

    key: int
    opening: int
    threshold: int
    status: Status
    status_version: int
    reasons: tuple[tuple[str, int], ...]
    """(txn_id, revision) of each conflict at a highest revision, by txn_id bytes, then revision."""
    peak: int
    """No close of the key was ever further from 0 than this: a bound, not a value."""
    before: int
    loaded_from: int
    rows: Rows

    @property
    def whole(self) -> bool:
        """Whether no earlier day was left in the store."""
        return self.loaded_from == EVERY_DAY


def untouched(key: int, opening: int, threshold: int) -> KeyState:
    """The state of a configured key that no accepted record has named yet."""
    return KeyState(
        key,
        opening,
        threshold,
        Status.UNTOUCHED,
        0,
        (),
        abs(opening),
        opening,
        EVERY_DAY,
        Rows.none(),
    )


class Span(NamedTuple):
    """Half-open range of row positions."""

    start: int
    stop: int


class KeyChange(NamedTuple):
    """A key's new state and the rows of it that differ from what was stored."""

    state: KeyState
    changed: Span
    headed: bool = True
    """Whether it may differ in more than its rows, or have a first day that it had not."""


def merge(before: int, rows: Rows, totals: Mapping[int, Total]) -> tuple[Rows, Span]:
    """Put changed day totals into the columns; published columns stay as they were.

    A new day enters unpublished (not present, versions 0) at the balance carried over it. Returns
    the new columns and the span from the first to just past the last changed row.
    """
    # Columns that stay as they were are shared with `rows`.
    merged = rows._replace(sums=rows.sums.copy(), counts=rows.counts.copy())
    first = last = None
    for day in sorted(totals):
        at = bisect_left(merged.days, day)
        if at == len(merged.days) or merged.days[at] != day:
            if merged.days is rows.days:
                merged = merged.copied()
            merged.insert(at, day, merged.closes[at - 1] if at else before)
        merged.sums[at], merged.counts[at] = totals[day]
        first = at if first is None else first
        last = at
    if first is None or last is None:
        return merged, Span(0, 0)
    return merged, Span(first, last + 1)


def refold(before: int, threshold: int, rows: Rows, changed: Span) -> tuple[Rows, Span]:
    """Recompute closes, presence and crossings of a READY key from its sums.

    `changed` spans the rows whose sums may differ from what the published columns say. Past it
    presence is right, and closes are right up to one constant shift, so the work ends at
    `changed.stop` when the shift is 0. Returns the columns and the span of rows that were
    recomputed; it covers `changed`.

    Closes are exact integers and may lie outside 64 bits; the caller judges that.
    """
    start, stop = changed
    if start == stop:
        return rows, changed
    entering = rows.closes[start - 1] if start else before
    closes = list(accumulate(rows.sums[start:stop], initial=entering))
    present = [count > 0 for count in rows.counts[start:stop]]
    shift = closes[-1] - rows.closes[stop - 1]
    if shift:
        closes += [close + shift for close in rows.closes[stop:]]
        stop = len(rows.days)
    alerting = [previous >= threshold > close for previous, close in pairwise(closes)]
    folded = rows._replace(
        closes=rows.closes[:start] + closes[1:] + rows.closes[stop:],
        present=rows.present[:start] + present + rows.present[changed.stop :],
        alerting=rows.alerting[:start] + alerting + rows.alerting[stop:],
    )
    return folded, Span(start, stop)


def refold_whole(before: int, threshold: int, rows: Rows) -> tuple[Rows, Span]:
    """Recompute every day from the sums alone; what a key needs when it unblocks.

    The published closes of a key that was blocked say nothing about its sums, so no part may be
    taken over from them.
    """
    return refold(before, threshold, rows, Span(0, len(rows.days)))


def prune(rows: Rows, span: Span, stored: list[int]) -> tuple[Rows, Span]:
    """Leave out days of `span` that entered since `stored` and came to nothing.

    A stored day stays, even without movement and unpublished: rows that a store holds may change,
    but none disappears without its notice. Returns the rows and what `span` has become.
    """
    if 0 not in rows.counts[slice(*span)]:
        return rows, span
    idle = [
        i
        for i in range(*span)
        if not (rows.counts[i] or rows.balance_versions[i] or rows.alert_versions[i])
    ]
    if idle:
        held = set(stored)
        idle = [i for i in idle if rows.days[i] not in held]
    if not idle:
        return rows, span
    keep = [True] * len(rows.days)
    for i in idle:
        keep[i] = False
    left = Rows(
        list(compress(rows.days, keep)),
        list(compress(rows.sums, keep)),
        list(compress(rows.counts, keep)),
        list(compress(rows.closes, keep)),
        list(compress(rows.present, keep)),
        list(compress(rows.alerting, keep)),
        list(compress(rows.balance_versions, keep)),
        list(compress(rows.alert_versions, keep)),
    )
    return left, Span(span.start, span.stop - len(idle))


def out_of_range(closes: list[int]) -> int | None:
    """Position of the first close that does not fit a signed 64-bit integer, or None."""
    if not closes or (max(closes) <= MAX_INT64 and min(closes) >= MIN_INT64):
        return None
    return next(i for i, close in enumerate(closes) if not MIN_INT64 <= close <= MAX_INT64)
