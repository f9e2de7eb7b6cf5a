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
from enum import IntEnum
from typing import NamedTuple

from amends_pipeline.flows.landing import Seen
from amends_pipeline.kernel.display import escape_terminal, shown
from amends_pipeline.ports import UnitStanding, Verdict

RETRY_SECONDS = 5
LONGEST_RETRY_SECONDS = 300
VERIFY_INTERVAL_SECONDS = 60
"""How old a verdict gets before another one is asked for, unless somebody says otherwise."""
OVERDUE_INTERVALS = 10
"""After so many a unit is verified even if it has not caught up."""
RECHECK_SECONDS = 600
"""How old a verdict gets, at which nothing was processed since, before the unit is judged again."""
RECHECKS_AT_ONCE = 2
"""Units that are judged again at a time, however many are due."""
BULK_OFFSETS = 100_000
"""A run with so many source offsets before it takes a while."""
REQUESTS_AT_ONCE = 100
"""Runs that one look asks for; the next look asks for more."""
NO_VERDICT = frozenset({"INCOMPLETE", "ERROR"})
"""Statuses that say that nothing was judged: such a unit is verified again where it stands."""
NAMED = 10
"""Subjects that a summary names one by one."""


class Attempts(NamedTuple):
    """Finished runs that started from one place."""

    made: int
    ended_at: int
    """When the last one ended, in seconds since 1970."""
    error: str
    """Why the last one did not help, where the work is still there."""
    succeeded: bool = False
    """Whether the last one did."""


@dataclass(frozen=True, slots=True)
class Situation:
    """A unit when a sensor looks at it."""

    standing: UnitStanding
    running: str | None = None
    """The unfinished run of the unit, in words, if there is one."""
    attempts: Attempts | None = None
    """Runs from the place where it stands, if there were any."""
    verdict: Verdict | None = None
    """The one that stands."""

    @property
    def subject(self) -> str:
        """The unit, as a decision names it."""
        return str(self.standing.unit)


@dataclass(frozen=True, slots=True)
class Landing:
    """The landing folder of a source when a sensor looks at it."""

    seen: Seen
    known: bool
    """Whether a namespace has a source of that name."""
    running: str | None = None
    attempts: Attempts | None = None

    @property
    def subject(self) -> str:
        """The source, as a decision names it."""
        return self.seen.source


class Urgency(IntEnum):
    """Which of the runs that wait begins first. What people launch is USUAL."""

    SMALL = 1
    """Few records to process: readers wait for a correction, and it is soon done."""
    USUAL = 0
    VERDICT = -1
    """Of what was processed."""
    RECHECK = -2
    """Of what was judged before, or derived from what readers have."""


class Request(NamedTuple):
    """A run to ask for."""

    subject: str
    """The unit or the source that it is about."""
    place: str
    """What it starts from; earlier runs from the same place are its earlier attempts."""
    attempt: int
    run_key: str
    urgency: Urgency = Urgency.USUAL
    bulk: bool = False
    """Whether it takes a while: such runs together may not take all places."""


class Concern(IntEnum):
    """How much people need to hear of it."""

    NONE = 0
    """Nothing is left to do."""
    WAITING = 1
    """The work gets done later, by itself."""
    STUCK = 2
    """There is work that does not get done."""


class Skip(NamedTuple):
    """Why no run is asked for."""

    subject: str
    reason: str
    concern: Concern = Concern.NONE


Decision = Request | Skip


def backoff_seconds(attempts: int) -> int:
    """How long the next attempt waits: 5 s after the first one, then twice as long each time."""
    doublings = min(attempts - 1, 6)
    return min(LONGEST_RETRY_SECONDS, RETRY_SECONDS << doublings) if attempts > 0 else 0


def plan_runs(situations: Iterable[Situation], now: int) -> list[Decision]:
    """Decide for each unit whether a run must process its new records."""
    return [_plan_run(each, now) for each in situations]


