"""A checkpoint: found in the registry, audited against its prefix, and made anew.

A checkpoint is a cache. It is believed because the host registered it and because the groups that
it stands on add up to it, never because a caller supplied it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from amends_pipeline.bank.codes import Code
from amends_pipeline.bank.export import scoped_identity
from amends_pipeline.bank.members import Fault
from amends_pipeline.bank.values import CHECKPOINT_VERSION, Checkpoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amends_pipeline.bank.values import Account, Context, Group, Head, Query, RegistryEntry

_PUNCTUATION: Final = re.compile(r"[^0-9TZ]")


def registered_entry(query: Query, account: Account, context: Context) -> RegistryEntry | None:
    """Return the registry entry that the query resumes from, None for genesis.

    Raises `Fault` unless the query's checkpoint is the registered one, whole, and fits the query.
    """
    checkpoint = query.checkpoint
    if checkpoint is None:
        return None
    identity = scoped_identity(checkpoint)
    for entry in context.checkpoint_registry:
        if scoped_identity(entry.checkpoint) == identity:
            break
    else:
        expected = "a checkpoint that is registered in this scope"
        raise Fault(Code.UNKNOWN_CHECKPOINT, expected, checkpoint.checkpoint_id, "checkpoint")
    for name in Checkpoint.__struct_fields__:
        registered, given = getattr(entry.checkpoint, name), getattr(checkpoint, name)
        if registered != given:
            raise _mismatch(name, registered, given)
    for name, expected in _scope_of(query, account, context.head).items():
        if getattr(checkpoint, name) != expected:
            raise _mismatch(name, expected, getattr(checkpoint, name))
    if checkpoint.effective_cutoff != query.effective_cutoff:
        expected, found = query.effective_cutoff, checkpoint.effective_cutoff
        raise Fault(Code.CHECKPOINT_QUERY_MISMATCH, expected, found, "checkpoint.effective_cutoff")
    received = checkpoint.last_available_at
    if received is not None and received > query.knowledge_cutoff:
        expected = f"a receipt by {query.knowledge_cutoff}"
        raise Fault(
            Code.CHECKPOINT_AFTER_KNOWLEDGE, expected, received, "checkpoint.last_available_at"
        )
    return entry


def _scope_of(query: Query, account: Account, head: Head) -> dict[str, str]:
    return {
        "stream_id": head.stream_id,
        "ledger_id": query.ledger_id,
        "entity_id": query.entity_id,
        "account_id": query.account_id,
        "currency": query.currency,
        "normal_side": account.normal_side,
    }


def audit_prefix(checkpoint: Checkpoint, prefix: Sequence[Group], raw: int) -> None:
    """Raise `Fault` unless the prefix ends where the checkpoint says, and adds up to it.

    `raw` is what the admitted prefix contributes to the account at the checkpoint's cutoff.
    """
    through, group_id, recorded_at, available_at = end_of(prefix)
    ends = {
        "through_sequence": through,
        "last_group_id": group_id,
        "last_recorded_at": recorded_at,
        "last_available_at": available_at,
    }
    for name, found in ends.items():
        if getattr(checkpoint, name) != found:
            raise _mismatch(name, found, getattr(checkpoint, name))
    if checkpoint.raw_balance_minor != str(raw):
        raise Fault(
            Code.CHECKPOINT_BALANCE_MISMATCH,
            f"{raw}, the sum of its prefix",
            checkpoint.raw_balance_minor,
            "checkpoint.raw_balance_minor",
        )


def end_of(groups: Sequence[Group]) -> tuple[str, str | None, str | None, str | None]:
    """Return where groups end: last sequence, group, recording and receipt; "0" and None if none.

    Sequences have no leading zeros, so that equal ones are equal texts.
    """
    if not groups:
        return "0", None, None, None
    last = groups[-1]
    journal = last.journals[-1]
    return journal.sequence, last.group_id, journal.recorded_at, last.available_at


def new_checkpoint(
    query: Query, account: Account, head: Head, visible: Sequence[Group], raw: int
) -> Checkpoint:
    """Return the checkpoint after the visible groups, a whole prefix of the history."""
    through, group_id, recorded_at, available_at = end_of(visible)
    return Checkpoint(
        schema_version=CHECKPOINT_VERSION,
        checkpoint_id=f"CP-{through}-{_PUNCTUATION.sub('', query.effective_cutoff)}",
        stream_id=head.stream_id,
        ledger_id=query.ledger_id,
        entity_id=query.entity_id,
        account_id=query.account_id,
        currency=query.currency,
        normal_side=account.normal_side,
        through_sequence=through,
        effective_cutoff=query.effective_cutoff,
        raw_balance_minor=str(raw),
        last_group_id=group_id,
        last_recorded_at=recorded_at,
        last_available_at=available_at,
        provenance_ref=head.receipt_ref,
    )


def _mismatch(name: str, expected: str | None, found: str | None) -> Fault:
    code = Code.CHECKPOINT_MISMATCH
    return Fault(code, expected or "null", found or "null", f"checkpoint.{name}")
