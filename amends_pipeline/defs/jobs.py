"""What a person or a sensor may start, one run for each unit or ledger stream."""

from collections.abc import Iterator

import dagster as dg

from amends_pipeline.defs.catalog import (
    BANK_BALANCES,
    BANK_CHECKPOINTS,
    BANK_EXPORT,
    BANK_HISTORY,
    COMMITTED_OUTBOX,
    MATERIALIZED_VIEW,
    OUTPUT_LOG,
    PROJECTIONS,
    SOURCE_EVIDENCE,
)
from amends_pipeline.defs.inventory.checks import EVERY_UNIT_IS_VERIFIED, VIEW_EQUALS_ORACLE
from amends_pipeline.defs.inventory.failure import failing_clearly
from amends_pipeline.defs.inventory.verification import (
    Moment,
    announce,
    evaluation,
    latest_materialization,
    of_run,
    roll_up,
    verdict_on,
)
from amends_pipeline.defs.partitions import UNITS
from amends_pipeline.defs.resources import LedgerResource
from amends_pipeline.kernel.errors import InputError

PARTITION_TAG = "dagster/partition"
"""Names the unit of a run."""
SENSOR_TAG = "dagster/sensor_name"
"""Stands on every run that a sensor asked for."""

REFOLD = dg.define_asset_job(
    "refold",
    description=(
        "Process a unit's new records up to the source end of the moment, publish and apply what"
        " follows from them. Verification is a run of its own: the job verify."
    ),
    selection=dg.AssetSelection.assets(
        *(
            spec.key
            for spec in (
                SOURCE_EVIDENCE,
                PROJECTIONS,
                COMMITTED_OUTBOX,
                OUTPUT_LOG,
                MATERIALIZED_VIEW,
            )
        )
    )
    - dg.AssetSelection.checks(VIEW_EQUALS_ORACLE.key),
    executor_def=dg.in_process_executor,
)


@dg.op(
    name="judge",
    description="Compare what readers see of a unit with the oracle, and keep the verdict.",
    out=dg.Out(dg.Nothing),
)
def judge(
    context: dg.OpExecutionContext, ledger: LedgerResource
) -> Iterator[dg.AssetCheckEvaluation]:
    """Tell both checks of the view what is found, in place of the checks' own step."""
    with failing_clearly():
        if not context.has_partition_key:
            expected = "a partition, such as main|p0, to be chosen"
            raise InputError("job verify", expected=expected, found="none")
    # Records that come after a sensor has looked are not what it asked about.
    asked_by_sensor = SENSOR_TAG in context.run.tags
    partition = str(context.partition_key)
    moment = Moment(context.run, context.log, partition, processed=asked_by_sensor)
    target = latest_materialization(context.instance, VIEW_EQUALS_ORACLE, partition)
    announce(context, VIEW_EQUALS_ORACLE, partition)
    yield evaluation(verdict_on(moment, ledger), VIEW_EQUALS_ORACLE, partition, target)
    # The UI shows the roll-up that was announced last. Announced now, it has seen the verdicts of
    # all runs that announced theirs before.
    announce(context, EVERY_UNIT_IS_VERIFIED)
    latest = latest_materialization(context.instance, EVERY_UNIT_IS_VERIFIED)
    summed_up = of_run(context.run, roll_up(ledger, context.instance, context.log))
    yield evaluation(summed_up, EVERY_UNIT_IS_VERIFIED, target=latest)


@dg.job(
    name="verify",
    description=(
        "Compare a unit's view with the oracle, and do nothing else. The verdict stands at the"
        " checks of materialized_view."
    ),
    partitions_def=UNITS,
    executor_def=dg.in_process_executor,
)
def _verify() -> None:
    """Judge one unit."""
    judge()


VERIFY: dg.JobDefinition = _verify

FOLD_BANK = dg.define_asset_job(
    "fold_bank",
    description=(
        "Export a ledger stream, examine the export, and make balances and checkpoints of it; the"
        " checks judge all of them."
    ),
    selection=dg.AssetSelection.assets(
        *(spec.key for spec in (BANK_EXPORT, BANK_HISTORY, BANK_BALANCES, BANK_CHECKPOINTS))
    ),
    executor_def=dg.in_process_executor,
)

EXAMINE_EXPORT = dg.define_asset_job(
    "examine_export",
    description=(
        "Examine an export that somebody offers of a ledger stream: the configuration of exporter"
        " names its folder. The code of its first fault stands at the check of bank_export, and the"
        " balances stay as they are."
    ),
    selection=dg.AssetSelection.assets(BANK_EXPORT.key),
    executor_def=dg.in_process_executor,
)
