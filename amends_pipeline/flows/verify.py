"""Verify: read one consistent snapshot, ask the oracle, compare, report."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import repeat

import numpy as np

from amends_pipeline.flows.bulk import rarely_collected
from amends_pipeline.inventory import oracle
from amends_pipeline.inventory.compare import Found, FoundConflict, FoundStatus
from amends_pipeline.inventory.config import NamespaceConfig
from amends_pipeline.inventory.envelope import STATUS_DAY, VISIBLE, Type
from amends_pipeline.inventory.slice import Records
from amends_pipeline.inventory.verify import (
    Manifest,
    PartitionBoundary,
    PartitionStanding,
    Report,
    Standing,
    distances,
    judge,
    oracle_can_read,
)
from amends_pipeline.kernel.errors import InputError
from amends_pipeline.ports import OF_DAYS, Extent, LedgerStore, Snapshot

WAIT_SECONDS = 10.0
"""How long a stand-alone verification waits for relay and view."""
_POLL_SECONDS = 0.1


def verify(  # noqa: PLR0913 - what is judged, where, and how patiently
    store: LedgerStore,
    namespace: str,
    *,
    partitions: Sequence[int] | None = None,
    until: Mapping[int, int] | None = None,
    processed: bool = False,
    manifest: Manifest | None = None,
    wait_seconds: float = WAIT_SECONDS,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Judge a namespace, or only some of its partitions with their keys.

    `until` is the boundary H that a run captured, by partition. Without it the verification stands
    alone: it takes the source ends of its snapshot, and waits up to `wait_seconds` until nothing is
    pending and the views have what is published. A view that stopped is not waited for.

    `processed` makes a verification that stands alone judge what has been processed: H is where
    the worker of each partition stands, and records that wait for it belong to a later one.

    `progress` is told how many source offsets of how many the oracle has read. An oracle that fails
    makes an ERROR report; what the store raises passes, UnknownNamespace among it. Raises
    InputError for a partition that the namespace does not have.
    """
    deadline = time.monotonic() + (wait_seconds if until is None else 0)
    while True:
        with store.snapshot(namespace) as snapshot:
            config = snapshot.config_as_stored()
            chosen = _chosen(config, partitions)
            ends = _frontiers(snapshot) if processed and until is None else until
            standing = _standing(snapshot, config, chosen, ends)
            if not _in_motion(standing) or time.monotonic() >= deadline:
                if manifest is not None and partitions is not None:
                    manifest = manifest.within(config, chosen)
                return _judged(snapshot, config, standing, manifest, progress)
        time.sleep(_POLL_SECONDS)


def _chosen(config: NamespaceConfig, partitions: Sequence[int] | None) -> Sequence[int]:
    if partitions is None:
        return range(config.partitions)
    for partition in partitions:
        if not 0 <= partition < config.partitions:
            raise InputError(
                f"namespace {config.namespace}",
                expected=f"a partition from 0 to {config.partitions - 1}",
                found=str(partition),
            )
    return sorted(set(partitions))


def _frontiers(snapshot: Snapshot) -> Mapping[int, int]:
    return {at: stages.next_offset for at, stages in enumerate(snapshot.progress())}


def _standing(
    snapshot: Snapshot,
    config: NamespaceConfig,
    partitions: Sequence[int],
    until: Mapping[int, int] | None,
) -> Standing:
    info = snapshot.info()
    # A foreign log may have fewer partitions.
    extents = [*snapshot.source_extents(), *repeat(Extent(0, 0), info.partitions)]
    output_ends = snapshot.output_ends()
    stages = snapshot.progress()
    standings = []
    for partition in partitions:
        extent, progress = extents[partition], stages[partition]
        boundary = PartitionBoundary(
            partition=partition,
            source_end=extent.end if until is None else until.get(partition, extent.end),
            worker_next=progress.next_offset,
            pending=progress.pending,
            output_end=output_ends[partition],
            view_next=progress.view_next,
        )
        standings.append(
            PartitionStanding(
                boundary,
                first_offset=info.first_offsets[partition],
                retained_start=extent.start,
                retained_end=extent.end,
                view_stop=progress.view_stop,
            )
        )
    return Standing(
        standings,
        provisioned_digest=info.digest,
        digest=config.digest,
        bound_incarnation=info.incarnation,
        incarnation=snapshot.source_incarnation(),
    )


