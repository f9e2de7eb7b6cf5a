"""What a namespace's report says of each partition by itself."""

from __future__ import annotations

import pytest

from amends_pipeline.inventory.by_partition import by_partition
from amends_pipeline.inventory.classify import Code
from amends_pipeline.inventory.compare import BalanceFact, Difference, Key, Kind
from amends_pipeline.inventory.verify import (
    ConflictingRevision,
    Distance,
    NotCompared,
    PartitionBoundary,
    RejectedRecord,
    Report,
)
from amends_pipeline.kernel.verdict import Status, first_that_holds

HOMES = {("A", "L"): 0, ("B", "L"): 1, ("C", "L"): 2}
ALWAYS = NotCompared(what="versions, causes and order of publication")
NOTHING = NotCompared(what="anything: there is no complete boundary to compare at")


def boundary(partition: int) -> PartitionBoundary:
    return PartitionBoundary(
        partition=partition,
        source_end=10 + partition,
        worker_next=10,
        pending=0,
        output_end=20 + partition,
        view_next=20,
    )


def key(partition: int) -> Key:
    [(item, location)] = [key for key, home in HOMES.items() if home == partition]
    return Key(item=item, location=location)


def difference(partition: int, kind=Kind.BALANCE) -> Difference:
    return Difference(
        kind=kind, partition=partition, expected=BalanceFact(close=partition), found=None
    )


def rejection(partition: int) -> RejectedRecord:
    return RejectedRecord(partition=partition, offset=partition, code=Code.KIND)


def conflict(partition: int) -> ConflictingRevision:
    return ConflictingRevision(stock_key=key(partition), txn_id="T", revision=1)


def blocked(partition: int) -> NotCompared:
    return NotCompared(what="balances and alerts of a blocked key", stock_key=key(partition))


def distance(partition: int | None) -> Distance:
    stage = "incarnation" if partition is None else "worker"
    return Distance(stage=stage, partition=partition, by=1, says="not there yet")


def stop(partition: int) -> str:
    return f"partition {partition}: the view stopped at 7: version 3 is missing"


def report(*parts) -> Report:
    """A report over three partitions that holds the given parts."""

    def of(kind) -> tuple:
        return tuple(each for each in parts if isinstance(each, kind))

    errors, distances, differences = of(str), of(Distance), of(Difference)
    rejections, conflicts, keys = of(RejectedRecord), of(ConflictingRevision), of(NotCompared)
    status = first_that_holds(
        error=bool(errors),
        incomplete=bool(distances),
        blocked=bool(keys),
        drift=bool(differences),
        excluded=bool(rejections or conflicts),
    )
    return Report(
        status=status,
        accepted=status is Status.PASS,
        boundary=tuple(map(boundary, range(3))),
        differences=differences,
        rejections=rejections,
        conflicts=conflicts,
        distance=distances,
        not_compared=(NOTHING,) if errors or distances else (ALWAYS, *keys),
        errors=errors,
    )


CASES = [
    # what the report holds, then the status of each partition, None where it was not compared
    ([], "PASS PASS PASS"),
    ([difference(1)], "PASS DRIFT PASS"),
    ([difference(2), rejection(0)], "PASS_WITH_EXCLUSIONS PASS DRIFT"),
    ([conflict(1)], "PASS PASS_WITH_EXCLUSIONS PASS"),
    ([blocked(0), difference(0), difference(1)], "BLOCKED DRIFT PASS"),
    ([distance(1)], "None INCOMPLETE None"),
    ([distance(1), rejection(1), rejection(0)], "None INCOMPLETE None"),
    ([distance(None)], "INCOMPLETE INCOMPLETE INCOMPLETE"),
    ([distance(None), stop(2)], "INCOMPLETE INCOMPLETE ERROR"),
    (["oracle: no answer"], "ERROR ERROR ERROR"),
    ([stop(1)], "None ERROR None"),
    ([stop(1), distance(1), distance(2)], "None ERROR INCOMPLETE"),
    ([stop(0), "oracle: no answer"], "ERROR ERROR ERROR"),
]


@pytest.mark.parametrize(("holds", "statuses"), CASES)
def test_each_partition_has_the_status_of_what_is_said_about_it(holds, statuses):
    parts = by_partition(report(*holds), HOMES.__getitem__)
    told = [str(parts[at].status) if at in parts else "None" for at in range(3)]
    assert told == statuses.split()


def test_every_row_stands_in_the_report_of_its_partition_and_in_no_other():
    holds = [
        *(make(at) for at in range(3) for make in (difference, rejection, conflict)),
        difference(1, Kind.STATUS),
        blocked(2),
    ]
    parts = by_partition(report(*holds), HOMES.__getitem__)
    for at in range(3):
        kinds = [Kind.BALANCE, Kind.STATUS] if at == 1 else [Kind.BALANCE]
        assert parts[at] == Report(
            status=Status.BLOCKED if at == 2 else Status.DRIFT,
            accepted=False,
            boundary=(boundary(at),),
            differences=tuple(difference(at, kind) for kind in kinds),
            rejections=(rejection(at),),
            conflicts=(conflict(at),),
            not_compared=(ALWAYS, blocked(2)) if at == 2 else (ALWAYS,),
        )


def test_errors_and_distances_go_to_the_partitions_that_they_are_about():
    holds = [stop(1), stop(2), "oracle: no answer", distance(None), distance(0)]
    parts = by_partition(report(*holds), HOMES.__getitem__)
    assert [parts[at].errors for at in range(3)] == [
        ("oracle: no answer",),
        ("oracle: no answer", stop(1)),
        ("oracle: no answer", stop(2)),
    ]
    assert [parts[at].distance for at in range(3)] == [
        (distance(None), distance(0)),
        (distance(None),),
        (distance(None),),
    ]


def test_partition_ten_is_not_told_of_the_view_of_partition_one():
    """A report with two partitions, 1 and 10, of which one name begins like the other."""
    whole = report(stop(1)).model_copy(update={"boundary": (boundary(1), boundary(10))})
    assert list(by_partition(whole, HOMES.__getitem__)) == [1]
