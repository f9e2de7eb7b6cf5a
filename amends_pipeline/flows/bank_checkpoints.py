"""Checkpoints: balances are kept as rows, and become registry entries when somebody asks for them.

All checkpoints of one cutoff after one prefix share that prefix, which is the stream's own history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from amends_pipeline.bank.checkpoint import new_checkpoint
from amends_pipeline.bank.export import MAX_GROUPS
from amends_pipeline.bank.values import (
    QUERY_VERSION,
    Account,
    Checkpoint,
    Group,
    Head,
    Query,
    RegistryEntry,
)
from amends_pipeline.flows.bank_settle import settled
from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import InputError
from amends_pipeline.ports.bank import BankJournal, BankSnapshot, CheckpointSet


class Wanted(NamedTuple):
    """Checkpoints of one set."""

    checkpoints: CheckpointSet
    accounts: Sequence[str] | None = None
    """None for all of the set."""


def keep(journal: BankJournal, stream_id: str, checkpoints: CheckpointSet) -> None:
    """Keep the balances of a prefix, as a validated answer gave them.

    Raises UnknownStream; InputError for an account that the stream does not have.
    """
    settled(lambda _: journal.keep_checkpoints(stream_id, checkpoints))


def registry(wanted: Iterable[Wanted]) -> Callable[[BankSnapshot], Sequence[RegistryEntry]]:
    """Return what `bank_export.export` makes a checkpoint registry with.

    It raises InputError for a prefix of more groups than the reference takes.
    """
    sets = list(wanted)
    return lambda snapshot: [entry for each in sets for entry in _entries(snapshot, each)]


def _entries(snapshot: BankSnapshot, wanted: Wanted) -> Iterable[RegistryEntry]:
    kept = wanted.checkpoints
    prefix = _prefix(snapshot, kept.through_sequence)
    accounts = {each.account_id: each for each in snapshot.accounts()}
    for account_id in kept.raw_balances if wanted.accounts is None else wanted.accounts:
        if account_id not in kept.raw_balances:
            where = f"checkpoint of stream {snapshot.standing.stream.stream_id}"
            raise InputError(where, expected="an account of the set", found=shown(account_id))
        checkpoint = _checkpoint(snapshot, kept, accounts[account_id], prefix)
        yield RegistryEntry(checkpoint, prefix)


def _prefix(snapshot: BankSnapshot, through: int) -> tuple[Group, ...]:
    groups: list[Group] = []
    for group, _ in snapshot.groups(through):
        groups.append(group)
        if len(groups) > MAX_GROUPS:
            where = f"checkpoint of stream {snapshot.standing.stream.stream_id}"
            expected = f"a prefix of at most {MAX_GROUPS} groups"
            raise InputError(where, expected=expected, found="more, beyond the reference")
    return tuple(groups)


def _checkpoint(
    snapshot: BankSnapshot, kept: CheckpointSet, account: Account, prefix: Sequence[Group]
) -> Checkpoint:
    stream, cutoff = snapshot.standing.stream, kept.effective_cutoff
    _, ledger_id, entity_id = stream
    account_id, currency = account.account_id, account.currency
    query = Query(
        QUERY_VERSION, ledger_id, entity_id, account_id, currency, cutoff, cutoff, checkpoint=None
    )
    head = Head(*stream, cutoff, str(kept.through_sequence), kept.provenance_ref)
    return new_checkpoint(query, account, head, prefix, kept.raw_balances[account_id])