def _in_motion(standing: Standing) -> bool:
    """Tell whether what the worker has committed may still be on its way to readers."""
    return not standing.stops and any(
        each.boundary.pending or each.boundary.view_next < each.boundary.output_end
        for each in standing.partitions
    )


def _judged(
    snapshot: Snapshot,
    config: NamespaceConfig,
    standing: Standing,
    manifest: Manifest | None,
    progress: Callable[[int, int], None] | None,
) -> Report:
    distance = distances(standing)
    expected, found, errors = None, None, []
    if oracle_can_read(distance):
        partitions = {each.boundary.partition for each in standing.partitions}
        compared = not distance and not standing.stops
        with rarely_collected(), ThreadPoolExecutor(1, "found") as thread:
            reading: list[Future[Found]] = []

            def histories() -> Iterator[oracle.History]:
                yield from _histories(snapshot, standing, progress)
                # What is compared is read while the oracle works out what should be there.
                if compared:
                    reading.append(thread.submit(_found, snapshot, config, partitions))

            try:
                expected = oracle.compute(config, histories())
            except oracle.OracleError as failure:
                errors.append(str(failure))
            if expected is not None and compared:
                found = reading[0].result()
    return judge(config, standing, expected=expected, found=found, errors=errors, manifest=manifest)


def _histories(
    snapshot: Snapshot, standing: Standing, progress: Callable[[int, int], None] | None
) -> Iterator[oracle.History]:
    spans = {
        each.boundary.partition: (each.first_offset, each.boundary.source_end)
        for each in standing.partitions
    }
    total = sum(max(end - start, 0) for start, end in spans.values())
    passed = 0

    def batches(partition: int, start: int, end: int) -> Iterator[oracle.RawBatch]:
        nonlocal passed
        for records in _ahead(snapshot.records(partition, start, end)) if start < end else ():
            yield oracle.RawBatch(records.offsets, records.keys, records.values)
            passed += records.until - records.start
            if progress is not None:
                progress(passed, total)

    for partition, (start, end) in spans.items():
        set_asides = frozenset(each.offset for each in snapshot.set_asides(partition))
        yield oracle.History(partition, batches(partition, start, end), set_asides)


def _ahead(runs: Iterator[Records]) -> Iterator[Records]:
    """Hand out runs of records; the next one is read while the caller works on this one."""
    with ThreadPoolExecutor(1, "read") as thread:
        waiting = thread.submit(next, runs, None)
        while (records := waiting.result()) is not None:
            waiting = thread.submit(next, runs, None)
            yield records


def _found(snapshot: Snapshot, config: NamespaceConfig, partitions: Collection[int]) -> Found:
    """Read what readers see of the partitions' keys, and the evidence beside it."""
    home = np.array([key.partition in partitions for key in config.keys], dtype=np.bool_)
    rows = {
        kind: oracle.DayRows(*(column[home[columns.keys]] for column in columns))
        for kind, columns in snapshot.visible_days().items()
    }
    return Found(
        balances=rows[Type.BALANCE_STATED],
        alerts=rows[Type.ALERT_RAISED],
        statuses=[
            FoundStatus(
                each.key,
                None if each.day == STATUS_DAY else each.day,
                each.type == Type.BLOCKED_STATED,
                each.reasons,
            )
            for each in snapshot.visible(VISIBLE - OF_DAYS)
            if home[each.key]
        ],
        rejections=[
            oracle.Rejected(
                each.partition,
                each.rejection.offset,
                str(each.rejection.code),
                each.rejection.raw_key,
                each.rejection.value,
            )
            for each in snapshot.quarantine()
            if each.partition in partitions
        ],
        conflicts=[
            FoundConflict(*each)
            for each in snapshot.conflicts()
            if config.partition_of((each.item, each.location)) in partitions
        ],
    )
