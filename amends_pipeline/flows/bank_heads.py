"""Accept: an export that somebody offers is held against the heads that are remembered.

A stream that is kept here handed out its heads itself: another head of it was made by somebody
else, or by a copy of the database. Of a stream that is kept elsewhere, the heads of accepted
exports are remembered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from amends_pipeline.bank.codes import Code, HeadCode, Rejection
from amends_pipeline.bank.heads import (
    KnownHead,
    Prefix,
    Stream,
    empty_digest,
    judge_export,
    judge_head,
)
from amends_pipeline.bank.values import Head
from amends_pipeline.flows.bank_settle import settled
from amends_pipeline.kernel.errors import UnknownStream
from amends_pipeline.ports.bank import BankJournal


def accept(journal: BankJournal, head: Head, groups: Iterable[Prefix]) -> Rejection | None:
    """Remember the head of an export that continues all heads of its stream, or say why not.

    groups: `bank.heads.prefixes` of an export from genesis, which a fold has found to be valid
    under a context with this head. Raises OperationErrors of the store.
    """
    stream = Stream(head.stream_id, head.ledger_id, head.entity_id)
    offered = list(groups)
    digest = offered[-1].digest if offered else empty_digest(stream)
    known = KnownHead(int(head.head_sequence), head.observed_at, head.receipt_ref, digest)
    live = _live(journal, stream)
    if live is not None:
        return live if isinstance(live, Rejection) else _own(live, head, offered, known)

    def attempt(_: bool) -> Rejection | None:  # noqa: FBT001 - as `settled` calls it
        with journal.offering(stream) as memory:
            rejection = judge_export(memory.heads(), head, offered)
            if rejection is None:
                memory.remember(known)
        return rejection

    return settled(attempt)


def judge(journal: BankJournal, head: Head) -> Rejection | None:
    """Tell whether a head alone is older than one that is remembered."""
    stream = Stream(head.stream_id, head.ledger_id, head.entity_id)
    known = _live(journal, stream)
    if isinstance(known, Rejection):
        return known
    if known is None:
        with journal.offering(stream) as memory:
            known = memory.heads()
    return judge_head(known, int(head.head_sequence), head.observed_at)


def _live(journal: BankJournal, stream: Stream) -> Sequence[KnownHead] | Rejection | None:
    """Return the heads of a stream that is kept here, None where it is not."""
    try:
        with journal.snapshot(stream.stream_id) as snapshot:
            there = snapshot.standing.stream
            heads = snapshot.heads()
    except UnknownStream:
        return None
    if there != stream:
        expected = f"ledger {there.ledger_id}, entity {there.entity_id}"
        found = f"{stream.ledger_id}, {stream.entity_id}"
        return Rejection(Code.SCOPE_MISMATCH, "head", expected, found)
    return heads


def _own(
    heads: Sequence[KnownHead], head: Head, offered: Sequence[Prefix], known: KnownHead
) -> Rejection | None:
    rejection = judge_export(heads, head, offered)
    if rejection is None and known not in heads:
        expected = "a head that the live journal handed out"
        return Rejection(HeadCode.FORKED_HEAD, "head", expected, head.receipt_ref)
    return rejection
