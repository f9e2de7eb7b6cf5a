"""Every code that a fold answers with, and the form of a refusal."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from amends_pipeline.kernel.display import escape_terminal


class Code(StrEnum):
    """What a fold says: one success, or the first fault."""

    BALANCE_FOLDED = "BALANCE_FOLDED"
    """The answer is complete."""

    INVALID_SCHEMA = "INVALID_SCHEMA"
    """Another JSON type, a missing or unknown member, another version, text that is no text."""
    INVALID_IDENTIFIER = "INVALID_IDENTIFIER"
    """An identifier outside the grammar."""
    INVALID_TIMESTAMP = "INVALID_TIMESTAMP"
    """A timestamp or a booking period outside the grammar, or a date that does not exist."""
    INVALID_AMOUNT = "INVALID_AMOUNT"
    """An amount or a balance outside the grammar."""
    INVALID_SEQUENCE = "INVALID_SEQUENCE"
    """A sequence outside the grammar."""
    INVALID_ACCOUNTS = "INVALID_ACCOUNTS"
    """An account that breaks its own rules, stands twice, or is named and not there."""
    INVALID_CONTEXT = "INVALID_CONTEXT"
    """A registry that contradicts itself."""

    SCOPE_MISMATCH = "SCOPE_MISMATCH"
    """Another ledger or entity than the head's."""
    UNSUPPORTED_CURRENCY = "UNSUPPORTED_CURRENCY"
    """No currency of ISO 4217, active or withdrawn."""
    CURRENCY_MISMATCH = "CURRENCY_MISMATCH"
    """An account of another currency than the command or the query that names it."""
    KNOWLEDGE_BEYOND_EXPORT = "KNOWLEDGE_BEYOND_EXPORT"
    """A knowledge cutoff after the head was observed."""

    UNKNOWN_CHECKPOINT = "UNKNOWN_CHECKPOINT"
    """The registry holds no checkpoint of this identity."""
    CHECKPOINT_MISMATCH = "CHECKPOINT_MISMATCH"
    """A checkpoint unlike its registered form, the query, or its own prefix."""
    CHECKPOINT_QUERY_MISMATCH = "CHECKPOINT_QUERY_MISMATCH"
    """A checkpoint of another economic cutoff."""
    CHECKPOINT_AFTER_KNOWLEDGE = "CHECKPOINT_AFTER_KNOWLEDGE"
    """A checkpoint that holds more than was known."""
    CHECKPOINT_OVERLAP = "CHECKPOINT_OVERLAP"
    """A supplied group that the checkpoint already covers."""
    CHECKPOINT_BALANCE_MISMATCH = "CHECKPOINT_BALANCE_MISMATCH"
    """A cached balance that its prefix does not add up to."""

    DUPLICATE_GROUP = "DUPLICATE_GROUP"
    """The same group again."""
    GROUP_ID_CONFLICT = "GROUP_ID_CONFLICT"
    """Another group under the same identifier."""
    OUT_OF_ORDER_GROUP = "OUT_OF_ORDER_GROUP"
    """A new group with a sequence already passed."""
    SEQUENCE_GAP = "SEQUENCE_GAP"
    """A group that starts after the next sequence."""
    INCOMPLETE_EXPORT = "INCOMPLETE_EXPORT"
    """The groups do not end where the head says."""

    INVALID_GROUP = "INVALID_GROUP"
    """A group that breaks its own rules, or more groups than the reference takes."""
    DUPLICATE_JOURNAL = "DUPLICATE_JOURNAL"
    """A journal identifier used before."""
    DUPLICATE_BUSINESS_OPERATION = "DUPLICATE_BUSINESS_OPERATION"
    """A business operation booked before."""
    INVALID_CORRECTION_LINK = "INVALID_CORRECTION_LINK"
    """A link unlike its members, or to nothing that came before."""
    REVERSAL_OF_REVERSAL = "REVERSAL_OF_REVERSAL"
    """A correction of a reversal."""
    ALREADY_REVERSED = "ALREADY_REVERSED"
    """A second correction of one original."""
    INVALID_REVERSAL = "INVALID_REVERSAL"
    """A reversal that is not its original with the sides exchanged."""
    CLOCK_ORDER_VIOLATION = "CLOCK_ORDER_VIOLATION"
    """Clocks that contradict each other or the order of sequences."""


class HeadCode(StrEnum):
    """What the memory of heads says of an export; a fold, which has none, never does."""

    STALE_HEAD = "STALE_HEAD"
    """A head that says less, or was observed earlier, than a known one."""
    FORKED_HEAD = "FORKED_HEAD"
    """A history that a known head did not see, although it should have."""


class Rejection(NamedTuple):
    """The first fault, for a person: a value, never raised.

    The texts are as found; `str()` makes them safe to show.
    """

    code: Code | HeadCode
    where: str
    """The place, such as "group 3, sequence 4"; groups count from 1, prefix and supplied apart."""
    expected: str
    found: str
    group_id: str | None = None
    """The group at fault, where its identifier could be read."""
    sequence: str | None = None
    """The first sequence of that group, where it could be read."""

    def __str__(self) -> str:
        """Return "CODE at where: expected X, found Y" on one line."""
        sentence = f"{self.code} at {self.where}: expected {self.expected}, found {self.found}"
        return escape_terminal(sentence)


class RefusedError(Exception):
    """Carries a rejection out of what parses; functions that answer return it instead."""

    def __init__(self, rejection: Rejection) -> None:
        super().__init__(rejection)
        self.rejection = rejection
