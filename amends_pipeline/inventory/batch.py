"""Many slices decided together: one Decision that says what theirs, joined, would say.

`decision.decide` is the meaning, one slice at a time. Here assertions are weighed side by side
(`weighing.py`), and days are folded for all slices and READY keys at once (`frame.py`). Keys that
block, unblock or stand in conflict are few: each goes its way slice by slice, as `keyfold.py` says.

Whatever is not plainly within reach is left to `decide`: closes and versions that come near 64
bits, whose exact stopping record must be found.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np

from amends_pipeline.inventory.assertions import Assertions
from amends_pipeline.inventory.authority import Accepted, Authority, first, rule
from amends_pipeline.inventory.decision import Decision
from amends_pipeline.inventory.envelope import STATUS_DAY, Cause, EnvelopeBatch, Reasons, Type
from amends_pipeline.inventory.envelope_columns import EnvelopeColumns
from amends_pipeline.inventory.frame import Published, fold_together
from amends_pipeline.inventory.key_columns import Flags, Heads, Integers, KeyChanges
from amends_pipeline.inventory.keyfold import Folded, KeyFold
from amends_pipeline.inventory.known_keys import KnownKeys
from amends_pipeline.inventory.refold import KeyChange, KeyState, Span, Status
from amends_pipeline.inventory.slice_columns import SliceColumns
from amends_pipeline.inventory.weighing import Standing, weigh
from amends_pipeline.kernel import arrow

WITHIN_REACH: Final = 2**61
"""Closes that stay below it need no exact look; sums and shifts of them fit 64 bits."""
_COUNTER_LIMIT: Final = 2**62
_KEY_BITS: Final = 31


def decide_batch(  # noqa: PLR0913, PLR0917 - what a batch is decided from, and who is told
    keys: KnownKeys,
    whole: SliceColumns,
    standing: Standing,
    ends: Sequence[int],
    base_sequence: int,
    on_evidence: Callable[[Decision], None] = lambda _: None,
) -> Decision | None:
    """Decide the slices of `whole` that end at the offsets `ends`, the last of them at its end.

    `keys` holds every key that it touches, from its earliest changed day on, `standing` what is in
    force of each of its identities; it moves on to what is in force afterwards. `on_evidence` is
    told of the decision while it has its evidence only, which is certain first.

    Returns None when slices must be decided one by one. Raises NeedsWholeKey as `decide` does,
    before anything is decided.
    """
    batch = whole.accepted
    if not _small(batch.qtys) or not _small(standing.qtys) or base_sequence > _COUNTER_LIMIT:
        return None
    touched, first_at = np.unique(batch.keys, return_index=True)
    heads = keys.heads(touched)
    weighed = weigh(batch, standing, touched[heads.statuses == int(Status.BLOCKED)].tolist())
    if weighed is None or not _within_reach(heads, weighed.moves.sums):
        return None
    evidence = Decision(
        whole.start,
        whole.until,
        base_sequence,
        {},
        weighed.authorities,
        weighed.observations,
        whole.rejections,
        EnvelopeBatch(),
        len(batch),
        slices=len(ends),
    )
    on_evidence(evidence)
    slices = np.searchsorted(np.array(ends), batch.offsets, side="right")
    moves = weighed.moves
    published, folded = fold_together(keys, moves, slices[moves.records])
    counters = [part.versions.max(initial=0) for part in published]
    if max(counters, default=0) > _COUNTER_LIMIT:
        return None
    slow = _Slow(keys, _odd(batch, standing, weighed.odd), slices)
    if slow.reach > WITHIN_REACH:
        return None
    fresh = heads.statuses == int(Status.UNTOUCHED)
    fresh &= ~np.isin(touched, np.array(sorted(weighed.odd), dtype=np.int64))
    changes = folded.beside(slow.changes | _first_seen(keys, touched[fresh], folded))
    others = [slow.published(), _first_stated(heads, fresh, first_at, slices)]
    envelopes = _joined(published, others, slow.reasons, batch)
    return replace(evidence, keys=changes, envelopes=envelopes)


def _small(numbers: Integers) -> bool:
    """Whether sums and differences of two of these fit 64 bits."""
    return max(int(numbers.max(initial=0)), -int(numbers.min(initial=0))) < WITHIN_REACH


def _within_reach(heads: Heads, sums: Integers) -> bool:
    """Whether no close and no counter of a touched key can come near 64 bits."""
    peak, counter = (int(each.max(initial=0)) for each in (heads.peaks, heads.status_versions))
    if counter >= _COUNTER_LIMIT:
        return False
    largest = int(np.abs(sums).max(initial=0))
    if len(sums) * largest < WITHIN_REACH - peak:
        return True
    # So many large ones that their sum may not fit: Python's own integers.
    swing: int = sum(map(abs, sums.tolist()))
    return swing < WITHIN_REACH - peak


class _Ruled(NamedTuple):
    """A record of an odd key by its position, and the authority that gave way to another."""

    at: int
    record: Accepted
    old: Authority | None
    new: Authority


def _odd(
    batch: Assertions, standing: Standing, odd: Collection[int]
) -> Mapping[int, Sequence[_Ruled]]:
    """The records of each odd key, weighed one after the other."""
    records: dict[int, list[_Ruled]] = {key: [] for key in sorted(odd)}
    if not odd:
        return records
    at = np.flatnonzero(np.isin(batch.keys, np.array(sorted(odd))))
    numbers = standing.identities.of[at].tolist()
    stood = standing.before().authorities(numbers)
    known = dict(zip(numbers, stood, strict=True))
    for position, number, record in zip(
        at.tolist(), numbers, batch.take(at).accepted(), strict=True
    ):
        old = known[number]
        new = first(record) if old is None else rule(old, record).authority
        known[number] = new
        records[record.key].append(_Ruled(position, record, old, new))
    return records


def _first_seen(keys: KnownKeys, fresh: Integers, changed: KeyChanges) -> dict[int, KeyChange]:
    """Keys that were named for the first time, by records that move no day."""
    unmoved = fresh[~np.isin(fresh, changed.columns.heads.keys)]
    return {
        key: KeyChange(keys[key]._replace(status=Status.READY, status_version=1), Span(0, 0))
        for key in unmoved.tolist()
    }


def _first_stated(heads: Heads, fresh: Flags, first_at: Integers, slices: Integers) -> Published:
    """READY of every key that was named for the first time."""
    at = first_at[fresh]
    same = np.ones(len(at), dtype=np.int64)
    return Published(
        slices[at],
        heads.keys[fresh],
        same * int(Type.READY_STATED),
        same * STATUS_DAY,
        heads.status_versions[fresh] + 1,
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
        odd: Mapping[int, Sequence[_Ruled]],
        slices: Integers,
    ) -> None:
        self.changes: dict[int, KeyChange] = {}
        self.reasons: dict[tuple[int, int], Reasons] = {}
        """Reasons of BLOCKED by (slice, key)."""
        self.reach = 0
        """No close of these keys was further from 0: sums that moved behind a conflict count."""
        self._lines: list[_Line] = []
        for key, records in odd.items():
            state, changed_days = states[key], set[int]()
            of = slices[[each.at for each in records]].tolist()
            for number, pairs in groupby(zip(of, records, strict=True), key=itemgetter(0)):
                fold = KeyFold(state)
                for _, (at, record, old, new) in pairs:
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
            for publication in folded.published.one_by_one()
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
    folded: Sequence[Published],
    others: Sequence[Published],
    reasons: Mapping[tuple[int, int], Reasons],
    batch: Assertions,
) -> EnvelopeColumns:
    """All publications in the order of slices, then keys, as `decide` publishes them.

    What was folded together is in that order already.
    """
    slices, keys, types, days, versions, closes, causes = _merged(folded, others)
    named = np.zeros(len(batch), dtype=np.bool_)
    named[causes] = True
    return EnvelopeColumns(
        keys,
        types,
        days,
        versions,
        closes,
        (np.cumsum(named) - 1)[causes],
        list(_causes(batch, np.flatnonzero(named))),
        {
            at: reasons[int(slices[at]), int(keys[at])]
            for at in np.flatnonzero(types == int(Type.BLOCKED_STATED)).tolist()
        },
    )


def _merged(folded: Sequence[Published], others: Sequence[Published]) -> Published:
    """All in order. The others are few, and are put in between."""
    whole, few = Published.joined(folded), Published.joined(others)
    if not len(few.keys):
        return whole
    order = np.argsort(_codes(few), kind="stable")
    few = Published(*(column[order] for column in few))
    # Behind what stands there of the same key: its days, where its status is new.
    places = np.searchsorted(_codes(whole), _codes(few), side="right")
    at = places + np.arange(len(places))
    between = np.ones(len(whole.keys) + len(at), dtype=np.bool_)
    between[at] = False
    together = []
    for column, more in zip(whole, few, strict=True):
        numbers = np.empty(len(between), dtype=np.int64)
        numbers[at], numbers[between] = more, column
        together.append(numbers)
    return Published(*together)


def _codes(published: Published) -> Integers:
    """What publications are ordered by: slices, keys, and last the status of a key."""
    last = published.types >= int(Type.READY_STATED)
    codes: Integers = (published.slices << _KEY_BITS | published.keys) << 1 | last
    return codes


def _causes(batch: Assertions, at: Integers) -> Iterator[Cause]:
    txn_ids = arrow.taken(batch.txn_ids, at).to_pylist()
    return map(Cause, batch.offsets[at].tolist(), txn_ids, batch.revisions[at].tolist())
