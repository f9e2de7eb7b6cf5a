"""A namespace's report, taken apart: what it says of each partition by itself.

A namespace is compared as a whole or not at all: where one partition is incomplete or its view
stopped, no partition was compared. Of those that had nothing missing themselves, the report then
says nothing, and neither does this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from amends_pipeline.inventory.compare import Key
from amends_pipeline.inventory.verify import Report, stopped_in
from amends_pipeline.kernel.verdict import first_that_holds


def by_partition(
    report: Report, partition_of: Callable[[tuple[str, str]], int]
) -> Mapping[int, Report]:
    """Return the report of each partition that was judged, none of them accepted yet.

    partition_of: where a stock key lies, given as (item, location).
    """
    partitions = [each.partition for each in report.boundary]
    stops = tuple(map(stopped_in, partitions))
    common = [error for error in report.errors if not error.startswith(stops)]
    parts = {}
    for partition in partitions:
        errors = [*common, *(e for e in report.errors if e.startswith(stopped_in(partition)))]
        part = _part(report, partition, errors, partition_of)
        compared = not report.errors and not report.distance
        if part.errors or part.distance or compared:
            parts[partition] = part
    return parts


def _part(
    report: Report,
    partition: int,
    errors: Sequence[str],
    partition_of: Callable[[tuple[str, str]], int],
) -> Report:
    def lies_here(key: Key | None) -> bool:
        return key is None or partition_of((key.item, key.location)) == partition

    distance = [each for each in report.distance if each.partition in {None, partition}]
    differences = [each for each in report.differences if each.partition == partition]
    rejections = [each for each in report.rejections if each.partition == partition]
    conflicts = [each for each in report.conflicts if lies_here(each.stock_key)]
    not_compared = [each for each in report.not_compared if lies_here(each.stock_key)]
    return Report(
        status=first_that_holds(
            error=bool(errors),
            incomplete=bool(distance),
            blocked=any(each.stock_key is not None for each in not_compared),
            drift=bool(differences),
            excluded=bool(rejections or conflicts),
        ),
        accepted=False,
        boundary=tuple(each for each in report.boundary if each.partition == partition),
        differences=tuple(differences),
        rejections=tuple(rejections),
        conflicts=tuple(conflicts),
        distance=tuple(distance),
        not_compared=tuple(not_compared),
        errors=tuple(errors),
    )
