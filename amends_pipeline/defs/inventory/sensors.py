"""Sensors: they look every few seconds, ask for runs, and say why not where they ask for none.

What they decide is in `flows.automation`, as tables of cases. What they know is what the ledger and
Dagster know; a cursor tells people the same, and keeps a source end from being reported twice.
"""

import json
import os
import re
import time
from collections.abc import Iterable, Mapping
from functools import partial

import dagster as dg

from amends_pipeline.defs.catalog import SOURCE_LOG
from amends_pipeline.defs.inventory.checks import EVERY_UNIT_IS_VERIFIED
from amends_pipeline.defs.inventory.landing import SOURCE_TAG, land_files, landing_root
from amends_pipeline.defs.inventory.looking import (
    SLOW_TICK_SECONDS,
    TICK_SECONDS,
    Looked,
    answer,
    clearly,
    decided,
)
from amends_pipeline.defs.inventory.runs import tags_of
from amends_pipeline.defs.inventory.verification import (
    evaluation,
    latest_materialization,
    left_undone,
    roll_up,
)
from amends_pipeline.defs.jobs import PARTITION_TAG, REFOLD, VERIFY
from amends_pipeline.defs.partitions import (
    NAMESPACE,
    NAMESPACES,
    SOURCE_PARTITION,
    SOURCE_PARTITIONS,
    source_partition_key,
    unit_key,
    unit_of,
)
from amends_pipeline.defs.resources import LedgerResource
from amends_pipeline.flows.accept import settled_verdicts
from amends_pipeline.flows.automation import (
    RECHECK_SECONDS,
    VERIFY_INTERVAL_SECONDS,
    Concern,
    Decision,
    Landing,
    Request,
    Situation,
    Skip,
    concerns,
    plan_landings,
    plan_runs,
    plan_verdicts,
    requests,
)
from amends_pipeline.flows.landing import look
from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import InputError
from amends_pipeline.ports import UnitStanding

INTERVAL_VARIABLE = "AMENDS_VERIFY_INTERVAL_SECONDS"
RECHECK_VARIABLE = "AMENDS_RECHECK_INTERVAL_SECONDS"
KEPT_REASONS = 50
"""Reasons that a cursor shows."""

_NAMESPACE = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


# --- new records


