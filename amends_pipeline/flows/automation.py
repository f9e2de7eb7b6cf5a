"""Automation: which runs to ask for, and why not for others, decided from plain values.

What stands in the ledger, which runs there were and what time it is go in; one decision for each
unit or landing folder comes out. Nothing is remembered from one look to the next: what was asked
for before is told by the runs that came of it.

Dagster takes a run key once, whatever becomes of the run. So a key names the place that a run
starts from and counts the attempts there: a run that failed does not burn the key of the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from amends_pipeline.flows.landing import Seen
from amends_pipeline.kernel.display import escape_terminal, shown
from amends_pipeline.ports import UnitStanding

RETRY_SECONDS = 5
LONGEST_RETRY_SECONDS = 300
VERIFY_INTERVAL_SECONDS = 60
"""How old a verdict gets before another one is asked for, unless somebody says otherwise."""
REQUESTS_AT_ONCE = 100
"""Runs that one look asks for; the next look asks for more."""
NAMED = 10
"""Subjects that a summary names one by one."""


class Attempts(NamedTuple):
    """Finished runs that started from one place. They did not help: the work is still there."""

    count: int
    ended_at: int
    """When the last one ended, in seconds since 1970."""
    error: str
    """Why the last one failed."""


class Judged(NamedTuple):
    """What is known of the verdict that stands for a unit."""

    status: str
    source_end: int
    output_end: int
    judged_at: int
    """In seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Situation:
    """A unit when a sensor looks at it."""

    standing: UnitStanding
    running: str | None = None
    """The unfinished run of the unit, in words, if there is one."""
    attempts: Attempts | None = None
    """Runs from the place where it stands, if there were any."""
    judged: Judged | None = None


@dataclass(frozen=True, slots=True)
class Landing:
    """The landing folder of a source when a sensor looks at it."""

    seen: Seen
    known: bool
    """Whether a namespace has a source of that name."""
    running: str | None = None
    attempts: Attempts | None = None


class Request(NamedTuple):
    """A run to ask for."""

    subject: str
    """The unit or the source that it is about."""
    place: str
    """What it starts from; earlier runs from the same place are its earlier attempts."""
    attempt: int
    run_key: str


class Skip(NamedTuple):
    """Why no run is asked for."""

    subject: str
    reason: str
    stuck: bool = False
    """Whether there is work that does not get done: people hear of it first."""


Decision = Request | Skip


def backoff_seconds(attempts: int) -> int:
    """How long the next attempt waits: 5 s after the first one, then twice as long each time."""
    doublings = min(attempts - 1, 6)
    return min(LONGEST_RETRY_SECONDS, RETRY_SECONDS << doublings) if attempts > 0 else 0


def plan_runs(situations: Iterable[Situation], now: int) -> list[Decision]:
    """Decide for each unit whether a run must process its new records."""
    return [_plan_run(each, now) for each in situations]


def plan_verdicts(
    situations: Iterable[Situation], now: int, interval_seconds: int = VERIFY_INTERVAL_SECONDS
) -> list[Decision]:
    """Decide for each unit whether a run must verify it."""
    return [_plan_verdict(each, now, interval_seconds) for each in situations]


def plan_landings(landings: Iterable[Landing], now: int) -> list[Decision]:
    """Decide for each landing folder whether a run must append its files."""
    return [_plan_landing(each, now) for each in landings]


# --- new records


def _plan_run(situation: Situation, now: int) -> Decision:
    standing = situation.standing
    unit, offset = str(standing.unit), standing.progress.next_offset
    if not standing.follows:
        return Skip(unit, "its namespace does not follow the source")
    if situation.running is not None:
        return Skip(unit, f"{situation.running} is not finished")
    broken = _broken(standing)
    if broken is not None:
        return Skip(unit, broken, stuck=True)
    if not standing.behind:
        return Skip(unit, f"caught up at source offset {offset}")
    if standing.holder is not None:
        return Skip(unit, f"held by {shown(standing.holder)}")
    end = offset if standing.extent is None else standing.extent.end
    place = f"{unit}@{offset}"
    return _tried(unit, place, f"{place}->{end}", situation.attempts, now)


