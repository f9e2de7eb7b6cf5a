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

    Where there are many, each transaction takes some of them: the lock of the stream is held for as
    long as these take. Raises UnknownStream, and OperationErrors of the store.
    """
    count, whole = 0, False
    while not whole:
        done = settled(lambda _: _stamp(journal, stream_id))
        count, whole = count + len(done.receipts), done.whole
    return count


def receipt_of(journal: BankJournal, stream_id: str, group: Group) -> Group:
    """Return a committed group with its receipt, which it and those before it get if need be.

    A database that is away for a moment is waited for. Raises OperationErrors of the store.
    """
    if group.available_at != NO_RECEIPT:
        return group
    last = group.journals[-1]

    def attempt(_: bool) -> Group | None:  # noqa: FBT001 - as `settled` calls it
        with journal.locked(stream_id) as stream:
            receipts = _stamp_some(stream).receipts
            if stream.standing.stamped_sequence >= int(last.sequence):
                asked = Asked(journals=(last.command.journal_id,))
                return next(
                    each
                    for each in stream.facts(asked).groups
                    if each.journals[-1].sequence == last.sequence
                )
        by_end = {each.last_sequence: each.available_at for each in receipts}
        available_at = by_end.get(int(last.sequence))
        return None if available_at is None else with_receipt(group, available_at)

    found = None
    while found is None:  # many groups before it get theirs first
        found = settled(attempt, begun=True)
    return found


def observe(journal: BankJournal, stream_id: str, *, remembered: bool = True) -> KnownHead:
    """Give receipts, and return the head of everything that has one.

    A head that is remembered is one that was handed out, and kept. Otherwise it is for one look:
    nothing but its moment is kept. Raises as `stamp`.
    """

    def attempt(_: bool) -> KnownHead | None:  # noqa: FBT001 - as `settled` calls it
        with journal.locked(stream_id) as stream:
            done = _stamp_some(stream)
            if not done.whole:
                return None
            head = decide_head(done.standing, done.clock)
            if remembered:
                stream.remember(head)
            else:
                stream.told(head.observed_at)
        return head

    found = None
    while found is None:  # many groups get their receipts first
        found = settled(attempt)
    return found


class _Stamped(NamedTuple):
    receipts: Sequence[Receipt]
    standing: Standing
    clock: str

    @property
    def whole(self) -> bool:
        """Whether every committed group has its receipt now."""
        return self.standing.stamped_sequence >= self.standing.last_sequence


def _stamp(journal: BankJournal, stream_id: str) -> _Stamped:
    with journal.locked(stream_id) as stream:
        return _stamp_some(stream)


def _stamp_some(stream: LockedStream) -> _Stamped:
    groups, clock = stream.unstamped()
    receipts = decide_receipts(stream.standing, groups, clock)
    if receipts:
        stream.stamp(receipts)
    return _Stamped(receipts, stamped(stream.standing, receipts), clock)
