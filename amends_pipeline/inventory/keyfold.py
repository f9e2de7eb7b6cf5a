"""One stock key on its way through a slice: record by record for trust, at the end for its days.

Authority and day totals move with every record, in constant time. Days are folded when the slice
ends, and once more at each record that blocks the key, because a blocked key keeps the rows of the
moment before, wherever the log is cut.
"""

from __future__ import annotations

from typing import NamedTuple

from amends_pipeline.inventory.authority import Accepted, Authority
from amends_pipeline.inventory.diff import Causes, Change, Publications, reconcile
from amends_pipeline.inventory.refold import (
    EVERY_DAY,
    KeyState,
    Rows,
    Span,
    Status,
    Total,
    merge,
    prune,
    refold,
    refold_whole,
)


class NeedsWholeKey(Exception):  # noqa: N818 - a request to the loader, not an error
    """Days of the key are needed that were left in the store, so load all of them.

    It unblocks, and must be folded from the opening balance; or a loader left out too much.
    """

    def __init__(self, key: int) -> None:
        super().__init__(f"key number {key}")
        self.key = key


class Folded(NamedTuple):
    """What a slice made of one key."""

    state: KeyState
    changed: Span
    """Rows of `state` that differ from what was stored."""
    published: Publications
    causes: Causes
    status_cause: int | None
    """Position of the record that last changed the status; None when it is as committed."""
    headed: bool
    """Whether `state` differs in more than its rows, or has a first day that it had not."""


class KeyFold:
    """The moving state of one key. `state` is where the slice found it."""

    def __init__(self, state: KeyState) -> None:
        self.state = state
        self.status = state.status
        self.reasons = set(state.reasons)
        self._peak = state.peak
        self._swing = 0
        self._unblocked = False
        self._totals: dict[int, Total] = {}
        self._frozen: Rows | None = None
        self._changes: list[Change] = []
        self._status_cause: int | None = None

    @property
    def reach(self) -> int:
        """A cheap bound: no close was further from 0 at any moment since the slice began.

        The largest absolute close that was looked at, plus the sum of absolute changes.
        """
        return self._peak + self._swing

    def observe(self, at: int, record: Accepted, old: Authority | None, new: Authority) -> set[int]:
        """Take one record in: `old` authority of its identity gives way to `new`.

        Returns the days whose total or activity it changed; EVERY_DAY among them when it unblocked
        the key.
        """
        if self.status is Status.UNTOUCHED:
            self.status, self._status_cause = Status.READY, at
        if new is old:
            return set()
        was_conflicted = old is not None and old.conflicted
        if new.conflicted and not was_conflicted:
            self._block(at, (record.txn_id, new.candidate.revision))
        changed = self._move(old, new)
        if old is not None and was_conflicted and not new.conflicted:
            self._resolve(at, (record.txn_id, old.candidate.revision))
            if self.status is Status.READY:
                return changed | {EVERY_DAY}
        if self.status is Status.READY:
            self._changes.extend(Change(day, at) for day in changed)
        return changed

    def _block(self, at: int, reason: tuple[str, int]) -> None:
        if self.status is Status.READY:
            self._frozen = self._folded()[1]
            self.status = Status.BLOCKED
        self.reasons.add(reason)
        self._status_cause = at

    def _resolve(self, at: int, reason: tuple[str, int]) -> None:
        self.reasons.discard(reason)
        self._status_cause = at
        if self.reasons:
            return
        if not self.state.whole:
            raise NeedsWholeKey(self.state.key)
        self.status, self._unblocked, self._frozen = Status.READY, True, None
        self._changes = [Change(EVERY_DAY, at)]
        # What moved while the key was blocked was never bounded.
        self._peak = max(self._peak, *map(abs, self.closes()[1]), 0)

    def _move(self, old: Authority | None, new: Authority) -> set[int]:
        deltas: dict[int, Total] = {}
        if old is not None and old.contributes:
            deltas[old.candidate.day] = Total(-old.candidate.qty, -1)
        if new.contributes:
            has = deltas.get(new.candidate.day, Total(0, 0))
            deltas[new.candidate.day] = Total(has.sum + new.candidate.qty, has.active + 1)
        changed = set()
        for day, delta in deltas.items():
            if day < self.state.loaded_from:
                raise NeedsWholeKey(self.state.key)
            was = self._totals.get(day) or self.state.rows.total(day)
            now = Total(was.sum + delta.sum, was.active + delta.active)
            self._totals[day] = now
            self._swing += abs(delta.sum)
            if delta.sum or (was.active > 0) != (now.active > 0):
                changed.add(day)
        return changed

    def _folded(self) -> tuple[Rows, Rows, Span]:
        """Old columns with the new totals, the same refolded, and the span that may differ."""
        state = self.state
        old, changed = merge(state.before, state.rows, self._totals)
        if self._unblocked:
            new, _ = refold_whole(state.before, state.threshold, old)
            return old, new, Span(0, len(old.days))
        new, span = refold(state.before, state.threshold, old, changed)
        return old, new, span

    def closes(self) -> tuple[list[int], list[int]]:
        """Days and closes as they are now, record by record; only meaningful while READY."""
        rows = self._folded()[1]
        return rows.days, rows.closes

    def finish(self) -> Folded:
        """The key at the end of the slice, compared with what was committed."""
        state = self.state
        if self.status is Status.BLOCKED:
            old, span = merge(state.before, state.rows, self._totals)
            new = old
            if self._frozen is not None:
                new, _ = merge(state.before, self._frozen, self._totals)
                span = Span(0, len(new.days))
        else:
            old, new, span = self._folded()
        rows, published = reconcile(old, new, span)
        # Code points sort as their UTF-8 bytes do.
        reasons = tuple(sorted(self.reasons))
        restated = (self.status, reasons) != (state.status, state.reasons)
        rows, span = prune(rows, span, state.rows.days)
        folded = state._replace(
            status=self.status,
            status_version=state.status_version + restated,
            reasons=reasons,
            peak=max(state.peak, *map(abs, rows.closes[slice(*span)]), 0),
            rows=rows,
        )
        status_cause = self._status_cause if restated else None
        headed = restated or folded.peak != state.peak or rows.days[:1] != state.rows.days[:1]
        return Folded(folded, span, published, Causes(self._changes), status_cause, headed)
