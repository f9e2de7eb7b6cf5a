"""Which revision of a transaction is in force, and what is kept of all the others.

An identity is one transaction of one stock key: (key number, txn_id). The highest revision decides.
Two distinct assertions at the highest revision leave it undecided: a conflict, which blocks the
key.

These are the values that a worker makes and keeps by the million: structures that the garbage
collector need not visit, made in a third of the time of a named tuple.

Complete evidence is the union of the authorities and the observations: every accepted record stands
in exactly one of the two, with its source offset.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

CANCEL = "CANCEL"
KINDS: Final = ("", "NEW", "AMEND", CANCEL)
"""Kinds by the number that stands for them."""


class Candidate(msgspec.Struct, frozen=True, order=True, gc=False):
    """What two assertions of one identity are compared by. `source_time` is not part of it."""

    revision: int
    kind: str
    day: int
    """UTC day of the valid instant, days since 1970-01-01."""
    nanosecond: int
    """Nanosecond of that day."""
    qty: int

    @property
    def active(self) -> bool:
        """Whether this assertion, when in force, contributes its quantity to its day."""
        return self.kind != CANCEL


class Authority(msgspec.Struct, frozen=True, gc=False):
    """The highest revision of one identity.

    When `conflicted`, `candidate` is the one that was seen first at that revision; it is evidence
    then, and contributes nothing.
    """

    candidate: Candidate
    offset: int
    conflicted: bool

    @property
    def contributes(self) -> bool:
        """Whether the identity has an active contribution to its day."""
        return not self.conflicted and self.candidate.kind != CANCEL


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """A source record that passed classification."""

    key: int
    """Key number of the configuration."""
    txn_id: str
    offset: int
    candidate: Candidate


class Observation(msgspec.Struct, frozen=True, gc=False):
    """Evidence that is not in force: superseded, stale, duplicate or conflicting."""

    key: int
    txn_id: str
    offset: int
    candidate: Candidate


class Ruling(NamedTuple):
    """What one record does to the authority of its identity."""

    authority: Authority
    """The authority from now on (the same object when nothing changed)."""
    observed: Observation
    """The evidence that the record adds beside it; the old authority when it was superseded."""


def first(record: Accepted) -> Authority:
    """The authority of an identity that was never seen before."""
    return Authority(record.candidate, record.offset, conflicted=False)


def rule(current: Authority, record: Accepted) -> Ruling:
    """Weigh `record` against the authority of its identity.

    A higher revision takes over. An equal revision is a duplicate when it says the same and a
    conflict when it does not; once in conflict, only a higher revision ends it. A lower revision
    changes nothing.
    """
    standing = current.candidate
    if record.candidate.revision > standing.revision:
        superseded = Observation(record.key, record.txn_id, current.offset, standing)
        return Ruling(first(record), superseded)
    seen = Observation(record.key, record.txn_id, record.offset, record.candidate)
    if record.candidate.revision == standing.revision and record.candidate != standing:
        conflicted = Authority(standing, current.offset, conflicted=True)
        return Ruling(conflicted, seen)
    return Ruling(current, seen)