def plan_verdicts(
    situations: Iterable[Situation],
    now: int,
    interval_seconds: int = VERIFY_INTERVAL_SECONDS,
    recheck_seconds: int = RECHECK_SECONDS,
) -> list[Decision]:
    """Decide for each unit whether a run must verify it.

    recheck_seconds: how old the verdict on an idle unit gets; 0 says that it stands for ever.
    """
    cases = list(situations)
    due = [each for each in cases if _due_again(each, now, recheck_seconds)]
    due.sort(key=lambda each: each.verdict.judged_at if each.verdict else "")
    turns = {each.subject for each in due[:RECHECKS_AT_ONCE]}
    return [
        _judge_again(each, now)
        if each.subject in turns
        else _plan_verdict(each, now, interval_seconds)
        for each in cases
    ]


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
        return Skip(unit, f"{situation.running} is not finished", Concern.WAITING)
    broken = _broken(standing)
    if broken is not None:
        return Skip(unit, broken, Concern.STUCK)
    if not standing.behind:
        return Skip(unit, f"caught up at source offset {offset}")
    if standing.holder is not None:
        return Skip(unit, f"held by {shown(standing.holder)}", Concern.WAITING)
    end = offset if standing.extent is None else standing.extent.end
    place = place_of(standing)
    bulk = standing.lag >= BULK_OFFSETS
    urgency = Urgency.USUAL if bulk else Urgency.SMALL
    request = asked(unit, place, f"{place}->{end}", situation.attempts)
    request = request._replace(urgency=urgency, bulk=bulk)
    return tried(request, f"from source offset {offset}", situation.attempts, now)


def place_of(standing: UnitStanding) -> str:
    """Where a run of the unit would start: what its attempts are counted by."""
    return f"{standing.unit}@{standing.progress.next_offset}"


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
    """A verification judges what was processed: its boundary is where the worker stands."""
    standing, verdict = situation.standing, situation.verdict
    unit, next_offset = str(standing.unit), standing.progress.next_offset
    if situation.running is not None:
        return Skip(unit, f"{situation.running} is not finished", Concern.WAITING)
    why_not = _not_to_judge(standing)
    if why_not is not None:
        return Skip(unit, *why_not)
    if verdict is not None:
        if _stands(verdict, standing):
            return Skip(unit, f"{verdict.status} stands at source offset {next_offset}")
        left = _seconds(verdict.judged_at) + interval_seconds - now
        if left > 0:
            reason = f"to be verified in {left} s, {interval_seconds} s after the last time"
            return Skip(unit, reason, Concern.WAITING)
    if standing.follows and standing.lag and not _overdue(situation, now, interval_seconds):
        return Skip(unit, "not caught up with its source", Concern.WAITING)
    return _verify(situation, now, "", Urgency.VERDICT)


def _judge_again(situation: Situation, now: int) -> Decision:
    """It is the turn of a unit at which nothing was processed since it was judged."""
    if situation.running is not None:
        return Skip(situation.subject, f"{situation.running} is not finished", Concern.WAITING)
    since = "" if situation.verdict is None else f"~{situation.verdict.judged_at}"
    return _verify(situation, now, since, Urgency.RECHECK)


def _verify(situation: Situation, now: int, more: str, urgency: Urgency) -> Decision:
    """Ask for a verification of a unit where it stands; `more` tells it from earlier ones there."""
    standing = situation.standing
    unit, next_offset = str(standing.unit), standing.progress.next_offset
    place = f"{unit}@{next_offset}/{standing.output_end}{more}"
    request = asked(unit, place, f"{place} verified", situation.attempts)
    bulk = next_offset - standing.first_offset >= BULK_OFFSETS
    request = request._replace(urgency=urgency, bulk=bulk)
    return tried(request, f"at source offset {next_offset}", situation.attempts, now)


def _due_again(situation: Situation, now: int, recheck_seconds: int) -> bool:
    """Whether the verdict stands, and has stood for long.

    Readers' rows may be changed behind our back when no record comes that would have them judged.
    """
    standing, verdict = situation.standing, situation.verdict
    if not recheck_seconds or verdict is None or not standing.follows:
        return False
    if standing.progress.view_stop is not None or _not_to_judge(standing) is not None:
        return False
    old = now - _seconds(verdict.judged_at) >= recheck_seconds
    return old and _stands(verdict, standing)


