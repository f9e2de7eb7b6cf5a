"""Review: what is known of every unit, the worst first.

Units are those of the ledger: all namespaces times their partitions, whether anybody judged them
or not. A verdict stands until the next one; how far the source has gone on since is told beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple

from amends_pipeline.flows.accept import standing_verdicts
from amends_pipeline.kernel.verdict import Status
from amends_pipeline.ports import Ledger, Unit, UnitStanding, Verdict


class Concern(IntEnum):
    """How much a unit asks for a person's attention, from the most on."""

    WRONG = 0
    """DRIFT, or ERROR: what readers see is wrong, or nobody can tell."""
    DOUBTFUL = 1
    """BLOCKED, INCOMPLETE, exclusions that nobody accepted, never judged, or stuck."""
    NONE = 2
    """A verdict stands, and it is accepted."""


_ORDER = {
    str(status): at
    for at, status in enumerate(
        (
            Status.ERROR,
            Status.DRIFT,
            Status.BLOCKED,
            Status.INCOMPLETE,
            Status.PASS_WITH_EXCLUSIONS,
            Status.PASS,
        )
    )
}


class Reviewed(NamedTuple):
    """A unit, and the verdict that stands for it."""

    standing: UnitStanding
    verdict: Verdict | None
    failing: str | None = None
    """Why its runs get no further, when the last one that tried failed."""

    @property
    def unit(self) -> Unit:
        """Which one."""
        return self.standing.unit

    @property
    def follows(self) -> bool:
        """Whether its namespace follows its source: only such units count."""
        return self.standing.follows

    @property
    def behind(self) -> int:
        """Source offsets since the boundary of the verdict, or since the unit's first offset."""
        extent = self.standing.extent
        since = self.standing.first_offset if self.verdict is None else self.verdict.source_end
        return 0 if extent is None else max(0, extent.end - since)

    @property
    def concern(self) -> Concern:
        """How much attention it asks for."""
        if self.verdict is None:
            return Concern.DOUBTFUL
        if self.verdict.status in {Status.DRIFT, Status.ERROR}:
            return Concern.WRONG
        if self.failing is not None:
            return Concern.DOUBTFUL
        # A verdict about another log of the same name is about nothing that is there.
        return Concern.NONE if self.verdict.accepted and self.standing.bound else Concern.DOUBTFUL


def review(
    ledger: Ledger,
    failing: Callable[[Sequence[UnitStanding]], Mapping[Unit, str]] = lambda _: {},
) -> Sequence[Reviewed]:
    """Look at all units. Raises DatabaseUnavailable, InputError.

    failing: tells of units that are behind why their runs get no further; whoever starts the runs
    knows that.
    """
    # Verdicts first: a unit that is judged in between is then told by its older verdict.
    verdicts = standing_verdicts(ledger)
    standings = ledger.store.standing()
    return reviewed(standings, verdicts, failing([each for each in standings if each.behind]))


def reviewed(
    standings: Sequence[UnitStanding],
    verdicts: Mapping[Unit, Verdict],
    failing: Mapping[Unit, str] = MappingProxyType({}),
) -> Sequence[Reviewed]:
    """Put units and verdicts together: those that count first, then the worst, then by name."""
    return sorted(
        (Reviewed(each, verdicts.get(each.unit), failing.get(each.unit)) for each in standings),
        key=lambda each: (
            not each.follows,
            each.concern,
            _ORDER.get(each.verdict.status, 0) if each.verdict else _ORDER[Status.INCOMPLETE],
            each.unit,
        ),
    )
