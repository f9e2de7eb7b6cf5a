"""Accept: an export that somebody offers is held against the heads that are remembered."""

from __future__ import annotations

from collections.abc import Iterable

from amends_pipeline.bank.codes import Code, Rejection
from amends_pipeline.bank.heads import (
    KnownHead,
    Stream,
    empty_digest,
    judge_export,
    judge_head,
    prefixes,
)
from amends_pipeline.bank.values import Group, Head
from amends_pipeline.flows.bank_settle import settled
from amends_pipeline.ports.bank import BankJournal


def accept(journal: BankJournal, head: Head, groups: Iterable[Group]) -> Rejection | None:
    """Remember the head of an export that continues all heads of its stream, or say why not.

    groups: from genesis, under a context with this head, as a fold has found them to be valid.
    Exports of the live journal are remembered already; to accept them again changes nothing. Raises
    UnknownStream for a stream that was not opened, also one that is kept elsewhere.
    """
    stream = Stream(head.stream_id, head.ledger_id, head.entity_id)
    offered = list(prefixes(stream, groups))
    digest = offered[-1].digest if offered else empty_digest(stream)
    known = KnownHead(int(head.head_sequence), head.observed_at, head.receipt_ref, digest)

    def attempt(_: bool) -> Rejection | None:  # noqa: FBT001 - as `settled` calls it
        with journal.locked(stream.stream_id) as locked:
            there = locked.standing.stream
            if there != stream:
                scope = f"ledger {there.ledger_id}, entity {there.entity_id}"
                found = f"{head.ledger_id}, {head.entity_id}"
                return Rejection(Code.SCOPE_MISMATCH, "head", scope, found)
            rejection = judge_export(locked.heads(), head, offered)
            if rejection is None:
                locked.remember(known)
        return rejection

    return settled(attempt)


def judge(journal: BankJournal, head: Head) -> Rejection | None:
    """Tell whether a head alone is older than one that is remembered. Raises UnknownStream."""
    with journal.snapshot(head.stream_id) as snapshot:
        return judge_head(snapshot.heads(), int(head.head_sequence), head.observed_at)
