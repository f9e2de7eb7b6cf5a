"""What both stores of the bank ledger refuse, in the same words."""

from __future__ import annotations

from collections.abc import Sequence

from amends_pipeline.bank.heads import Stream
from amends_pipeline.bank.values import Account
from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import InputError, UnknownStream


def unknown_stream(stream_id: str) -> UnknownStream:
    """The error for a stream that was never opened."""
    expected = "a stream that was opened"
    return UnknownStream(f"stream {shown(stream_id)}", expected=expected, found="none")


def check_stream(there: Stream, wanted: Stream) -> None:
    """Raise InputError unless a stream that is there has the ledger and entity that are wanted."""
    if there != wanted:
        raise InputError(
            f"stream {there.stream_id}",
            expected=f"ledger {there.ledger_id} and entity {there.entity_id}, as it was opened",
            found=f"{shown(wanted.ledger_id)} and {shown(wanted.entity_id)}",
        )


def check_accounts(there: Sequence[Account], wanted: Sequence[Account]) -> None:
    """Raise InputError unless accounts are what is wanted: they are added, and never changed."""
    known = {each.account_id: each for each in there}
    for each in wanted:
        kept = known.get(each.account_id)
        if kept != each:
            raise InputError(
                f"account {shown(each.account_id)}",
                expected="the definition it was registered with" if kept else "a stored account",
                found="another" if kept else "none",
            )


def check_kept(stream_id: str, *, expected: int, found: int) -> None:
    """Raise InputError unless all balances of a checkpoint found their account."""
    if expected != found:
        raise InputError(
            f"checkpoint of stream {stream_id}",
            expected=f"balances of {expected} registered accounts",
            found=str(found),
        )
