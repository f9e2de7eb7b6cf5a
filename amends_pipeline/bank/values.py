"""The values of an export, immutable: what the grammar has let pass, still as text.

Amounts and sequences stay texts here and become integers where they are counted. All timestamps
have one width and compare as texts. Members stand in the order in which they are written.

The garbage collector need not visit these values: none can hold itself.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final, Literal

import msgspec

GROUP_VERSION: Final = "d30-committed-group-v1"
JOURNAL_VERSION: Final = "d30-journal-v1"
QUERY_VERSION: Final = "d30-balance-fold-v1"
CHECKPOINT_VERSION: Final = "d30-balance-checkpoint-v1"

Side = Literal["debit", "credit"]
Kind = Literal["posting", "correction"]
AccountType = Literal["asset", "expense", "liability", "equity", "revenue"]

NORMAL_SIDES: Final[dict[str, Side]] = {
    "asset": "debit",
    "expense": "debit",
    "liability": "credit",
    "equity": "credit",
    "revenue": "credit",
}
OTHER_SIDE: Final[dict[Side, Side]] = {"debit": "credit", "credit": "debit"}


class Account(msgspec.Struct, frozen=True, gc=False):
    """What an account is; nothing of it changes."""

    account_id: str
    ledger_id: str
    entity_id: str
    currency: str
    account_type: AccountType
    normal_side: Side


class Leg(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """One movement of one account."""

    account_id: str
    side: Side
    amount_minor: str


class Command(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """What was asked to be booked, as it was asked."""

    schema_version: Literal["d30-journal-v1"]
    ledger_id: str
    entity_id: str
    journal_id: str
    business_operation_id: str
    currency: str
    effective_at: str
    source_available_at: str
    booking_period: str
    legs: tuple[Leg, ...]


class Journal(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A command that was booked."""

    command: Command
    sequence: str
    recorded_at: str
    adjustment_reason: str


class Correction(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The link of a correction to what it corrects."""

    correction_id: str
    original_journal_id: str
    reversal_journal_id: str
    replacement_journal_id: str
    reason: str


class Group(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """What one commit made visible, whole."""

    schema_version: Literal["d30-committed-group-v1"]
    group_id: str
    kind: Kind
    ledger_id: str
    entity_id: str
    available_at: str
    journals: tuple[Journal, ...]
    correction: Correction | None


class Head(msgspec.Struct, frozen=True, gc=False):
    """How far the source had come, from a witness other than the groups."""

    stream_id: str
    ledger_id: str
    entity_id: str
    observed_at: str
    head_sequence: str
    receipt_ref: str


class Checkpoint(msgspec.Struct, frozen=True, gc=False):
    """A balance after a whole prefix of the history, at a fixed economic cutoff."""

    schema_version: Literal["d30-balance-checkpoint-v1"]
    checkpoint_id: str
    stream_id: str
    ledger_id: str
    entity_id: str
    account_id: str
    currency: str
    normal_side: Side
    through_sequence: str
    effective_cutoff: str
    raw_balance_minor: str
    last_group_id: str | None
    last_recorded_at: str | None
    last_available_at: str | None
    provenance_ref: str


class Query(msgspec.Struct, frozen=True, gc=False):
    """What is asked about one account."""

    schema_version: Literal["d30-balance-fold-v1"]
    ledger_id: str
    entity_id: str
    account_id: str
    currency: str
    effective_cutoff: str
    knowledge_cutoff: str
    checkpoint: Checkpoint | None


class AggregateQuery(msgspec.Struct, frozen=True, gc=False):
    """What is asked about all accounts of a currency."""

    schema_version: Literal["d30-balance-fold-v1"]
    ledger_id: str
    entity_id: str
    currency: str
    effective_cutoff: str
    knowledge_cutoff: str


class RegistryEntry(msgspec.Struct, frozen=True):
    """A trusted checkpoint with the groups that it stands on, not looked into yet."""

    checkpoint: Checkpoint
    prefix_groups: tuple[object, ...]


class Context(msgspec.Struct, frozen=True):
    """What the host vouches for."""

    head: Head
    checkpoint_registry: tuple[RegistryEntry, ...]


def plain(value: msgspec.Struct) -> Any:  # noqa: ANN401 - JSON has no narrower type
    """Return a value of this module as new JSON values."""
    return msgspec.json.decode(msgspec.json.encode(value))


write_group: Final = msgspec.json.Encoder().encode
"""Write a group as compact JSON in UTF-8: equal bytes for equal groups."""
read_group: Final = msgspec.json.Decoder(Group).decode
"""Read a group that was read, or written, before: neither its texts nor its rules are judged."""


def digest(group: Group) -> bytes:
    """Return the SHA-256 of a group: equal for equal groups, however their JSON was written.

    It covers the group's members in the order of this module, as compact JSON in UTF-8.
    """
    return hashlib.sha256(write_group(group)).digest()


def signed(leg: Leg) -> int:
    """Return what a leg adds to the raw balance of its account."""
    amount = int(leg.amount_minor)
    return amount if leg.side == "debit" else -amount


def normal(raw: int, normal_side: Side) -> int:
    """Return a raw balance as people read it on an account with this normal side."""
    return raw if normal_side == "debit" else -raw
