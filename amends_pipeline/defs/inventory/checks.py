"""What is checked: the outbox before it goes out, the view against the oracle, and all verdicts.

A verification is a run of its own, the job `verify`, because it reads the whole history and a
correction must not wait for that. A run that materializes the view with its checks, as a backfill
does, verifies as well.
"""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from amends_pipeline.defs.catalog import COMMITTED_OUTBOX, MATERIALIZED_VIEW
from amends_pipeline.defs.inventory.boundary import boundary_of
from amends_pipeline.defs.inventory.verdict import without_unit
from amends_pipeline.defs.inventory.verification import (
    Moment,
    evaluation,
    latest_materialization,
    of_run,
    roll_up,
    verdict_on,
    yielded,
)
from amends_pipeline.defs.partitions import UNITS
from amends_pipeline.defs.pinned import known_features
from amends_pipeline.defs.resources import LedgerResource
from amends_pipeline.flows.next_step import NEXT_STEP, NOTHING, after_gap, in_dagster
from amends_pipeline.inventory.outbox import gap
from amends_pipeline.ports import LedgerStore, Unit

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
EVERY_UNIT_IS_VERIFIED = dg.AssetCheckSpec(
    "every_unit_is_verified",
    asset=MATERIALIZED_VIEW.key,
    description=(
        "Every unit of every namespace that follows its source has a verdict that stands and is"
        " accepted. Reads the verdicts that the ledger keeps, and judges nothing itself."
    ),
    blocking=False,
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
            NEXT_STEP: NOTHING if passed else after_gap(in_dagster(unit)),
        },
    )


@dg.multi_asset_check(
    name="verification", specs=[VIEW_EQUALS_ORACLE, EVERY_UNIT_IS_VERIFIED], can_subset=True
)
def verification(context: dg.AssetCheckExecutionContext, ledger: LedgerResource) -> Iterator[Any]:
    """Judge the run's unit, and then roll up: in one step, so that the second sees the first.

    Whatever happens becomes a verdict: a check that raises shows nothing.
    """
    selected = context.selected_asset_check_keys
    if VIEW_EQUALS_ORACLE.key in selected:
        if context.has_partition_key:
            boundary = boundary_of(context.instance, context.run, context.partition_key)
            moment = Moment(context.run, context.log, context.partition_key, boundary)
            result = verdict_on(moment, ledger)
        else:  # as "Execute all" in the UI starts it
            result = of_run(context.run, without_unit())
        yield from yielded(context, VIEW_EQUALS_ORACLE, result)
    if EVERY_UNIT_IS_VERIFIED.key in selected:
        latest = latest_materialization(context.instance, EVERY_UNIT_IS_VERIFIED)
        result = of_run(context.run, roll_up(ledger, context.instance, context.log))
        yield from yielded(context, EVERY_UNIT_IS_VERIFIED, result)
        if context.has_partition_key:
            # Of runs side by side, the UI shows the roll-up of the one that was started last, and
            # none when another one materialized after it. This one stands on its own.
            again = evaluation(result, EVERY_UNIT_IS_VERIFIED, target=latest)
            context.instance.report_runless_asset_event(again)
