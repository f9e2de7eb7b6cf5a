"""A slice: consecutive records of one partition, read and classified, ready to be decided."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from amends_pipeline.inventory.authority import Accepted, Authority, Candidate
from amends_pipeline.inventory.classify import Code, classify
from amends_pipeline.inventory.config import NamespaceConfig
from amends_pipeline.inventory.revision import decode_batch
from amends_pipeline.kernel.instants import MAX_DAY

_PLAIN_KINDS = frozenset({"NEW", "AMEND"})


class Records(NamedTuple):
    """Raw records of one partition in offset order, covering `[start, until)`; gaps are legal."""

    start: int
    until: int
    offsets: Sequence[int]
    keys: Sequence[bytes | None]
    """Raw transport keys, where the transport has one."""
    values: Sequence[bytes]

    def ends(self, count: int) -> list[int]:
        """Where to cut so that each part holds `count` records and all offsets are covered."""
        positions = range(count, len(self.offsets), count)
        return [*(self.offsets[at] for at in positions), self.until]


class Rejection(NamedTuple):
    """A record that goes to quarantine, byte for byte."""

    offset: int
    code: Code
    raw_key: bytes | None
    value: bytes


class Slice(NamedTuple):
    """The records of `[start, until)`, each either accepted or rejected."""

    start: int
    until: int
    accepted: list[Accepted]
    rejections: list[Rejection]

    def before(self, offset: int) -> Slice:
        """The part of the slice before `offset`."""
        return Slice(
            self.start,
            offset,
            [record for record in self.accepted if record.offset < offset],
            [rejection for rejection in self.rejections if rejection.offset < offset],
        )

    def cut(self, ends: Sequence[int]) -> list[Slice]:
        """Consecutive parts that end at the given offsets, the last of them at `until`."""
        parts = []
        start = self.start
        accepted = rejected = 0
        for end in ends:
            accepted_end = bisect_left(self.accepted, end, accepted, key=_offset)
            rejected_end = bisect_left(self.rejections, end, rejected, key=_offset)
            parts.append(
                Slice(
                    start,
                    end,
                    self.accepted[accepted:accepted_end],
                    self.rejections[rejected:rejected_end],
                )
            )
            start, accepted, rejected = end, accepted_end, rejected_end
        return parts

    def joined(self, other: Slice) -> Slice:
        """This slice and the one that follows it, as one."""
        return Slice(
            self.start,
            other.until,
            self.accepted + other.accepted,
            self.rejections + other.rejections,
        )


def _offset(record: Accepted | Rejection) -> int:
    return record.offset


def read_slice(
    config: NamespaceConfig, partition: int, records: Records, set_aside: frozenset[int]
) -> Slice:
    """Decode and classify `records`. Offsets in `set_aside` are quarantined unread."""
    accepted: list[Accepted] = []
    rejections: list[Rejection] = []
    number_of, placements = config.numbers.get, config.placements
    origin_day = config.origin.day
    for offset, raw_key, value, revision in zip(
        records.offsets, records.keys, records.values, decode_batch(records.values), strict=True
    ):
        number = None
        if revision is not None:
            number = number_of((revision.item, revision.location))
        if (
            number is None
            or revision is None
            or offset in set_aside
            or not (
                # What `classify` says of a record with nothing odd about it, without asking it.
                raw_key is None
                and placements[number] == partition
                and revision.kind in _PLAIN_KINDS
                and origin_day < revision.valid_day <= MAX_DAY
                and revision.revision > 0
                and revision.txn_id
            )
        ):
            code = classify(config, partition, raw_key, revision)
            if offset in set_aside:
                code = Code.SET_ASIDE
            if code is not None or revision is None or number is None:
                rejections.append(Rejection(offset, code or Code.MALFORMED, raw_key, value))
                continue
        candidate = Candidate(
            revision.revision,
            revision.kind,
            revision.valid_day,
            revision.valid_nanosecond,
            revision.qty,
        )
        accepted.append(Accepted(number, revision.txn_id, offset, candidate))
    return Slice(records.start, records.until, accepted, rejections)


def identities(slice_: Slice) -> set[tuple[int, str]]:
    """The identities (key number, txn_id) whose authority a decision needs."""
    return {(record.key, record.txn_id) for record in slice_.accepted}


def earliest_days(
    slice_: Slice, authorities: Mapping[tuple[int, str], Authority]
) -> dict[int, int]:
    """For each touched key, a day such that no contribution before it can change.

    A contribution changes where an old authority had it or where a new candidate may put it.
    """
    earliest: dict[int, int] = {}
    for record in slice_.accepted:
        day = record.candidate.day if record.candidate.active else MAX_DAY
        current = authorities.get((record.key, record.txn_id))
        if current is not None and current.contributes:
            day = min(day, current.candidate.day)
        earliest[record.key] = min(day, earliest.get(record.key, MAX_DAY))
    return earliest
