"""What undoes a journal: the same legs, in the same places, with their sides exchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amends_pipeline.bank.values import OTHER_SIDE, Leg

if TYPE_CHECKING:
    from amends_pipeline.bank.values import Command


def reverse(original: Command) -> tuple[Leg, ...]:
    """Return the legs of the exact reversal of a journal command."""
    return tuple(
        Leg(leg.account_id, OTHER_SIDE[leg.side], leg.amount_minor) for leg in original.legs
    )


def is_reversal(legs: tuple[Leg, ...], original: tuple[Leg, ...]) -> bool:
    """Tell whether `legs` are exactly those of `original` with their sides exchanged."""
    return len(legs) == len(original) and all(
        leg.account_id == other.account_id
        and leg.amount_minor == other.amount_minor
        and leg.side != other.side
        for leg, other in zip(legs, original, strict=True)
    )
