"""The steps of a run: worker, relay and view of one unit. The work itself is in `flows`."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import dagster as dg
from pydantic import Field

from amends_pipeline.defs.catalog import (
    COMMITTED_OUTBOX,
    MATERIALIZED_VIEW,
    OUTPUT_LOG,
    PROJECTIONS,
    SOURCE_EVIDENCE,
)
from amends_pipeline.defs.inventory.boundary import boundary_of
from amends_pipeline.defs.inventory.changes import LOOKED_AT_OUTPUTS, Change, Changes
from amends_pipeline.defs.inventory.checks import OUTBOX_SEQUENCE_IS_WHOLE, judge_outbox
from amends_pipeline.defs.inventory.failure import failing_clearly
from amends_pipeline.defs.inventory.metadata import (
    NOWHERE,
    ROW_COUNT,
    Told,
    counts_by_type,
    standing,
)
from amends_pipeline.defs.inventory.pictured import most_changed, pictured, seen, unpictured
from amends_pipeline.defs.partitions import lacking, unit_of
from amends_pipeline.defs.resources import LedgerResource
from amends_pipeline.flows.bound import bound
from amends_pipeline.flows.drain import Ingested, Options, ingest_unit, project_unit, relay_unit
from amends_pipeline.flows.ingest import COMMIT_RECORDS, SLICE_RECORDS
from amends_pipeline.flows.project import Projected
from amends_pipeline.inventory.decision import Decision
from amends_pipeline.inventory.key_columns import changed_rows
from amends_pipeline.kernel.errors import AmendsError, CloseOverflow, ProtocolStop
from amends_pipeline.ports import Counted, Ledger, Unit

WAIT_SECONDS = 300
"""How long a step waits for another owner of its unit before it fails and says who that is."""

Results = Iterator[dg.MaterializeResult[None]]
Counts = Mapping[Counted, int]


class Patience(dg.Config):
    """How a step shares a unit with others."""

    wait_seconds: int = Field(
        default=WAIT_SECONDS,
        ge=0,
        description="How long to wait while somebody else owns the unit.",
    )


class Slicing(Patience):
    """How a worker cuts the log. No choice changes what readers end up with."""

    slice_records: int = Field(
        default=SLICE_RECORDS, ge=1, description="Records decided together; 1 publishes each step."
    )
    commit_records: int = Field(
        default=COMMIT_RECORDS, ge=1, description="Records whose decisions share a commit, about."
    )


_WORKED = (
    Counted.TRANSACTIONS,
    Counted.OBSERVATIONS,
    Counted.QUARANTINED,
    Counted.PAGES,
)
_VIEWED = (Counted.OUTPUTS, Counted.VISIBLE)


# --- worker


@dataclass(slots=True)
class _Worked:
    """What the worker did, decision by decision."""

    done: Ingested = field(default_factory=Ingested)
    changes: Changes = field(default_factory=Changes)
    keys: set[int] = field(default_factory=set)
    day_rows: int = 0
    rows: Counts = field(default_factory=dict)

    def add(self, _: Unit, decisions: Sequence[Decision]) -> None:
        self.done = self.done.plus(decisions)
        for decision in decisions:
            self.changes.add(decision.envelopes)
            self.keys.update(decision.keys)
            self.day_rows += changed_rows(decision.keys)


@dg.multi_asset(
    name="worker",
    description="Decide a unit's records up to the source end of the moment, slice by slice.",
    specs=[SOURCE_EVIDENCE, PROJECTIONS, COMMITTED_OUTBOX],
    check_specs=[OUTBOX_SEQUENCE_IS_WHOLE],
)
def worker(context: dg.AssetExecutionContext, config: Slicing, ledger: LedgerResource) -> Results:
    """Evidence, day rows and outbox are one commit for each slice; three assets tell of it."""
    with failing_clearly(context.partition_key):
        unit = unit_of(context.partition_key)
        with ledger.open() as opened:
            missing = lacking(opened.store.info(unit.namespace), unit)
            worked = _Worked()
            told = _nothing(missing) if missing else _decide(context, config, opened, unit, worked)
            worked.rows = _rows(opened, unit, _WORKED, missing)
            check = judge_outbox(opened.store, unit, missing)
    progress = told.standing.progress
    yield _result(
        SOURCE_EVIDENCE,
        told,
        progress.next_offset,
        rows=worked.rows.get(Counted.TRANSACTIONS),
        observation_rows=worked.rows.get(Counted.OBSERVATIONS),
        quarantine_rows=worked.rows.get(Counted.QUARANTINED),
        processed_records=worked.done.records,
        accepted_records=worked.done.accepted,
        rejected_records=worked.done.rejected,
        committed_decisions=worked.done.decisions,
    )
    yield _result(
        PROJECTIONS,
        told,
        progress.next_offset,
        rows=worked.rows.get(Counted.PAGES),
        touched_stock_keys=len(worked.keys),
        written_day_rows=worked.day_rows,
    )
    yield _result(
        COMMITTED_OUTBOX,
        told,
        progress.next_sequence,
        check,
        rows=progress.next_sequence,
        committed_envelopes=worked.done.envelopes,
        **counts_by_type(worked.changes),
    )


def _decide(
    context: dg.AssetExecutionContext, config: Slicing, ledger: Ledger, unit: Unit, worked: _Worked
) -> Told:
    source = ledger.source(bound(ledger, unit.namespace).source)
    boundary = source.extents()[unit.partition].end
    options = _options(context, config)
    options.slice_records = config.slice_records
    options.commit_records = config.commit_records
    options.on_decisions = worked.add
    try:
        ingest_unit(ledger, unit, boundary, options)
    except CloseOverflow:
        _hand_over(context, ledger, unit, _options(context, config))
        raise
    records = worked.done.records
    return Told(
        standing(ledger, unit, boundary),
        worked.changes.against(ledger.store, unit),
        worked.changes.left_out,
        ledger.store.config(unit.namespace),
        f"Decided {records} records, up to source offset {boundary}."
        if records
        else f"No record was left to decide before source offset {boundary}.",
    )


def _hand_over(
    context: dg.AssetExecutionContext, ledger: Ledger, unit: Unit, options: Options
) -> None:
    """Bring to the readers what was committed before the record that stopped the worker.

    The steps after a failed one do not run, in this run and in every other one that stops there.
    """
    if not judge_outbox(ledger.store, unit, None).passed:
        return
    try:
        relay_unit(ledger, unit, options)
        project_unit(ledger, unit, options)
    except AmendsError as error:
        context.log.warning("what was committed before did not reach the readers: %s", error)


# --- relay


@dg.multi_asset(
    name="relay",
    description="Publish what is pending of a unit's outbox, earliest first.",
    specs=[OUTPUT_LOG],
)
def relay(context: dg.AssetExecutionContext, config: Patience, ledger: LedgerResource) -> Results:
    """Publication and acknowledgement are two steps; what is in doubt goes again, identical."""
    published = 0
    with failing_clearly(context.partition_key):
        unit = unit_of(context.partition_key)
        with ledger.open() as opened:
            missing = lacking(opened.store.info(unit.namespace), unit)
            if missing:
                told = _nothing(missing)
            else:
                changes = Changes()
                for segment in opened.store.pending(unit, LOOKED_AT_OUTPUTS):
                    changes.add(segment.envelopes)
                changed = changes.against(opened.store, unit)
                published = relay_unit(opened, unit, _options(context, config))
                note = f"Published {published} envelopes." if published else "Nothing was pending."
                told = _told(context, opened, unit, changed, changes.unseen(published), note)
    yield _result(
        OUTPUT_LOG,
        told,
        told.standing.progress.acknowledged,
        rows=told.standing.output_end,
        published_envelopes=published,
    )


# --- view


@dg.multi_asset(
    name="view",
    description="Apply a unit's output log to the rows that readers see.",
    specs=[MATERIALIZED_VIEW],
)
def view(context: dg.AssetExecutionContext, config: Patience, ledger: LedgerResource) -> Results:
    """The highest version of an output wins; a breach of the protocol stops the unit before it."""
    done = Projected()
    counts: Counts = {}
    picture = unpictured(())
    with failing_clearly(context.partition_key):
        unit = unit_of(context.partition_key)
        with ledger.open() as opened:
            missing = lacking(opened.store.info(unit.namespace), unit)
            if missing:
                told = _nothing(missing)
            else:
                changes = _published(opened, unit)
                changed = changes.against(opened.store, unit)
                done, picture = _project(context, config, opened, unit, changed)
                note = (
                    f"Applied {done.consumed} envelopes."
                    if done.consumed
                    else "No envelope was left to apply."
                )
                told = _told(context, opened, unit, changed, changes.unseen(done.consumed), note)
            counts = _rows(opened, unit, _VIEWED, missing)
    yield _result(
        MATERIALIZED_VIEW,
        told._replace(picture=picture),
        told.standing.progress.view_next,
        rows=counts.get(Counted.OUTPUTS),
        visible_rows=counts.get(Counted.VISIBLE),
        applied_envelopes=done.consumed,
        stored_rows=done.rows,
        duplicate_envelopes=done.duplicates,
        outdated_envelopes=done.outdated,
    )


def _project(
    context: dg.AssetExecutionContext,
    config: Patience,
    ledger: Ledger,
    unit: Unit,
    changed: Sequence[Change],
) -> tuple[Projected, dg.MarkdownMetadataValue]:
    """Apply what was published, and look at the most changed key before and after it."""
    namespace = ledger.store.config(unit.namespace)
    window = most_changed(namespace, changed)
    if window is None:
        return project_unit(ledger, unit, _options(context, config)), unpictured(changed)
    before = seen(ledger.store, unit, namespace, window)
    done = project_unit(ledger, unit, _options(context, config))
    after = seen(ledger.store, unit, namespace, window)
    return done, pictured(namespace, window, before, after)


def _published(ledger: Ledger, unit: Unit) -> Changes:
    """Look at what the view has yet to apply."""
    changes = Changes()
    start = ledger.store.progress(unit).view_next
    try:
        for segment in ledger.outputs.read(unit, start, LOOKED_AT_OUTPUTS):
            changes.add(segment.envelopes)
    except ProtocolStop:  # what precedes it counts; the view itself stops at it
        return changes
    return changes


# --- what all three tell


def _options(context: dg.AssetExecutionContext, config: Patience) -> Options:
    return Options(
        holder=f"Dagster run {context.run.run_id}",
        wait_seconds=config.wait_seconds,
        waiting=lambda unit, role, holder: context.log.info(
            "waiting for the %s of %s, held by %s", role, unit, holder
        ),
    )


def _nothing(missing: str) -> Told:
    return Told(NOWHERE, (), 0, None, missing)


def _told(  # noqa: PLR0913, PLR0917 - what is told, and of what
    context: dg.AssetExecutionContext,
    ledger: Ledger,
    unit: Unit,
    changed: Sequence[Change],
    left_out: int,
    note: str,
) -> Told:
    boundary = boundary_of(context.instance, context.run, context.partition_key)
    config = ledger.store.config(unit.namespace)
    return Told(standing(ledger, unit, boundary), changed, left_out, config, note)


def _rows(ledger: Ledger, unit: Unit, counted: Collection[Counted], missing: str) -> Counts:
    """Count what is there after the step; nothing when that takes too long."""
    if missing:
        return dict.fromkeys(counted, 0)
    return ledger.operations.row_counts(unit, counted)


def _result(
    spec: dg.AssetSpec,
    told: Told,
    frontier: int,
    check: dg.AssetCheckResult | None = None,
    *,
    rows: int | None,
    **counts: int | None,
) -> dg.MaterializeResult[None]:
    known = {ROW_COUNT: rows, **counts}
    return dg.MaterializeResult(
        asset_key=spec.key,
        metadata=told.metadata({key: count for key, count in known.items() if count is not None}),
        check_results=[] if check is None else [check],
        data_version=dg.DataVersion(told.version(frontier)),
    )
