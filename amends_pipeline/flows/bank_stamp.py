"""Stamp: receipts for what is committed, and heads of what has a receipt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from amends_pipeline.bank.heads import KnownHead
from amends_pipeline.bank.posting import Asked
from amends_pipeline.bank.receipts import (
    NO_RECEIPT,
    Receipt,
    Standing,
    decide_head,
    decide_receipts,
    stamped,
    with_receipt,
)
from amends_pipeline.bank.values import Group
from amends_pipeline.flows.bank_settle import settled
from amends_pipeline.ports.bank import BankJournal, LockedStream


def stamp(journal: BankJournal, stream_id: str) -> int:
    """Give receipts to all committed groups that have none. Returns how many.

    Raises UnknownStream, and OperationErrors of the store.
    """

    def attempt(_: bool) -> int:  # noqa: FBT001 - as `settled` calls it
        with journal.locked(stream_id) as stream:
            receipts = _stamp(stream).receipts
        return len(receipts)

    return settled(attempt)


def receipt_of(journal: BankJournal, stream_id: str, group: Group) -> Group:
    """Return a committed group with its receipt, which it and those before it get if need be.

    A database that is away for a moment is waited for. Raises OperationErrors of the store.
    """
    if group.available_at != NO_RECEIPT:
        return group
    last = group.journals[-1]

    def attempt(_: bool) -> Group:  # noqa: FBT001 - as `settled` calls it
        with journal.locked(stream_id) as stream:
            receipts = _stamp(stream).receipts
            if stream.standing.stamped_sequence >= int(last.sequence):
                asked = Asked(journals=(last.command.journal_id,))
                return next(
                    each
                    for each in stream.facts(asked).groups
                    if each.journals[-1].sequence == last.sequence
                )
        by_end = {each.last_sequence: each.available_at for each in receipts}
        return with_receipt(group, by_end[int(last.sequence)])

    return settled(attempt, begun=True)


def observe(journal: BankJournal, stream_id: str, *, remembered: bool = True) -> KnownHead:
    """Stamp, then observe everything that has a receipt.

    remembered: the head is handed out, and kept. Otherwise it is for one look: nothing but its
    moment is kept. Raises as `stamp`.
    """

    def attempt(_: bool) -> KnownHead:  # noqa: FBT001 - as `settled` calls it
        with journal.locked(stream_id) as stream:
            done = _stamp(stream)
            head = decide_head(done.standing, done.clock)
            if remembered:
                stream.remember(head)
            else:
                stream.told(head.observed_at)
        return head

    return settled(attempt)


class _Stamped(NamedTuple):
    receipts: Sequence[Receipt]
    standing: Standing
    clock: str


def _stamp(stream: LockedStream) -> _Stamped:
    groups, clock = stream.unstamped()
    receipts = decide_receipts(stream.standing, groups, clock)
    if receipts:
        stream.stamp(receipts)
    return _Stamped(receipts, stamped(stream.standing, receipts), clock)
