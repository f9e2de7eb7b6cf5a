"""What moved one account: the journals with a leg of it, over a history of any length.

The history has been judged before, or is being judged while it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from amends_pipeline.bank.values import normal, signed

if TYPE_CHECKING:
    from amends_pipeline.bank.values import Account, Group


class Movement(NamedTuple):
    """A journal that moved the account."""

    sequence: int
    group_id: str
    journal_id: str
    kind: str
    """posting, reversal or replacement."""
    effective_at: str
    available_at: str
    amount: int
    """In minor units, as the account's normal side counts."""
    recorded_at: str
    booking_period: str
    first_sequence: int
    """Of the group."""
    last_sequence: int
    """Likewise."""
    correction_id: str | None
    """Of the group, where it is a correction; so is the next."""
    original_journal_id: str | None


class Line(NamedTuple):
    """A movement and the balance after it."""

    movement: Movement
    balance: int


def movements(groups: Iterable[Group], account: Account) -> Iterator[Movement]:
    """Return what moved an account, in sequence order; `groups` is a valid history from genesis."""
    account_id, side = account.account_id, account.normal_side
    for group in groups:
        for place, journal in enumerate(group.journals):
            command = journal.command
            legs = [leg for leg in command.legs if leg.account_id == account_id]
            if legs:
                link = group.correction
                yield Movement(
                    sequence=int(journal.sequence),
                    group_id=group.group_id,
                    journal_id=command.journal_id,
                    kind=("reversal", "replacement")[place] if link else "posting",
                    effective_at=command.effective_at,
                    available_at=group.available_at,
                    amount=normal(sum(map(signed, legs)), side),
                    recorded_at=journal.recorded_at,
                    booking_period=command.booking_period,
                    first_sequence=int(group.journals[0].sequence),
                    last_sequence=int(group.journals[-1].sequence),
                    correction_id=link.correction_id if link else None,
                    original_journal_id=link.original_journal_id if link else None,
                )


def selected(
    moved: Iterable[Movement], effective_cutoff: str, knowledge_cutoff: str
) -> Iterator[Movement]:
    """Leave out what two inclusive cutoffs do not select."""
    return (
        each
        for each in moved
        if each.available_at <= knowledge_cutoff and each.effective_at <= effective_cutoff
    )


def lines(moved: Iterable[Movement]) -> Iterator[Line]:
    """Return movements with running balances, in the order of the movements."""
    balance = 0
    for movement in moved:
        balance += movement.amount
        yield Line(movement, balance)


def last_correction(moved: Sequence[Movement]) -> Movement | None:
    """Return the reversal or replacement that became known last; None where there was none."""
    return next((each for each in reversed(moved) if each.kind != "posting"), None)
