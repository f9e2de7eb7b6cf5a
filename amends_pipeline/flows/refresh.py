"""Refresh: when files that are derived from what readers have are made anew.

One run makes the files of all units that moved. It waits until readers' rows stand still for the
time between two looks, but not for ever, and the queue takes it last: it competes with no
correction.
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
from amends_pipeline.kernel.canonical import sha256_hex
from amends_pipeline.ports import UnitStanding

LONGEST_WAIT_SECONDS = 60
"""After so long the files are made anew though readers' rows have not come to rest."""
FINGERPRINT_LENGTH = 16


def fingerprint(standings: Iterable[UnitStanding]) -> str:
    """Tell what readers of the namespaces that follow have from what they had at other times."""
    views = sorted((each.unit, each.progress.view_next) for each in standings if each.follows)
    return sha256_hex(repr(views).encode())[:FINGERPRINT_LENGTH]


@dataclass(frozen=True, slots=True)
class Derived:
    """Files of one kind when a sensor looks at them."""

    subject: str
    """What they are, as a decision names it."""
    views: str
    """The fingerprint of what readers have."""
    views_before: str | None = None
    """The one of the last look; None when nobody looked."""
    made_from: str | None = None
    """The one that the files are known to be made from; None when that has to be asked."""
    waiting_since: int | None = None
    """When they were first found to be out of date, in seconds since 1970."""
    running: str | None = None
    attempts: Attempts | None = None
    """Runs that were asked for when readers had what they have now."""


def plan_refreshes(cases: Iterable[Derived], now: int) -> list[Decision]:
    """Decide for each kind of files whether a run must make them anew."""
    return [_plan_refresh(each, now) for each in cases]


def _plan_refresh(derived: Derived, now: int) -> Decision:
    subject, views, attempts = derived.subject, derived.views, derived.attempts
    if derived.made_from == views or (attempts is not None and attempts.succeeded):
        return Skip(subject, "made from what readers have now")
    if derived.running is not None:
        return Skip(subject, f"{derived.running} is not finished", Concern.WAITING)
    waited = 0 if derived.waiting_since is None else now - derived.waiting_since
    if views != derived.views_before and waited < LONGEST_WAIT_SECONDS:
        return Skip(subject, "what readers have is changing", Concern.WAITING)
    place = f"{subject}@{views}"
    request = asked(subject, place, place, attempts)._replace(urgency=Urgency.RECHECK)
    return tried(request, "to make the files anew", attempts, now)
