"""Verification in a run of Dagster: judge a unit, look at all of them, and never raise."""

import traceback
from collections.abc import Callable
from typing import NamedTuple

import dagster as dg

from amends_pipeline.defs.inventory.roll_up import not_rolled_up, rolled_up
from amends_pipeline.defs.inventory.verdict import failed, not_of_this_namespace, reported
from amends_pipeline.defs.partitions import lacking, unit_of
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
                moment.log.info(f"All units are verified: namespace {namespace} follows its source")
            return result

    return of_run(moment.run, _never_raising(judged, failed, moment.log))


def _judged(moment: Moment, ledger: Ledger, unit: Unit) -> dg.AssetCheckResult:
    report = judge_unit(
        ledger, unit, _by(moment.run), until=moment.boundary, processed=moment.processed
    )
    return reported(report, unit)


def roll_up(
    ledger: LedgerResource, run: dg.DagsterRun, log: dg.DagsterLogManager
) -> dg.AssetCheckResult:
    """Look at the verdicts of all units."""

    def looked() -> dg.AssetCheckResult:
        with ledger.open() as opened:
            return rolled_up(review(opened))

    return of_run(run, _never_raising(looked, not_rolled_up, log))


def _never_raising(
    work: Callable[[], dg.AssetCheckResult],
    otherwise: Callable[[str], dg.AssetCheckResult],
    log: dg.DagsterLogManager,
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
    """Add the run: a result of the job `verify` has no other link to it."""
    link = dg.MetadataValue.dagster_run(run.run_id)
    return result._replace(metadata={**result.metadata, "judged_in": link})


def evaluation(
    result: dg.AssetCheckResult, spec: dg.AssetCheckSpec, partition: str | None = None
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
    )
