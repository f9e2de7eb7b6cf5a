"""Why this balance: the transactions that a close is made of, and those that are no part of it.

Everything follows from the complete evidence of one stock key. What was published is shown beside
it, because a BLOCKED key keeps the rows that it had just before the record that blocked it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from amends_pipeline.inventory.authority import Authority, Candidate, Observation
from amends_pipeline.inventory.envelope import Reasons
from amends_pipeline.inventory.refold import KeyState, Status


class Fate(StrEnum):
    """Why an accepted record contributes nothing to the balance that was asked for."""

    SUPERSEDED = "superseded"
    """A higher revision of its transaction is in force."""
    CANCELLED = "cancelled"
    """The revision in force is a cancellation."""
    CANCELLATION = "cancellation"
    """It is that cancellation."""
    CONFLICTING = "conflicting"
    """Its revision, the highest, says two things; the key is blocked until a higher one comes."""
    DUPLICATE = "duplicate"
    """It says once more what the record in force says."""
    LATER = "later"
    """It is in force and dated after the day; an earlier revision was not."""


class Contribution(NamedTuple):
    """A transaction in force on or before the day."""

    txn_id: str
    offset: int
    candidate: Candidate
    close: int
    """The balance after it, exact: while a key is blocked it may leave 64 bits."""


class Bystander(NamedTuple):
    """An accepted record that has no part in the balance, of a transaction that has or had one."""

    txn_id: str
    offset: int
    candidate: Candidate
    fate: Fate
    by: int | None
    """Source offset of the record in force in its place; None for what is in force, or would be."""


class Assertion(NamedTuple):
    """What one record says in a conflict."""

    offset: int
    candidate: Candidate


class Conflict(NamedTuple):
    """A revision that says two things."""

    txn_id: str
    revision: int
    current: bool
    """Whether no higher revision has ended it: then it blocks the key."""
    assertions: tuple[Assertion, ...]
    """By offset; duplicates of one side stand there too."""


class Published(NamedTuple):
    """The latest day on or before the one asked for that has a balance of its own."""

    day: int
    close: int
    alerting: bool
    """Whether the close crossed the threshold downward."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a key's balance at the end of a day is made of."""

    day: int
    opening: int
    threshold: int
    status: Status
    reasons: Reasons
    published: Published | None
    """None when there was no activity yet: the balance is the opening."""
    contributing: tuple[Contribution, ...]
    """By valid time, then txn_id as UTF-8 bytes."""
    bystanders: tuple[Bystander, ...]
    """By txn_id, then offset."""
    conflicts: tuple[Conflict, ...]
    """All of the key, whatever their days: one blocks every day. By txn_id, then revision."""

    @property
    def computed(self) -> int:
        """Opening and contributions, summed up. A READY key has published just that."""
        return self.contributing[-1].close if self.contributing else self.opening

    @property
    def balance(self) -> int:
        """The balance that readers are told for the end of the day, stated or carried over."""
        return self.published.close if self.published is not None else self.opening


def explain(
    state: KeyState,
    authorities: Sequence[tuple[str, Authority]],
    observations: Iterable[Observation],
    day: int,
) -> Explanation:
    """Explain the balance of a key at the end of `day`, a day number.

    `state` is the whole key, `authorities` and `observations` its complete evidence, all of one
    moment. Bystanders are those of transactions with an accepted record on or before the day.
    """
    observed: dict[str, list[Observation]] = {}
    for observation in observations:
        observed.setdefault(observation.txn_id, []).append(observation)
    ordered = sorted(authorities, key=lambda entry: entry[0])
    return Explanation(
        day,
        state.opening,
        state.threshold,
        state.status,
        state.reasons,
        _published(state, day),
        _contributing(state.opening, ordered, day),
        tuple(_bystanders(ordered, observed, day)),
        tuple(_conflicts(ordered, observed)),
    )


def _published(state: KeyState, day: int) -> Published | None:
    rows = state.rows
    for at in range(bisect_right(rows.days, day) - 1, -1, -1):
        if rows.present[at]:
            return Published(rows.days[at], rows.closes[at], rows.alerting[at])
    return None


def _contributing(
    opening: int, authorities: Iterable[tuple[str, Authority]], day: int
) -> tuple[Contribution, ...]:
    active = [
        (authority.candidate.day, authority.candidate.nanosecond, txn_id, authority)
        for txn_id, authority in authorities
        if authority.contributes and authority.candidate.day <= day
    ]
    active.sort(key=lambda entry: entry[:3])
    close = opening
    contributions = []
    for _, _, txn_id, authority in active:
        close += authority.candidate.qty
        contributions.append(Contribution(txn_id, authority.offset, authority.candidate, close))
    return tuple(contributions)


def _bystanders(
    authorities: Iterable[tuple[str, Authority]],
    observed: Mapping[str, Sequence[Observation]],
    day: int,
) -> Iterator[Bystander]:
    for txn_id, authority in authorities:
        others = observed.get(txn_id, ())
        standing = authority.candidate
        if min([standing.day, *(other.candidate.day for other in others)]) > day:
            continue
        found = [
            Bystander(txn_id, other.offset, other.candidate, *_fate(authority, other))
            for other in others
        ]
        fate = _own_fate(authority, day)
        if fate is not None:
            found.append(Bystander(txn_id, authority.offset, standing, fate, None))
        yield from sorted(found, key=lambda bystander: bystander.offset)


def _fate(authority: Authority, other: Observation) -> tuple[Fate, int | None]:
    """The fate of evidence that is not in force, and the offset of what is."""
    standing = authority.candidate
    if other.candidate.revision < standing.revision:
        cancelled = other.candidate.active and not standing.active and not authority.conflicted
        return Fate.CANCELLED if cancelled else Fate.SUPERSEDED, authority.offset
    if authority.conflicted:
        return Fate.CONFLICTING, None
    return Fate.DUPLICATE, authority.offset


def _own_fate(authority: Authority, day: int) -> Fate | None:
    """The fate of the highest revision; None when it contributes."""
    if authority.conflicted:
        return Fate.CONFLICTING
    if not authority.candidate.active:
        return Fate.CANCELLATION
    return Fate.LATER if authority.candidate.day > day else None


def _conflicts(
    authorities: Iterable[tuple[str, Authority]], observed: Mapping[str, Sequence[Observation]]
) -> Iterator[Conflict]:
    for txn_id, authority in authorities:
        if txn_id not in observed:
            continue
        standing = authority.candidate
        said = {standing.revision: [Assertion(authority.offset, standing)]}
        for other in observed[txn_id]:
            assertion = Assertion(other.offset, other.candidate)
            said.setdefault(other.candidate.revision, []).append(assertion)
        for revision, assertions in sorted(said.items()):
            if len({assertion.candidate for assertion in assertions}) > 1:
                current = revision == standing.revision
                yield Conflict(txn_id, revision, current, tuple(sorted(assertions)))