@dg.sensor(
    name="new_records",
    description=(
        "Asks, every 4 to 5 s, for a run of each unit whose source has records that it has not"
        " processed, or whose readers lack something that it decided: one run of a unit at a time,"
        " a failed one again after 5, 10, 20 s and so on, at most 5 min. Makes new namespaces"
        " partitions, and forgets removed ones."
    ),
    job_name=REFOLD.name,
    minimum_interval_seconds=TICK_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def new_records(context: dg.SensorEvaluationContext, ledger: LedgerResource) -> Looked:
    """Compare committed frontiers with source ends."""
    return clearly(context, partial(_look_for_records, context, ledger))


def _look_for_records(context: dg.SensorEvaluationContext, ledger: LedgerResource) -> Looked:
    with ledger.open() as opened:
        standings = opened.store.standing()
    units = _partitioned(standings)
    situations = [Situation(each) for each in units]
    decisions = [
        *decided(context.instance, situations, PARTITION_TAG, plan_runs),
        *_misnamed(standings),
    ]
    return answer(
        context,
        decisions,
        [_run_of_unit(each) for each in requests(decisions)],
        "Every unit is caught up, or does not follow its source.",
        cursor=_cursor(units, decisions),
        dynamic_partitions_requests=[
            *_new_partitions(context.instance, units),
            *_removed_namespaces(context.instance, units),
        ],
        asset_events=_moved(units, _reported(context.cursor)),
    )


def _run_of_unit(request: Request) -> dg.RunRequest:
    key = unit_key(unit_of(request.subject))
    return dg.RunRequest(request.run_key, partition_key=key, tags=tags_of(request))


def _partitioned(standings: Iterable[UnitStanding]) -> list[UnitStanding]:
    """Leave out what Dagster would take for a partition, and then not find again."""
    return [each for each in standings if _NAMESPACE.fullmatch(each.unit.namespace)]


def _misnamed(standings: Iterable[UnitStanding]) -> list[Skip]:
    return [
        Skip(shown(each.unit.namespace), "no partition can have this name", Concern.STUCK)
        for each in standings
        if not _NAMESPACE.fullmatch(each.unit.namespace)
    ]


def _new_partitions(
    instance: dg.DagsterInstance, standings: Iterable[UnitStanding]
) -> list[dg.AddDynamicPartitionsRequest]:
    """Add what the ledger has and Dagster lacks: a run of a unit that it lacks fails the tick."""
    units = [each.unit for each in standings]
    numbers = {unit.partition for unit in units}
    wanted = (
        (NAMESPACE, NAMESPACES, sorted({unit.namespace for unit in units})),
        (SOURCE_PARTITION, SOURCE_PARTITIONS, [source_partition_key(n) for n in sorted(numbers)]),
    )
    asked = []
    for name, definition, keys in wanted:
        there = set(instance.get_dynamic_partitions(name))
        missing = [key for key in keys if key not in there]
        if missing:
            asked.append(definition.build_add_request(missing))
    return asked


def _removed_namespaces(
    instance: dg.DagsterInstance, standings: Iterable[UnitStanding]
) -> list[dg.DeleteDynamicPartitionsRequest]:
    """Forget namespaces that the ledger does not have."""
    there = {each.unit.namespace for each in standings}
    removed = sorted(set(instance.get_dynamic_partitions(NAMESPACE)) - there)
    return [NAMESPACES.build_delete_request(removed)] if removed else []


# What stands at the asset of the source log

Ends = Mapping[str, Mapping[str, int]]
"""Source ends by source, then by the key of the partition."""


def _moved(standings: Iterable[UnitStanding], reported: Ends) -> list[dg.AssetMaterialization]:
    """Report each partition whose end is not the one that was reported last."""
    events = {}
    for each in standings:
        key = source_partition_key(each.unit.partition)
        before = reported.get(each.source, {}).get(key, 0)
        if each.extent is None or each.extent.end == before:
            continue
        start, end = each.extent
        events[each.source, key] = dg.AssetMaterialization(
            SOURCE_LOG.key,
            description=f"Source {each.source} ends at offset {end}.",
            partition=key,
            metadata={
                "source": each.source,
                "source_start_offset": start,
                "source_end_offset": end,
                "appended_offsets": max(0, end - before),
            },
            tags={"dagster/data_version": f"{each.source}@{end}"},
        )
    return list(events.values())


def _cursor(standings: Iterable[UnitStanding], decisions: Iterable[Decision]) -> str:
    ends: dict[str, dict[str, int]] = {}
    for each in standings:
        if each.extent is not None:
            key = source_partition_key(each.unit.partition)
            ends.setdefault(each.source, {})[key] = each.extent.end
    waiting = {each.subject: each.reason for each in concerns(decisions)[:KEPT_REASONS]}
    return json.dumps({"source_ends": ends, "waiting": waiting})


def _reported(cursor: str | None) -> Ends:
    """What the cursor says was reported. People may edit it: then some ends are reported again."""
    try:
        ends = json.loads(cursor or "{}")["source_ends"]
        return {
            str(source): {str(key): int(end) for key, end in partitions.items()}
            for source, partitions in ends.items()
        }
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}


# --- verdicts


