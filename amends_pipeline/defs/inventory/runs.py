"""What runs of Dagster there were, as plain values for `flows.automation`, and how to ask for one.

A run that a sensor asks for carries, as tags, the place that it starts from and the number of the
attempt: so the next look needs no memory but Dagster's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import dagster as dg

from amends_pipeline.flows.automation import Attempts, Request
from amends_pipeline.kernel.display import escape_terminal
from amends_pipeline.store.server import redact

if TYPE_CHECKING:
    from dagster._core.storage.dagster_run import RunRecord

PLACE_TAG = "amends/place"
ATTEMPT_TAG = "amends/attempt"
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
    """The tags by which a later look knows the run again."""
    return {PLACE_TAG: request.place, ATTEMPT_TAG: str(request.attempt)}


def unfinished(instance: dg.DagsterInstance, tag: str, value: str) -> str | None:
    """Name an unfinished run with a tag, in words; None when there is none."""
    filters = dg.RunsFilter(tags={tag: value}, statuses=list(UNFINISHED))
    found: Sequence[dg.DagsterRun] = instance.get_runs(filters, limit=1)
    return f"run {found[0].run_id[:8]} ({found[0].status.value})" if found else None


def attempts(instance: dg.DagsterInstance, place: str) -> Attempts | None:
    """What became of the runs from a place; None when there were none."""
    found = instance.get_run_records(dg.RunsFilter(tags={PLACE_TAG: place}), limit=1)
    if not found:
        return None
    [record] = found
    number = record.dagster_run.tags.get(ATTEMPT_TAG, "")
    return Attempts(
        int(number) + 1 if number.isdecimal() else 1,
        int(record.end_time or record.update_timestamp.timestamp()),
        _ending(instance, record),
    )


def _ending(instance: dg.DagsterInstance, record: RunRecord) -> str:
    """Say how a run ended."""
    run = record.dagster_run
    if run.status is dg.DagsterRunStatus.FAILURE:
        text = _error(instance, run.run_id)
        return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."
    if run.status is dg.DagsterRunStatus.CANCELED:
        return "somebody cancelled it"
    return f"status {run.status.value}, and what was to be done is still there"


def _error(instance: dg.DagsterInstance, run_id: str) -> str:
    """Why a run failed: its first failed step says it best."""
    for kind in (dg.DagsterEventType.STEP_FAILURE, dg.DagsterEventType.RUN_FAILURE):
        records = instance.get_records_for_run(run_id, of_type=kind, limit=1).records
        for record in records:
            told = _told(record.event_log_entry.dagster_event)
            if told:
                return redact(escape_terminal(told))
    return "no error was kept"


def _told(event: dg.DagsterEvent | None) -> str | None:
    if event is None:
        return None
    data = event.event_specific_data
    failure = getattr(data, "user_failure_data", None)
    if failure is not None and failure.description:
        return str(failure.description)
    error = getattr(data, "error", None)
    return str(error.message).strip() if error is not None else event.message
