"""What is checked: the outbox before it goes out, and the view against the oracle."""

import traceback
from collections.abc import Iterator
from typing import Any

import dagster as dg

from amends_pipeline.defs.catalog import COMMITTED_OUTBOX, MATERIALIZED_VIEW
from amends_pipeline.defs.inventory.boundary import boundary_of
from amends_pipeline.defs.inventory.verdict import (
    failed,
    not_of_this_namespace,
    reported,
    without_unit,
)
from amends_pipeline.defs.partitions import UNITS, lacking, unit_of
from amends_pipeline.defs.pinned import known_features
from amends_pipeline.defs.resources import LedgerResource
from amends_pipeline.flows.verify import verify
from amends_pipeline.inventory.outbox import gap
from amends_pipeline.kernel.errors import AmendsError
from amends_pipeline.ports import LedgerStore, Unit
from amends_pipeline.store.server import redact

with known_features():
    OUTBOX_SEQUENCE_IS_WHOLE = dg.AssetCheckSpec(
        "outbox_sequence_is_whole",
        asset=COMMITTED_OUTBOX.key,
        description=(
            "The stored segments of the outbox follow one another from sequence 0 to the frontier."
            " Nothing is published while they do not."
        ),
        blocking=True,
        partitions_def=UNITS,
    )
    VIEW_EQUALS_ORACLE = dg.AssetCheckSpec(
        "view_equals_oracle",
        asset=MATERIALIZED_VIEW.key,
        description=(
            "What readers see agrees, row by row, with what DuckDB computes from the raw records"
            " alone, at the boundary of the run. Statuses: PASS, PASS_WITH_EXCLUSIONS, BLOCKED,"
            " DRIFT, INCOMPLETE, ERROR."
        ),
        blocking=False,
        partitions_def=UNITS,
    )


def judge_outbox(store: LedgerStore, unit: Unit, missing: str | None) -> dg.AssetCheckResult:
    """Look at the stored segments of a unit; `missing` says that there is no such unit."""
    segments: list[tuple[int, int]] = []
    frontier = 0
    if not missing:
        # The frontier first: what is committed in between only makes the outbox longer.
        frontier = store.progress(unit).next_sequence
        segments = list(store.outbox_segments(unit))
    hole = gap(segments)
    end = sum(count for _, count in segments)
    if missing:
        told = f"PASS: {missing}"
    elif hole is not None:
        told = f"DRIFT: expected a segment at sequence {hole[0]}, found one at {hole[1]}."
    elif end < frontier:
        told = f"DRIFT: expected sequences up to {frontier}, found them up to {end}."
    else:
        told = f"PASS: sequences 0 to {end} are there without a gap, end excluded."
    passed = told.startswith("PASS")
    return dg.AssetCheckResult(
        passed=passed,
        check_name=OUTBOX_SEQUENCE_IS_WHOLE.name,
        asset_key=COMMITTED_OUTBOX.key,
        severity=dg.AssetCheckSeverity.ERROR,
        description=told,
        metadata={
            "status": "PASS" if passed else "DRIFT",
            "segments": len(segments),
            "envelopes": end,
            "outbox_next_sequence": frontier,
            "expected_sequence": end if hole is None else hole[0],
            "found_sequence": end if hole is None else hole[1],
            "not_compared": "what the envelopes say, and their order in the output log",
        },
    )


@dg.multi_asset_check(specs=[VIEW_EQUALS_ORACLE])
def view_equals_oracle(
    context: dg.AssetCheckExecutionContext, ledger: LedgerResource
) -> Iterator[Any]:
    """Judge one unit. Whatever happens becomes a verdict: a check that raises shows nothing."""
    if context.has_partition_key:
        yield _verdict(context, ledger)
        return
    # "Execute all" in the UI starts a run without a partition, and Dagster then looks for the
    # partition that a result is about, in vain. The event itself asks for none.
    result = without_unit()
    yield dg.Output(None, VIEW_EQUALS_ORACLE.get_python_identifier())
    yield dg.AssetCheckEvaluation(
        asset_key=VIEW_EQUALS_ORACLE.asset_key,
        check_name=VIEW_EQUALS_ORACLE.name,
        passed=result.passed,
        severity=result.severity,
        description=result.description,
        metadata=result.metadata,
        blocking=False,
    )


def _verdict(context: dg.AssetCheckExecutionContext, ledger: LedgerResource) -> dg.AssetCheckResult:
    try:
        return _judged(context, ledger)
    except AmendsError as error:
        return failed(redact(str(error)))
    except Exception as error:  # noqa: BLE001 - see above
        context.log.error("%s", redact(traceback.format_exc()))  # noqa: TRY400 - without passwords
        return failed(f"{type(error).__name__}: {redact(str(error))}")


def _judged(context: dg.AssetCheckExecutionContext, ledger: LedgerResource) -> dg.AssetCheckResult:
    unit = unit_of(context.partition_key)
    with ledger.open() as opened:
        missing = lacking(opened.store.info(unit.namespace), unit)
        if missing:
            return not_of_this_namespace(missing)
        boundary = boundary_of(context.instance, context.run, context.partition_key)
        report = verify(
            opened.store,
            unit.namespace,
            partitions=[unit.partition],
            until=None if boundary is None else {unit.partition: boundary},
        )
    return reported(report)
