"""Judge: verify, and keep the verdict of each unit where automation and people find it again.

Whatever comes of a verification is kept, also that it failed. A verdict is accepted by what is
stored as accepted exclusions of its namespace, and by nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache, partial

from amends_pipeline.flows.accept import accepted_in, stored_manifest
from amends_pipeline.flows.verify import verify
from amends_pipeline.inventory.by_partition import by_partition
from amends_pipeline.inventory.verify import Manifest, NotCompared, PartitionBoundary, Report
from amends_pipeline.kernel.errors import AmendsError
from amends_pipeline.kernel.verdict import Status
from amends_pipeline.ports import Ledger, Unit, Verdict

KEPT_ROWS = 100_000
"""Differing rows of a unit that are stored; the verdict counts them all."""


def now() -> str:
    """The moment of a verdict, RFC 3339 in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def judge_unit(
    ledger: Ledger,
    unit: Unit,
    by: str,
    *,
    until: int | None = None,
    processed: bool = False,
) -> Report:
    """Verify one unit as `flows.verify` does and keep the verdict.

    by: the run or the command that judges. until: the source end that a run captured.

    Raises as `flows.verify`.
    """
    report = verify(
        ledger.store,
        unit.namespace,
        partitions=[unit.partition],
        until=None if until is None else {unit.partition: until},
        processed=processed,
        manifest=stored_manifest(ledger, unit.namespace),
    )
    _keep(ledger, unit, report, by)
    return report


def judge_namespace(
    ledger: Ledger,
    namespace: str,
    by: str,
    *,
    manifest: Manifest | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Verify a whole namespace at one moment and keep a verdict of each unit that was compared.

    manifest: accepts the report that is returned, in place of what is stored; the verdicts that
    are kept go by what is stored.

    Raises as `flows.verify`.
    """
    stored = stored_manifest(ledger, namespace)
    chosen = stored if manifest is None else manifest
    report = verify(ledger.store, namespace, manifest=chosen, progress=progress)
    # Only asked for where rows were compared: the configuration may be what is at fault.
    config = cache(partial(ledger.store.config, namespace))
    parts = by_partition(report, lambda stock_key: config().partition_of(stock_key))
    for partition, part in parts.items():
        accepted = part.agrees and part.accepts(accepted_in(config(), stored, partition))
        judged = part.model_copy(update={"accepted": accepted})
        _keep(ledger, Unit(namespace, partition), judged, by)
    return report


def keep_failure(ledger: Ledger, unit: Unit, error: str, by: str) -> None:
    """Keep that a unit could not be judged, as far as the ledger still answers."""
    with suppress(AmendsError):
        for standing in ledger.store.standing():
            if standing.unit == unit:
                progress = standing.progress
                boundary = PartitionBoundary(
                    partition=unit.partition,
                    source_end=progress.next_offset
                    if standing.extent is None
                    else standing.extent.end,
                    worker_next=progress.next_offset,
                    pending=progress.pending,
                    output_end=standing.output_end,
                    view_next=progress.view_next,
                )
                _keep(ledger, unit, _failed(boundary, error), by)


def _failed(boundary: PartitionBoundary, error: str) -> Report:
    return Report(
        status=Status.ERROR,
        accepted=False,
        boundary=(boundary,),
        differences=(),
        rejections=(),
        conflicts=(),
        not_compared=(NotCompared(what="anything: the verification failed"),),
        errors=(error,),
    )


def _keep(ledger: Ledger, unit: Unit, report: Report, by: str) -> None:
    [boundary] = report.boundary
    ledger.operations.record_verdict(
        Verdict(
            unit,
            str(report.status),
            report.accepted,
            boundary.source_end,
            boundary.output_end,
            len(report.differences),
            now(),
            by,
            _bounded(report).to_json(),
        )
    )


def _bounded(report: Report) -> Report:
    """Leave out what no database would store, and say so."""
    more = len(report.differences) - KEPT_ROWS
    if more <= 0:
        return report
    left_out = NotCompared(what=f"{more} further differing rows, which are not stored")
    update: Mapping[str, object] = {
        "differences": report.differences[:KEPT_ROWS],
        "not_compared": (*report.not_compared, left_out),
    }
    return report.model_copy(update=update)
