"""Follow: when the balances of a ledger stream are made anew.

What there is comes from the journal, what was made from Dagster: a stream needs a run when its last
sequence is higher than the one that its balances are of, or when it has no balances yet. A run that
fails is tried again from where it stands, with growing pauses, however far the stream goes on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from amends_pipeline.flows.automation import (
    Attempts,
    Concern,
    Decision,
    Skip,
    Urgency,
    asked,
    tried,
)

BULK_JOURNALS = 100_000
"""A run over so many journals takes a while."""


@dataclass(frozen=True, slots=True)
class Followed:
    """A ledger stream when a sensor looks at it."""

    subject: str
    """Its name."""
    last_sequence: int
    """Of the last committed journal; 0 before the first."""
    made_through: int | None = None
    """The head's sequence that its balances are of; None when there are none."""
    running: str | None = None
    """The unfinished run of the stream, in words, if there is one."""
    attempts: Attempts | None = None
    """Runs from the place where it stands, if there were any."""


def plan_streams(cases: Iterable[Followed], now: int) -> list[Decision]:
    """Decide for each stream whether a run must make its balances anew."""
    return [_plan_stream(each, now) for each in cases]


def _plan_stream(stream: Followed, now: int) -> Decision:
    subject, last, made = stream.subject, stream.last_sequence, stream.made_through
    if "..." in subject:
        # Dagster reads it as a range of partitions.
        return Skip(subject, "no partition can have this name", Concern.STUCK)
    if made is not None and made >= last:
        return Skip(subject, f"made through sequence {made}")
    if stream.running is not None:
        return Skip(subject, f"{stream.running} is not finished", Concern.WAITING)
    place = f"{subject}@{'nothing' if made is None else made}"
    request = asked(subject, place, f"{place}->{last}", stream.attempts)
    bulk = last >= BULK_JOURNALS
    request = request._replace(urgency=Urgency.USUAL if bulk else Urgency.SMALL, bulk=bulk)
    where = "from the beginning" if made is None else f"from sequence {made}"
    return tried(request, where, stream.attempts, now)
