"""The asset `open_reorders`, and how its files are kept up to date by themselves.

A sensor compares what readers have with what the files were made from. One run makes all that are
out of date; it has no partition, so that it keeps no correction of a unit waiting.
"""

import json
from functools import partial
from itertools import groupby
from typing import NamedTuple

import dagster as dg

from amends_pipeline.defs.catalog import OPEN_REORDERS
from amends_pipeline.defs.inventory.failure import failing_clearly
from amends_pipeline.defs.inventory.looking import (
    SLOW_TICK_SECONDS,
    Looked,
    answer,
    clearly,
    decided,
    seconds_now,
)
from amends_pipeline.defs.inventory.reorders import Made, make, path_of, version_of
from amends_pipeline.defs.inventory.runs import tags_of
from amends_pipeline.defs.partitions import lacking, unit_key, unit_of
from amends_pipeline.defs.resources import LedgerResource
from amends_pipeline.flows.automation import Concern, Request, Skip, requests
from amends_pipeline.flows.refresh import LONGEST_WAIT_SECONDS, Derived, fingerprint, plan_refreshes
from amends_pipeline.ports import Unit

FILES = OPEN_REORDERS.key.to_user_string()
REFRESH_TAG = ".dagster/amends_refresh"
"""Names the asset of a run, so that one run at a time makes its files. People see its job."""
VERSION_TAG = "dagster/data_version"


# --- the asset


@dg.multi_asset(
    name="open_reorders",
    description="Write the stock keys of a unit that are below their threshold now.",
    specs=[OPEN_REORDERS],
)
def open_reorders(
    context: dg.AssetExecutionContext, ledger: LedgerResource
) -> dg.MaterializeResult[None]:
    """One snapshot, one file; a unit that its namespace does not have gets none."""
    with failing_clearly(context.partition_key):
        unit = unit_of(context.partition_key)
        with ledger.open() as opened, opened.store.snapshot(unit.namespace) as moment:
            missing = lacking(moment.info(), unit)
            if missing:
                made = Made(missing)
            else:
                [(_, made)] = make(moment, unit.namespace, [unit.partition], ledger.home)
    return dg.MaterializeResult(metadata=made.metadata, data_version=dg.DataVersion(made.version))


OF_A_UNIT = dg.define_asset_job(
    "open_reorders_of_a_unit",
    description="Make the file of one unit now.",
    selection=dg.AssetSelection.assets(OPEN_REORDERS.key),
    executor_def=dg.in_process_executor,
)


# --- the run that makes several


@dg.op(
    name="refresh",
    description="Make the file of each unit anew whose view has moved since it was made.",
    out=dg.Out(dg.Nothing),
)
def refresh_op(context: dg.OpExecutionContext, ledger: LedgerResource) -> None:
    """Units of namespaces that follow, namespace by namespace, each of these from one moment."""
    made = 0
    with failing_clearly(), ledger.open() as opened:
        followed = [each for each in opened.store.standing() if each.follows]
        for namespace, units in groupby(followed, key=lambda each: each.unit.namespace):
            digest = opened.store.info(namespace).digest
            outdated = [
                each.unit.partition
                for each in units
                if not _is_made(
                    context.instance,
                    each.unit,
                    version_of(digest, each.progress.view_next),
                    ledger.home,
                )
            ]
            if not outdated:
                continue
            with opened.store.snapshot(namespace) as moment:
                for unit, file in make(moment, namespace, outdated, ledger.home):
                    made += 1
                    context.log_event(
                        dg.AssetMaterialization(
                            OPEN_REORDERS.key,
                            description=file.note,
                            partition=unit_key(unit),
                            metadata=file.metadata,
                            tags={VERSION_TAG: file.version},
                        )
                    )
    context.log.info("%d of %d files were made anew", made, len(followed))


def _is_made(instance: dg.DagsterInstance, unit: Unit, version: str, home: str | None) -> bool:
    """Whether the file of a unit is there, and is known to be of that version."""
    if not path_of(unit, home).is_file():
        return False
    wanted = dg.AssetRecordsFilter(OPEN_REORDERS.key, asset_partitions=[str(unit)])
    for record in instance.fetch_materializations(wanted, limit=1).records:
        told = record.asset_materialization
        return told is not None and (told.tags or {}).get(VERSION_TAG) == version
    return False


@dg.job(
    name="refresh_open_reorders",
    description=(
        "Make the files of open_reorders anew that are out of date: those of units whose view has"
        " moved since, in namespaces that follow their source."
    ),
    executor_def=dg.in_process_executor,
)
def refresh_open_reorders() -> None:
    """One step for all units."""
    refresh_op()


# --- the sensor


@dg.sensor(
    name="moved_views",
    description=(
        "Asks, every 9 to 10 s, for a run that makes the files of open_reorders anew, when what"
        " readers have has changed and then stood still from one look to the next, or has not been"
        f" still for {LONGEST_WAIT_SECONDS} s. The queue takes the run last."
    ),
    jobs=[refresh_open_reorders, OF_A_UNIT],  # for the latter the asset's page names the sensor
    minimum_interval_seconds=SLOW_TICK_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def moved_views(context: dg.SensorEvaluationContext, ledger: LedgerResource) -> Looked:
    """Compare view frontiers with those of the last look, and with what runs were asked for."""
    return clearly(context, partial(_look_at_views, context, ledger))


def _look_at_views(context: dg.SensorEvaluationContext, ledger: LedgerResource) -> Looked:
    with ledger.open() as opened:
        standings = opened.store.standing()
    if not any(each.follows for each in standings):
        return dg.SkipReason("No namespace follows its source.")
    before = _remembered(context.cursor)
    files = Derived(FILES, fingerprint(standings), *before)
    [decision] = decided(context.instance, [files], REFRESH_TAG, plan_refreshes)
    up_to_date = isinstance(decision, Skip) and decision.concern is Concern.NONE
    since = None if up_to_date else before.waiting_since
    if isinstance(decision, Request) or (since is None and not up_to_date):
        since = seconds_now()
    return answer(
        context,
        [decision],
        [
            dg.RunRequest(
                each.run_key,
                job_name=refresh_open_reorders.name,
                tags={REFRESH_TAG: FILES, **tags_of(each)},
            )
            for each in requests([decision])
        ],
        "The files of open_reorders are made from what readers have.",
        cursor=json.dumps(
            {
                "views": files.views,
                "made_from": files.views if up_to_date else before.made_from,
                "waiting_since": since,
            }
        ),
    )


class _Remembered(NamedTuple):
    """What the cursor says of the last look. People may edit it: then it is as the first one."""

    views: str | None = None
    made_from: str | None = None
    waiting_since: int | None = None


def _remembered(cursor: str | None) -> _Remembered:
    try:
        told = json.loads(cursor or "{}")
        since = told.get("waiting_since")
        return _Remembered(
            told.get("views"), told.get("made_from"), None if since is None else int(since)
        )
    except (ValueError, TypeError, AttributeError):
        return _Remembered()
