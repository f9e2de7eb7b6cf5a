"""What a head stands for, and what a memory of heads refuses.

The digest of a prefix is a chain: that of the empty prefix names the stream, each group extends it
by its own digest. A head of the live journal is therefore known by its digest alone, however
long its history is, and every two prefixes can be compared at any group's end.

A trusted head says what was complete at one moment. Of two of them, the later one must continue
the earlier: none of its groups may change, and none may slip in with a receipt that the earlier
observation would have had to show.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from amends_pipeline.bank.codes import HeadCode, Rejection
from amends_pipeline.bank.values import Group, Head, digest
from amends_pipeline.kernel.canonical import canonical_json
from amends_pipeline.kernel.errors import CounterExhausted

MILLISECOND: Final = timedelta(milliseconds=1)
REF_DIGITS: Final = 30
"""Hexadecimal digits of a digest in a reference; with the longest sequence, 63 characters."""


class Stream(NamedTuple):
    """A ledger stream by its three names."""

    stream_id: str
    ledger_id: str
    entity_id: str


class KnownHead(NamedTuple):
    """A head that was handed out, or accepted."""

    head_sequence: int
    observed_at: str
    receipt_ref: str
    digest: bytes
    """Of the prefix up to `head_sequence`: 32 bytes."""


class Prefix(NamedTuple):
    """The groups up to and with one of them."""

    first_sequence: int
    """Of that last group."""
    last_sequence: int
    available_at: str
    digest: bytes


def empty_digest(stream: Stream) -> bytes:
    """Return the digest of a stream's empty prefix."""
    return hashlib.sha256(canonical_json(tuple(stream))).digest()


def extended(prefix: bytes, group: Group) -> bytes:
    """Return the digest of a prefix, which is given by its own, and the group after it."""
    return hashlib.sha256(prefix + digest(group)).digest()


def receipt_ref(stream_id: str, head_sequence: int, prefix: bytes) -> str:
    """Return the reference of a head: an identifier that follows from stream and content."""
    named = canonical_json([stream_id, str(head_sequence), prefix.hex()])
    return f"R-{head_sequence}-{hashlib.sha256(named).hexdigest()[:REF_DIGITS]}"


def trusted(stream: Stream, head: KnownHead) -> Head:
    """Return a head as the trusted context shows it."""
    sequence = str(head.head_sequence)
    return Head(*stream, head.observed_at, sequence, head.receipt_ref)


def millisecond_after(timestamp: str) -> str:
    """Return the next timestamp. Raises CounterExhausted after the last one of year 9999."""
    try:
        moved = datetime.fromisoformat(timestamp) + MILLISECOND
    except OverflowError:
        raise CounterExhausted("clock", expected="a later moment", found=timestamp) from None
    return f"{moved.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


def prefixes(stream: Stream, groups: Iterable[Group]) -> Iterator[Prefix]:
    """Yield every prefix of a genesis export that `bank.fold` has found to be in order."""
    so_far = empty_digest(stream)
    for group in groups:
        so_far = extended(so_far, group)
        first, last = int(group.journals[0].sequence), int(group.journals[-1].sequence)
        yield Prefix(first, last, group.available_at, so_far)


def judge_head(
    known: Sequence[KnownHead], head_sequence: int, observed_at: str
) -> Rejection | None:
    """Tell whether a head is older than one that is known: STALE_HEAD."""
    for each in known:
        if head_sequence < each.head_sequence:
            return Rejection(
                HeadCode.STALE_HEAD,
                "head_sequence",
                expected=f"at least the registered {each.head_sequence}",
                found=str(head_sequence),
            )
        if observed_at < each.observed_at:
            return Rejection(
                HeadCode.STALE_HEAD,
                "observed_at",
                expected=f"at or after the registered {each.observed_at}",
                found=observed_at,
            )
    return None


def judge_export(
    known: Sequence[KnownHead], head: Head, groups: Iterable[Prefix]
) -> Rejection | None:
    """Tell whether a whole export continues everything that is known: STALE_HEAD, FORKED_HEAD.

    known: of the head's stream. groups: `prefixes` of the export; each is read once.
    """
    stale = judge_head(known, int(head.head_sequence), head.observed_at)
    if stale is not None:
        return stale
    waiting = sorted(known, reverse=True)
    stream = Stream(head.stream_id, head.ledger_id, head.entity_id)
    at = Prefix(0, 0, "", empty_digest(stream))
    latest = ""  # observation of all heads that end before the group in hand
    for group in groups:
        while waiting and waiting[-1].head_sequence <= at.last_sequence:
            each = waiting.pop()
            latest = max(latest, each.observed_at)
            if (each.head_sequence, each.digest) != (at.last_sequence, at.digest):
                return _forked(each, at)
        if group.available_at <= latest:
            return Rejection(
                HeadCode.FORKED_HEAD,
                f"group at sequence {group.first_sequence}",
                expected=f"available_at after {latest}, when a head without it was observed",
                found=group.available_at,
            )
        at = group
    for each in reversed(waiting):
        if (each.head_sequence, each.digest) != (at.last_sequence, at.digest):
            return _forked(each, at)
    return None


def _forked(known: KnownHead, at: Prefix) -> Rejection:
    found = "another history" if known.head_sequence == at.last_sequence else "no group's end there"
    return Rejection(
        HeadCode.FORKED_HEAD,
        f"sequence {known.head_sequence}",
        expected=f"the history of the registered {known.receipt_ref}",
        found=found,
    )
