"""Many slices decided together: one Decision that says what theirs, joined, would say.

`decision.decide` is the meaning, one slice at a time. Here authority moves record by record just
the same, and days are folded for all slices and READY keys at once (`frame.py`). Keys that block,
unblock or stand in conflict are few: each goes its way slice by slice, as `keyfold.py` says.

Whatever is not plainly within reach is left to `decide`: closes and versions that come near 64
bits, whose exact stopping record must be found.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

import numpy as np

from amends_pipeline.inventory.authority import CANCEL, Accepted, Authority, Observation, rule
from amends_pipeline.inventory.decision import Decision, Identity, KeyChange, Known
from amends_pipeline.inventory.envelope import STATUS_DAY, Cause, EnvelopeBatch, Reasons, Type
from amends_pipeline.inventory.frame import Integers, Moves, Published, fold_together
from amends_pipeline.inventory.keyfold import Folded, KeyFold
from amends_pipeline.inventory.refold import KeyState, Span, Status
from amends_pipeline.inventory.slice import Slice

WITHIN_REACH: Final = 2**61
"""Closes that stay below it need no exact look; sums and shifts of them fit 64 bits."""
BATCH_RECORDS: Final = 48
"""From about that many records on, deciding together is quicker."""
_COUNTER_LIMIT: Final = 2**62


def decide_batch(
    known: Known, whole: Slice, ends: Sequence[int], base_sequence: int
) -> Decision | None:
    """Decide the slices of `whole` that end at the offsets `ends`, the last of them at its end.

    Returns None when slices must be decided one by one. Raises NeedsWholeKey as `decide` does,
    before anything is decided.
    """
    taken = _Taken(known, whole.accepted)
    if not taken.within_reach() or base_sequence > _COUNTER_LIMIT:
        return None
    slices = np.searchsorted(ends, [record.offset for record in whole.accepted], side="right")
    moves = taken.moves
    published, changes = fold_together(known.keys, moves, slices[moves.records])
    counters = [part.versions.max(initial=0) for part in published]
    if max(counters, default=0) > _COUNTER_LIMIT:
        return None
    states = {change.state.key: change for change in changes}
    slow = _Slow(known.keys, taken.odd, slices.tolist())
    if slow.reach > WITHIN_REACH:
        return None
    states |= slow.changes | taken.first_seen(known.keys, states)
    parts = [*published, slow.published(), taken.first_stated(known.keys, slices)]
    return Decision(
        whole.start,
        whole.until,
        base_sequence,
        dict(sorted(states.items())),
        taken.authorities,
        taken.observations,
        whole.rejections,
        _joined(parts, slow.reasons, whole.accepted),
        len(whole.accepted),
        slices=len(ends),
    )


class _Weighed(NamedTuple):
    """A record of an odd key by its position, and the authority that gave way to another."""

    at: int
    record: Accepted
    old: Authority | None
    new: Authority


class _Taken:
    """Records taken in for trust: who is in force, which days move, and which keys are odd."""

    def __init__(self, known: Known, accepted: Sequence[Accepted]) -> None:
        self.authorities: dict[Identity, Authority] = {}
        self.observations: list[Observation] = []
        self.moves = Moves.none()
        self.odd: dict[int, list[_Weighed]] = {}
        """Records of each key that goes its way slice by slice."""
        self.first: dict[int, int] = {}
        """The first record of each key that no accepted record had named before."""
        self._keys = known.keys
        self._take_in(known, accepted)

    def _take_in(self, known: Known, accepted: Sequence[Accepted]) -> None:
        seen, authorities = known.authorities, self.authorities
        rulings: list[tuple[Authority | None, Authority]] = []
        touched = {record.key for record in accepted}
        statuses = {key: known.keys[key].status for key in touched}
        fresh = {key for key, status in statuses.items() if status is Status.UNTOUCHED}
        odd = {key for key, status in statuses.items() if status is Status.BLOCKED}
        keys, records, days, sums, counts = self.moves
        seen_again = self.observations.append
        for at, record in enumerate(accepted):
            key, candidate = record.key, record.candidate
            identity = (key, record.txn_id)
            old = authorities.get(identity) or seen.get(identity)
            if old is None:
                new = authorities[identity] = Authority(candidate, record.offset, conflicted=False)
                if candidate.kind != CANCEL:
                    keys.append(key)
                    records.append(at)
                    days.append(candidate.day)
                    sums.append(candidate.qty)
                    counts.append(1)
            elif candidate == old.candidate:
                # A duplicate, the commonest case by far where a source delivers again.
                new = old
                seen_again(Observation(key, record.txn_id, record.offset, candidate))
            else:
                new, observed = rule(old, record)
                seen_again(observed)
                if new is not old:
                    authorities[identity] = new
                    if new.conflicted or old.conflicted:
                        odd.add(key)
                    self._move(key, at, old, new)
            rulings.append((old, new))
            if key in fresh:
                fresh.discard(key)
                self.first[key] = at
        if odd:
            self._leave(odd, accepted, rulings)

    def _move(self, key: int, at: int, old: Authority, new: Authority) -> None:
        was, now = old.candidate, new.candidate
        if old.contributes and new.contributes and was.day == now.day:
            self.moves.add(key, at, now.day, (now.qty - was.qty, 0))
            return
        if old.contributes:
            self.moves.add(key, at, was.day, (-was.qty, -1))
        if new.contributes:
            self.moves.add(key, at, now.day, (now.qty, 1))

    def _leave(
        self,
        odd: set[int],
        accepted: Sequence[Accepted],
        rulings: Sequence[tuple[Authority | None, Authority]],
    ) -> None:
        """Leave the days of odd keys to their own way."""
        self.odd = {key: [] for key in sorted(odd)}
        for at, record in enumerate(accepted):
            if record.key in odd:
                self.odd[record.key].append(_Weighed(at, record, *rulings[at]))
        kept = [i for i, key in enumerate(self.moves.keys) if key not in odd]
        self.moves = Moves(*([column[i] for i in kept] for column in self.moves))
        for key in odd:
            self.first.pop(key, None)

    def within_reach(self) -> bool:
        """Whether no close and no counter of a touched key can come near 64 bits."""
        states = [self._keys[key] for key in {*self.moves.keys, *self.odd, *self.first}]
        peak = max((state.peak for state in states), default=0)
        swing = sum(map(abs, self.moves.sums))
        for records in self.odd.values():
            for _, _, old, new in records:
                swing += abs(new.candidate.qty) + (abs(old.candidate.qty) if old else 0)
        counter = max((state.status_version for state in states), default=0)
        return peak + swing < WITHIN_REACH and counter < _COUNTER_LIMIT

    def first_seen(
        self, states: Mapping[int, KeyState], changed: Mapping[int, KeyChange]
    ) -> dict[int, KeyChange]:
        """Keys that were named for the first time, by records that move no day."""
        return {
            key: KeyChange(states[key]._replace(status=Status.READY, status_version=1), Span(0, 0))
            for key in self.first
            if key not in changed
        }

    def first_stated(self, states: Mapping[int, KeyState], slices: Integers) -> Published:
        """READY of every key that was named for the first time."""
        keys = sorted(self.first)
        at = np.array([self.first[key] for key in keys], dtype=np.int64)
        versions = [states[key].status_version + 1 for key in keys]
        same = np.ones(len(keys), dtype=np.int64)
        return Published(
            slices[at],
            np.array(keys, dtype=np.int64),
            same * int(Type.READY_STATED),
            same * STATUS_DAY,
            np.array(versions, dtype=np.int64),
            same * 0,
            at,
        )


class _Line(NamedTuple):
    slice: int
    key: int
    type: int
    day: int
    version: int
    close: int
    cause: int


class _Slow:
    """Odd keys, each on its way slice by slice."""

    def __init__(
        self,
        states: Mapping[int, KeyState],
        odd: Mapping[int, Sequence[_Weighed]],
        slices: Sequence[int],
    ) -> None:
        self.changes: dict[int, KeyChange] = {}
        self.reasons: dict[tuple[int, int], Reasons] = {}
        """Reasons of BLOCKED by (slice, key)."""
        self.reach = 0
        """No close of these keys was further from 0: sums that moved behind a conflict count."""
        self._lines: list[_Line] = []
        for key, records in odd.items():
            state, changed_days = states[key], set[int]()
            for number, group in groupby(records, key=lambda each: slices[each.at]):
                fold = KeyFold(state)
                for at, record, old, new in group:
                    fold.observe(at, record, old, new)
                self.reach = max(self.reach, fold.reach)
                folded = fold.finish()
                state = folded.state
                changed_days.update(state.rows.days[slice(*folded.changed)])
                self._publish(number, folded)
            self.changes[key] = KeyChange(state, _span(state, changed_days))

    def _publish(self, number: int, folded: Folded) -> None:
        state = folded.state
        self._lines += [
            _Line(number, state.key, *publication, folded.causes.of(publication.day))
            for publication in folded.published
        ]
        if folded.status_cause is not None:
            blocked = state.status is Status.BLOCKED
            if blocked:
                self.reasons[number, state.key] = state.reasons
            said = Type.BLOCKED_STATED if blocked else Type.READY_STATED
            version, cause = state.status_version, folded.status_cause
            self._lines.append(_Line(number, state.key, said, STATUS_DAY, version, 0, cause))

    def published(self) -> Published:
        """What the slices publish of these keys, by key, then slice."""
        lines = np.array(self._lines, dtype=np.int64).reshape(-1, len(_Line._fields))
        return Published(*lines.T)


def _span(state: KeyState, changed_days: set[int]) -> Span:
    """Positions of the days that may have changed; some of them may have been left out again."""
    if not changed_days:
        return Span(0, 0)
    days = state.rows.days
    return Span(bisect_left(days, min(changed_days)), bisect_right(days, max(changed_days)))


def _joined(
    parts: Sequence[Published],
    reasons: Mapping[tuple[int, int], Reasons],
    accepted: Sequence[Accepted],
) -> EnvelopeBatch:
    """All publications in the order of slices, then keys, as `decide` publishes them."""
    together = [np.concatenate(columns) for columns in zip(*parts, strict=True)]
    slices, keys, types, *_ = together
    # Within a key each part is in order already, and its status comes last.
    last = types >= int(Type.READY_STATED)
    order = np.lexsort((last, keys, slices))
    slices, keys, types, days, versions, closes, causes = (column[order] for column in together)
    records, cause_index = np.unique(causes, return_inverse=True)
    batch = EnvelopeBatch(
        keys.tolist(),
        types.tolist(),
        days.tolist(),
        versions.tolist(),
        closes.tolist(),
        cause_index.tolist(),
        [_cause(accepted[at]) for at in records.tolist()],
    )
    for at in np.flatnonzero(types == int(Type.BLOCKED_STATED)).tolist():
        batch.reasons[at] = reasons[int(slices[at]), batch.keys[at]]
    return batch


def _cause(record: Accepted) -> Cause:
    return Cause(record.offset, record.txn_id, record.candidate.revision)
