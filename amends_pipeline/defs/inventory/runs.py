"""What runs of Dagster there were, as plain values for `flows.automation`, and how to ask for one.

A run that a sensor asks for carries, as tags, the place that it starts from and the number of the
attempt: so the next look needs no memory but Dagster's own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import dagster as dg

from amends_pipeline.flows.automation import Attempts, Request, backoff_seconds, place_of
from amends_pipeline.kernel.display import escape_terminal
from amends_pipeline.ports import Unit, UnitStanding
from amends_pipeline.store.server import redact

if TYPE_CHECKING:
    from dagster._core.storage.dagster_run import RunRecord

PLACE_TAG = ".dagster/amends_place"
"""Dagster keeps tags with this prefix from people: lists of runs would be full of them."""
ATTEMPT_TAG = "amends/attempt"
BULK_TAG = "amends/bulk"
"""Limited in dagster.yaml, so that a place is left for small runs."""
PRIORITY_TAG = "dagster/priority"
LOOKED_AT_RUNS = 4
"""Runs of a place that one query looks at, on average."""
TOLD_ERRORS = 10
"""Errors that one tick looks up."""
SHOWN_CHARACTERS = 300
"""Characters of an error that a sentence about it quotes."""

UNFINISHED = (
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
)


def tags_of(request: Request) -> Mapping[str, str]:
    """The tags by which a later look knows the run again, and by which the queue is ordered."""
    tags = {PLACE_TAG: request.place}
    if request.attempt:
        tags[ATTEMPT_TAG] = str(request.attempt)
    if request.urgency:
        tags[PRIORITY_TAG] = str(int(request.urgency))
    if request.bulk:
        tags[BULK_TAG] = "yes"
    return tags


def unfinished(
    instance: dg.DagsterInstance, tag: str, values: Collection[str]
) -> Mapping[str, str]:
    """Name, in words, an unfinished run for each value of a tag that has one."""
    if not values:
        return {}
    filters = dg.RunsFilter(tags={tag: list(values)}, statuses=list(UNFINISHED))
    return {
        run.tags[tag]: f"run {run.run_id[:8]} ({run.status.value})"
        for run in instance.get_runs(filters)
    }


def attempts(
    instance: dg.DagsterInstance, places: Collection[str], now: int
) -> Mapping[str, Attempts]:
    """What became of the runs from each place that had any; `now` in seconds since 1970."""
    latest = _latest(instance, places)
    told = 0
    found: dict[str, Attempts] = {}
    for place, record in latest.items():
        number = record.dagster_run.tags.get(ATTEMPT_TAG, "")
        made = int(number) + 1 if number.isdecimal() else 1
        ended_at = int(record.end_time or record.update_timestamp.timestamp())
        # An error costs a look of its own, and is told only while the next attempt waits.
        waits = now < ended_at + backoff_seconds(made) and told < TOLD_ERRORS
        told += waits
        run_id = record.dagster_run.run_id
        ending = _ending(instance, record.dagster_run) if waits else f"run {run_id[:8]}"
        succeeded = record.dagster_run.status is dg.DagsterRunStatus.SUCCESS
        found[place] = Attempts(made, ended_at, ending, succeeded)
    return found


def failing(instance: dg.DagsterInstance, standings: Sequence[UnitStanding]) -> Mapping[Unit, str]:
    """Why the runs of units that are behind get no further, where they failed."""
    units = {place_of(each): each.unit for each in standings if each.follows}
    found = {}
    for place, record in _latest(instance, units).items():
        run = record.dagster_run
        number = run.tags.get(ATTEMPT_TAG, "0")
        failed = int(number) if number.isdecimal() else 0
        failed += run.status is dg.DagsterRunStatus.FAILURE
        if failed:
            runs = "1 run" if failed == 1 else f"{failed} runs"
            found[units[place]] = f"{runs} failed there, {_ending(instance, run)}"
    return found


def _latest(instance: dg.DagsterInstance, places: Collection[str]) -> Mapping[str, RunRecord]:
    """The latest run from each place."""
    if not places:
        return {}
    limit = LOOKED_AT_RUNS * len(places)
    records = _records(instance, list(places), limit)
    latest: dict[str, RunRecord] = {}
    for record in records:
        latest.setdefault(record.dagster_run.tags[PLACE_TAG], record)
    if len(records) == limit:  # some places with many runs may have hidden others
        for place in set(places) - latest.keys():
            latest.update(zip([place], _records(instance, [place], 1), strict=False))
    return latest


def _records(
    instance: dg.DagsterInstance, places: Sequence[str], limit: int
) -> Sequence[RunRecord]:
    """Runs from some places, the latest first."""
    return instance.get_run_records(dg.RunsFilter(tags={PLACE_TAG: list(places)}), limit=limit)


def _ending(instance: dg.DagsterInstance, run: dg.DagsterRun) -> str:
    """Say how a run ended."""
    if run.status is dg.DagsterRunStatus.FAILURE:
        text = _error(instance, run.run_id)
        return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."
    if run.status is dg.DagsterRunStatus.CANCELED:
        return "somebody cancelled it"
    if run.status in UNFINISHED:
        return "and another one is trying"
    return f"status {run.status.value}, and what was to be done is still there"


def _error(instance: dg.DagsterInstance, run_id: str) -> str:
    """Why a run failed: its first failed step says it best, or the check that ended the step."""
    for kind in (
        dg.DagsterEventType.ASSET_CHECK_EVALUATION,
        dg.DagsterEventType.STEP_FAILURE,
        dg.DagsterEventType.RUN_FAILURE,
    ):
        for record in instance.get_records_for_run(run_id, of_type=kind).records:
            told = _told(record.event_log_entry.dagster_event)
            if told:
                return redact(escape_terminal(told))
    return "no error was kept"


def _told(event: dg.DagsterEvent | None) -> str | None:
    if event is None:
        return None
    data = event.event_specific_data
    if isinstance(data, dg.AssetCheckEvaluation):
        ended = data.blocking and not data.passed and data.severity is dg.AssetCheckSeverity.ERROR
        says = (data.description or "").removesuffix(".")  # a sentence goes on after it
        return f"{data.check_name}: {says}" if ended else None
    failure = getattr(data, "user_failure_data", None)
    if failure is not None and failure.description:
        return str(failure.description)
    error = getattr(data, "error", None)
    return str(error.message).strip() if error is not None else event.message