@dg.sensor(
    name="stale_verdicts",
    description=(
        "Asks, every 9 to 10 s, for a verification of each unit that has caught up with its source,"
        " or was backfilled, and whose verdict is about an earlier boundary and older than"
        f" {VERIFY_INTERVAL_SECONDS} s, or {INTERVAL_VARIABLE}. Judges a unit again, too, whose"
        f" verdict has stood for {RECHECK_SECONDS} s, or {RECHECK_VARIABLE}; there, 0 is never."
        " Rolls up all verdicts after a run that failed before it did."
    ),
    job_name=VERIFY.name,
    minimum_interval_seconds=SLOW_TICK_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def stale_verdicts(context: dg.SensorEvaluationContext, ledger: LedgerResource) -> Looked:
    """Compare the boundaries of verdicts with where units stand. In between, a verdict stands."""
    return clearly(context, partial(_look_at_verdicts, context, ledger))


def _look_at_verdicts(context: dg.SensorEvaluationContext, ledger: LedgerResource) -> Looked:
    interval = _seconds(INTERVAL_VARIABLE, VERIFY_INTERVAL_SECONDS)
    recheck = _seconds(RECHECK_VARIABLE, RECHECK_SECONDS)
    with ledger.open() as opened:
        verdicts = settled_verdicts(opened)
        units = _partitioned(opened.store.standing())
    situations = [Situation(each, verdict=verdicts.get(each.unit)) for each in units]
    plan = partial(plan_verdicts, interval_seconds=interval, recheck_seconds=recheck)
    decisions = decided(context.instance, situations, PARTITION_TAG, plan)
    return answer(
        context,
        decisions,
        [_run_of_unit(each) for each in requests(decisions)],
        "The verdict of every unit is about where it stands.",
        dynamic_partitions_requests=_new_partitions(context.instance, units),
        asset_events=_rolled_up_again(context, ledger),
    )


def _rolled_up_again(
    context: dg.SensorEvaluationContext, ledger: LedgerResource
) -> list[dg.AssetCheckEvaluation]:
    """Roll up in place of a run that ended before it did: the badge would say no more than that."""
    if not left_undone(context.instance, EVERY_UNIT_IS_VERIFIED):
        return []
    result = roll_up(ledger, context.instance, context.log)
    target = latest_materialization(context.instance, EVERY_UNIT_IS_VERIFIED)
    return [evaluation(result, EVERY_UNIT_IS_VERIFIED, target=target)]


def _seconds(variable: str, default: int) -> int:
    text = os.environ.get(variable, str(default))
    if not re.fullmatch(r"[0-9]{1,9}", text):
        expected = "a whole number of seconds, at most nine digits"
        raise InputError(variable, expected=expected, found=shown(text))
    return int(text)


# --- landing folders


@dg.sensor(
    name="landed_files",
    description=(
        "Looks, every 4 to 5 s, into the folder landing of AMENDS_HOME, which has a folder for each"
        " source, and asks for a run where a .jsonl or .csv file has not changed for 2 s."
    ),
    job_name=land_files.name,
    minimum_interval_seconds=TICK_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def landed_files(context: dg.SensorEvaluationContext, ledger: LedgerResource) -> Looked:
    """Only look: a file may be large, and a tick must be short."""
    return clearly(context, partial(_look_at_folders, context, ledger))


def _look_at_folders(context: dg.SensorEvaluationContext, ledger: LedgerResource) -> Looked:
    root = landing_root(ledger)
    folders = look(root, _nanoseconds_now())
    if not folders:
        return dg.SkipReason(f"No source has a folder in {shown(str(root))}.")
    with ledger.open() as opened:
        sources = {each.source for each in opened.store.standing()}
    landings = [Landing(each, known=each.source in sources) for each in folders]
    decisions = decided(context.instance, landings, SOURCE_TAG, plan_landings)
    return answer(
        context,
        decisions,
        [
            dg.RunRequest(
                each.run_key,
                run_config={"ops": {"land": {"config": {"source": each.subject}}}},
                tags={SOURCE_TAG: each.subject, **tags_of(each)},
            )
            for each in requests(decisions)
        ],
        "No file waits in a landing folder.",
    )


def _nanoseconds_now() -> int:
    return time.time_ns()