def _broken(standing: UnitStanding) -> str | None:
    """Say why no run could succeed before a person has seen to the source."""
    extent, offset = standing.extent, standing.progress.next_offset
    if extent is None:
        return f"expected a log of source {shown(standing.source)}, found none"
    if not standing.bound:
        return (
            f"expected the log of source {shown(standing.source)} that the namespace was bound to,"
            " found another one of that name"
        )
    if not extent.start <= offset <= extent.end:
        return (
            f"expected source offset {offset} to come next,"
            f" found a source that holds {extent.start} to {extent.end}"
        )
    return None


# --- verdicts


def _plan_verdict(situation: Situation, now: int, interval_seconds: int) -> Decision:
    standing, judged = situation.standing, situation.judged
    unit, extent = str(standing.unit), standing.extent
    if situation.running is not None:
        return Skip(unit, f"{situation.running} is not finished")
    if extent is None or _broken(standing) is not None or standing.behind:
        return Skip(unit, "not caught up with its source")
    if judged is not None:
        at_boundary = (judged.source_end, judged.output_end) == (extent.end, standing.output_end)
        if at_boundary and judged.status != "INCOMPLETE":
            return Skip(unit, f"{judged.status} stands at source offset {judged.source_end}")
        left = judged.judged_at + interval_seconds - now
        if left > 0:
            return Skip(unit, f"the last verdict is younger than {interval_seconds} s, by {left} s")
    place = f"{unit}@{extent.end}/{standing.output_end}"
    return _tried(unit, place, f"{place} verified", situation.attempts, now)


# --- landing folders


def _plan_landing(landing: Landing, now: int) -> Decision:
    seen = landing.seen
    subject = seen.source
    if not landing.known:
        reason = "no namespace has a source of that name; nothing is taken from the folder"
        return Skip(subject, reason, stuck=True)
    if landing.running is not None:
        return Skip(subject, f"{landing.running} is not finished")
    if not seen.whole:
        return Skip(subject, seen.waits or "no file is there")
    place = f"{subject}@{seen.fingerprint}"
    return _tried(subject, place, place, landing.attempts, now)


# --- what all three share


def _tried(
    subject: str, place: str, key: str, attempts: Attempts | None, now: int
) -> Request | Skip:
    """Ask for the next attempt, unless the last one is too recent."""
    if attempts is None:
        return Request(subject, place, 0, f"{key}#0")
    again = attempts.ended_at + backoff_seconds(attempts.count)
    if now < again:
        tries = "1 attempt" if attempts.count == 1 else f"{attempts.count} attempts"
        reason = (
            f"{tries} from {place.removeprefix(f'{subject}@')}, the last one ended with:"
            f" {attempts.error}; tried again at {_clock(again)}, in {again - now} s"
        )
        return Skip(subject, reason, stuck=True)
    return Request(subject, place, attempts.count, f"{key}#{attempts.count}")


def requests(decisions: Iterable[Decision]) -> list[Request]:
    """The runs to ask for now. Those that asked in vain may not keep others from their turn."""
    asked = [each for each in decisions if isinstance(each, Request)]
    return sorted(asked, key=lambda each: each.attempt)[:REQUESTS_AT_ONCE]


def stuck(decisions: Iterable[Decision]) -> list[Skip]:
    """Whatever people should hear of."""
    return [each for each in decisions if isinstance(each, Skip) and each.stuck]


def summary(decisions: Sequence[Decision], nothing: str) -> str:
    """Say why nothing is asked for: what is stuck, then what waits; `nothing` where all is well."""
    skips = [each for each in decisions if isinstance(each, Skip)]
    told = sorted(skips, key=lambda each: not each.stuck)
    sentences = [f"{escape_terminal(each.subject)}: {each.reason}." for each in told[:NAMED]]
    more = len(told) - NAMED
    return " ".join([*sentences, *([f"And {more} more."] if more > 0 else [])]) or nothing


def _clock(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