def _not_to_judge(standing: UnitStanding) -> tuple[str, Concern] | None:
    """Say why there is nothing to judge, if so."""
    broken = _broken(standing)
    if broken is not None:
        return broken, Concern.WAITING  # the sensor of new records calls it stuck
    if standing.on_its_way and standing.progress.view_stop is None:
        return "what was decided has not reached the readers", Concern.WAITING
    if not standing.follows and _untouched(standing):
        return "waits for its backfill", Concern.NONE
    return None


def _untouched(standing: UnitStanding) -> bool:
    """Whether there are records and none was processed."""
    return standing.progress.next_offset == standing.first_offset and standing.lag > 0


def _stands(verdict: Verdict, standing: UnitStanding) -> bool:
    """Whether a verdict says all that another one could say."""
    progress = standing.progress
    if (verdict.source_end, verdict.output_end) != (progress.next_offset, standing.output_end):
        return False
    return verdict.status not in NO_VERDICT or progress.view_stop is not None


def _overdue(situation: Situation, now: int, interval_seconds: int) -> bool:
    """Whether a unit to which records never cease to come has waited long enough."""
    verdict = situation.verdict
    if verdict is None:
        return not _untouched(situation.standing)
    if verdict.source_end >= situation.standing.progress.next_offset:
        # It got no further since, so another verdict could only say less than the one that stands.
        return False
    return now - _seconds(verdict.judged_at) >= OVERDUE_INTERVALS * interval_seconds


# --- landing folders


def _plan_landing(landing: Landing, now: int) -> Decision:
    seen = landing.seen
    subject = seen.source
    if not landing.known:
        reason = "no namespace has a source of that name; nothing is taken from the folder"
        return Skip(subject, reason, Concern.STUCK)
    if seen.refused:
        return Skip(subject, seen.refused, Concern.STUCK)
    if landing.running is not None:
        return Skip(subject, f"{landing.running} is not finished", Concern.WAITING)
    if not seen.whole:
        return Skip(subject, seen.waits, Concern.WAITING) if seen.waits else Skip(subject, "empty")
    place = f"{subject}@{seen.fingerprint}"
    request = asked(subject, place, place, landing.attempts)
    files = "1 file" if len(seen.whole) == 1 else f"{len(seen.whole)} files"
    return tried(request, f"to take {files}", landing.attempts, now)


# --- what all share


def asked(subject: str, place: str, key: str, attempts: Attempts | None) -> Request:
    """The next attempt to work on something from where it stands."""
    number = 0 if attempts is None else attempts.made
    return Request(subject, place, number, f"{key}#{number}")


def tried(request: Request, what: str, attempts: Attempts | None, now: int) -> Decision:
    """Ask for the next attempt, unless the last one is too recent."""
    if attempts is None:
        return request
    again = attempts.ended_at + backoff_seconds(attempts.made)
    if now >= again:
        return request
    tries = "1 attempt" if attempts.made == 1 else f"{attempts.made} attempts"
    reason = (
        f"{tries} {what}, the last one ended with: {attempts.error};"
        f" tried again at {_clock(again)}, in {again - now} s"
    )
    return Skip(request.subject, reason, Concern.STUCK)


def requests(decisions: Iterable[Decision]) -> list[Request]:
    """The runs to ask for now. Those that asked in vain may not keep others from their turn."""
    found = [each for each in decisions if isinstance(each, Request)]
    return sorted(found, key=lambda each: each.attempt)[:REQUESTS_AT_ONCE]


def concerns(decisions: Iterable[Decision]) -> list[Skip]:
    """What people should hear of, the most pressing first."""
    skips = [each for each in decisions if isinstance(each, Skip) and each.concern]
    return sorted(skips, key=lambda each: -each.concern)


def told(skips: Sequence[Skip]) -> str:
    """Say in a few sentences why no run is asked for."""
    named = [f"{escape_terminal(each.subject)}: {each.reason}." for each in skips[:NAMED]]
    more = len(skips) - len(named)
    return " ".join([*named, *([f"And {more} more."] if more > 0 else [])])


def _clock(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _seconds(instant: str) -> int:
    """Seconds since 1970 of an instant that we wrote."""
    return int(datetime.fromisoformat(instant).timestamp())
