"""Verification in a run of Dagster: judge a unit, look at all of them, and never raise."""

import logging
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import dagster as dg
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationPlanned,
)
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationTargetMaterializationData as Target,
)
from dagster._core.events import DagsterEvent, DagsterEventType
from dagster._core.storage.asset_check_execution_record import (
    AssetCheckExecutionRecord,
    AssetCheckExecutionRecordStatus,
)

from amends_pipeline.defs.inventory.roll_up import not_rolled_up, rolled_up
from amends_pipeline.defs.inventory.runs import failing
from amends_pipeline.defs.inventory.verdict import failed, not_of_this_namespace, reported
from amends_pipeline.defs.partitions import UNITS, lacking, unit_of
from amends_pipeline.defs.resources import LedgerResource
from amends_pipeline.flows.judge import judge_unit, keep_failure
from amends_pipeline.flows.rebuild import follow_when_verified
from amends_pipeline.flows.review import review
from amends_pipeline.kernel.errors import AmendsError
from amends_pipeline.ports import Ledger, Unit
from amends_pipeline.store.server import redact


class Moment(NamedTuple):
    """The run that judges, and at which boundary."""

    run: dg.DagsterRun
    log: dg.DagsterLogManager
    partition_key: str
    boundary: int | None = None
    """The source end that the run captured; None for a verification that stands alone."""
    processed: bool = False
    """Whether to judge what is processed, without a boundary of the run."""


def verdict_on(moment: Moment, ledger: LedgerResource) -> dg.AssetCheckResult:
    """Judge a unit, keep its verdict, and let its namespace follow if that was the last one."""

    def judged() -> dg.AssetCheckResult:
        unit = unit_of(moment.partition_key)
        with ledger.open() as opened:
            missing = lacking(opened.store.info(unit.namespace), unit)
            if missing:
                return not_of_this_namespace(missing)
            try:
                result = _judged(moment, opened, unit)
            except Exception as error:
                keep_failure(opened, unit, _told(error), _by(moment.run))
                raise
            for namespace in follow_when_verified(opened):
                moment.log.info("every unit of %s is verified: it follows its source", namespace)
            return result

    return of_run(moment.run, _never_raising(judged, failed, moment.log))


def _judged(moment: Moment, ledger: Ledger, unit: Unit) -> dg.AssetCheckResult:
    report = judge_unit(
        ledger, unit, _by(moment.run), until=moment.boundary, processed=moment.processed
    )
    return reported(report, unit)


def roll_up(
    ledger: LedgerResource, instance: dg.DagsterInstance, log: logging.Logger
) -> dg.AssetCheckResult:
    """Look at the verdicts of all units, and at what keeps some of them from getting further."""

    def looked() -> dg.AssetCheckResult:
        with ledger.open() as opened:
            return rolled_up(review(opened, partial(failing, instance)))

    return _never_raising(looked, not_rolled_up, log)


def left_undone(instance: dg.DagsterInstance, spec: dg.AssetCheckSpec) -> bool:
    """Whether the UI shows, of a check without partitions, a run that ended without a result."""
    history = instance.event_log_storage.get_asset_check_execution_history(spec.key, limit=1)
    return any(
        record.status is AssetCheckExecutionRecordStatus.PLANNED and _has_ended(instance, record)
        for record in history
    )


def _has_ended(instance: dg.DagsterInstance, record: AssetCheckExecutionRecord) -> bool:
    run = instance.get_run_by_id(record.run_id)
    return run is None or run.is_finished


def _never_raising(
    work: Callable[[], dg.AssetCheckResult],
    otherwise: Callable[[str], dg.AssetCheckResult],
    log: logging.Logger,
) -> dg.AssetCheckResult:
    try:
        return work()
    except AmendsError as error:
        return otherwise(_told(error))
    except Exception as error:  # noqa: BLE001 - a check that raises shows nothing
        log.error("%s", redact(traceback.format_exc()))  # noqa: TRY400 - without passwords
        return otherwise(_told(error))


def _told(error: Exception) -> str:
    text = redact(str(error))
    return text if isinstance(error, AmendsError) else f"{type(error).__name__}: {text}"


def _by(run: dg.DagsterRun) -> str:
    return f"Dagster run {run.run_id}"


def of_run(run: dg.DagsterRun, result: dg.AssetCheckResult) -> dg.AssetCheckResult:
    """Add the run that judged."""
    link = dg.MetadataValue.dagster_run(run.run_id)
    return result._replace(metadata={**result.metadata, "judged_in": link})


def announce(
    context: dg.OpExecutionContext, spec: dg.AssetCheckSpec, partition: str | None = None
) -> None:
    """Say that this run, which is none of checks, is going to evaluate one.

    Dagster does so itself for a job of checks, but such a job has no partitions that a person could
    choose from. An evaluation without an announcement is taken once for each partition, and no run
    is known of it.
    """
    subset = None if partition is None else UNITS.subset_with_partition_keys([partition])
    planned = DagsterEvent(
        event_type_value=DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED.value,
        job_name=context.job_name,
        message=f"{context.job_name} intends to execute asset check {spec.name}",
        event_specific_data=AssetCheckEvaluationPlanned(
            asset_key=spec.asset_key, check_name=spec.name, partitions_subset=subset
        ),
    )
    context.instance.report_dagster_event(planned, context.run_id, logging.DEBUG)


def latest_materialization(
    instance: dg.DagsterInstance, spec: dg.AssetCheckSpec, partition: str | None = None
) -> Target | None:
    """What a verdict is about: without it, the UI counts a verdict on a partition as missing.

    A roll-up, which is about all partitions, names the latest of them all.
    """
    partitions = None if partition is None else [partition]
    filters = dg.AssetRecordsFilter(asset_key=spec.asset_key, asset_partitions=partitions)
    for record in instance.fetch_materializations(filters, limit=1).records:
        return Target(
            storage_id=record.storage_id, run_id=record.run_id, timestamp=record.timestamp
        )
    return None


def evaluation(
    result: dg.AssetCheckResult,
    spec: dg.AssetCheckSpec,
    partition: str | None = None,
    target: Target | None = None,
) -> dg.AssetCheckEvaluation:
    """The event of a result, for where Dagster does not make it itself."""
    return dg.AssetCheckEvaluation(
        asset_key=spec.asset_key,
        check_name=spec.name,
        passed=result.passed,
        severity=result.severity,
        description=result.description,
        metadata=result.metadata,
        blocking=False,
        partition=partition,
        target_materialization_data=target,
    )


def yielded(
    context: dg.AssetCheckExecutionContext, spec: dg.AssetCheckSpec, result: dg.AssetCheckResult
) -> Iterator[Any]:
    """What the op of a check yields for one of its results."""
    if context.has_partition_key:
        yield result._replace(check_name=spec.name, asset_key=spec.asset_key)
        return
    # In a run without a partition Dagster looks for the partition that a result is about, in vain.
    # The event itself asks for none.
    yield dg.Output(None, spec.get_python_identifier())
    yield evaluation(result, spec)
