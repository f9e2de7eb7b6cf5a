"""What moved one account: the journals with a leg of it, over a history of any length.

`statement` says the same of histories that the reference takes, and judges them; here the history
has been judged before.
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


class Line(NamedTuple):
    """A movement and the balance after it."""

    movement: Movement
    balance: int


def movements(groups: Iterable[Group], account: Account) -> Iterator[Movement]:
    """Return what moved an account, in sequence order; `groups` is a valid history from genesis."""
    account_id, side = account.account_id, account.normal_side
    for group in groups:
        for place, journal in enumerate(group.journals):
            legs = [leg for leg in journal.command.legs if leg.account_id == account_id]
            if legs:
                kind = ("reversal", "replacement")[place] if group.correction else "posting"
                yield Movement(
                    int(journal.sequence),
                    group.group_id,
                    journal.command.journal_id,
                    kind,
                    journal.command.effective_at,
                    group.available_at,
                    normal(sum(map(signed, legs)), side),
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
