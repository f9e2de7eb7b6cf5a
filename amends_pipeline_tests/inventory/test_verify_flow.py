"""The flow: which boundary is judged, by whose records, and what is waited for."""

from __future__ import annotations

import pytest

from amends_pipeline.flows import verify as flow
from amends_pipeline.flows.verify import verify
from amends_pipeline.inventory.verify import Status
from amends_pipeline.kernel.errors import DatabaseUnavailable, InputError
from amends_pipeline.ports import ConflictRef, Extent, SetAside
from amends_pipeline_tests.inventory.moments import (
    CORRECTED,
    CORRECTED_ROWS,
    KEY_A,
    KEY_B,
    TWO,
    Moment,
    Store,
    manifest,
    quarantined,
    verified,
)

MAX = 2**63 - 1


def test_a_run_is_judged_at_the_boundary_that_it_captured():
    records = CORRECTED + "\nLATER r1 NEW day 9 1\nLATER r1 NEW day 9 2"
    moment = Moment(records, CORRECTED_ROWS, worker_next=4)
    report = verified(moment, until={0: 4})
    assert (report.status, report.boundary[0].source_end) == (Status.PASS, 4)
    assert moment.read == [(0, 0, 4)]
    assert verified(moment).status is Status.INCOMPLETE
    past = verified(Moment(records, CORRECTED_ROWS, worker_next=6), until={0: 4})
    assert past.status is Status.INCOMPLETE
    assert [each.says for each in past.distance] == [
        "partition 0: worker_next 6 is past the boundary 4"
    ]


def test_a_boundary_that_the_source_does_not_reach_is_incomplete():
    moment = Moment(CORRECTED, CORRECTED_ROWS, worker_next=6)
    report = verified(moment, until={0: 6})
    assert report.status is Status.INCOMPLETE
    assert [each.says for each in report.distance] == [
        "partition 0: the source ends at 4, before 6"
    ]
    assert moment.read == []


def test_a_namespace_starts_at_its_first_offset():
    moment = Moment(CORRECTED, CORRECTED_ROWS, first=10, extent=Extent(3, 14))
    assert verified(moment).status is Status.PASS
    assert moment.read == [(0, 10, 14)]


def test_a_set_aside_record_is_an_exclusion():
    moment = Moment(
        f"A r1 NEW day 1 {MAX}\nB r1 NEW day 1 1",
        "a READY\na day 1: 101",
        set_asides_=[SetAside(0, "overflows")],
    )
    moment.quarantine_ = [quarantined(0, "SET_ASIDE", value=moment.log[0].value)]
    report = verified(moment)
    assert report.status is Status.PASS_WITH_EXCLUSIONS
    entry = {"partition": 0, "offset": 0, "code": "SET_ASIDE"}
    assert report.accepts(manifest({"rejections": [entry]}))


UNIT = Moment(
    "A r1 NEW day 1 1\nb/B r1 NEW day 1 2\nb/B r1 NEW day 1 3\nb/B r2 NEW day 1 4",
    """
    a READY
    a day 1: 0
    b READY
    b day 1: 104
    """,
    namespace=TWO,
    partition=1,
    quarantine_=[quarantined(5, "KIND")],
    conflicts_=[
        ConflictRef("DEMO-PART", "DEPOT-A", "A", 1),
        ConflictRef("DEMO-PART", "DEPOT-B", "B", 1),
    ],
)
UNIT.quarantine_.append(quarantined(0, "ROUTING", value=UNIT.log[0].value, partition=1))


def test_a_unit_is_judged_by_its_own_keys_and_records():
    report = verified(UNIT, partitions=[1])
    assert (report.status, report.differences) == (Status.PASS_WITH_EXCLUSIONS, ())
    assert [each.partition for each in report.boundary] == [1]
    whole = verified(UNIT)
    assert whole.status is Status.DRIFT
    assert [(each.kind, each.partition) for each in whole.differences] == [
        ("status", 0),
        ("conflict", 0),
        ("rejection", 0),
        ("balance", 0),
    ]


def test_a_unit_is_accepted_by_its_part_of_the_namespaces_manifest():
    own = {
        "rejections": [{"partition": 1, "offset": 0, "code": "ROUTING"}],
        "conflicts": [{"stock_key": KEY_B, "txn_id": "B", "revision": 1}],
    }
    others = {
        "rejections": [{"partition": 0, "offset": 9, "code": "ROUTING"}],
        "conflicts": [{"stock_key": KEY_A, "txn_id": "A", "revision": 1}],
    }
    both = manifest({name: own[name] + others[name] for name in own})
    assert verified(UNIT, partitions=[1], manifest=both).accepted
    assert not verified(UNIT, partitions=[1], manifest=manifest(others)).accepted
    assert not verified(UNIT, manifest=both).accepted


@pytest.mark.parametrize("partition", [-1, 2])
def test_a_partition_that_the_namespace_does_not_have_is_an_input_error(partition):
    with pytest.raises(InputError, match="expected a partition from 0 to 1"):
        verified(UNIT, partitions=[partition])


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    fake = Clock()
    monkeypatch.setattr(flow, "time", fake)
    return fake


ARRIVED = Moment(CORRECTED, CORRECTED_ROWS)
ON_ITS_WAY = Moment(CORRECTED, CORRECTED_ROWS, pending=1)
UNREAD = Moment(CORRECTED, CORRECTED_ROWS, view_next=7)


def test_a_verification_waits_for_relay_and_view(clock):
    store = Store(ON_ITS_WAY, ON_ITS_WAY, UNREAD, ARRIVED)
    assert verify(store, "main").status is Status.PASS
    assert (store.opened, store.open) == (4, 0)
    assert 0 < clock.now < 1


def test_a_verification_gives_up_after_ten_seconds(clock):
    store = Store(ON_ITS_WAY)
    assert verify(store, "main").status is Status.INCOMPLETE
    assert 10 <= clock.now < 10.2


@pytest.mark.parametrize(
    ("moment", "arguments"),
    [
        (Moment(CORRECTED, worker_next=2), {}),
        (Moment(CORRECTED, stop="broken", pending=1), {}),
        (ON_ITS_WAY, {"until": {0: 4}}),
        (ON_ITS_WAY, {"wait_seconds": 0}),
        (Moment(CORRECTED, namespace=TWO, pending=1), {"partitions": [1]}),
    ],
    ids=[
        "a worker behind",
        "a view that stopped",
        "a run's own boundary",
        "told not to",
        "another unit",
    ],
)
def test_a_verification_does_not_wait_for(clock, moment, arguments):
    store = Store(moment)
    verify(store, "main", **arguments)
    assert (store.opened, clock.now) == (1, 0)


def test_progress_counts_source_offsets():
    told = []
    moment = Moment(CORRECTED, CORRECTED_ROWS, first=10, namespace=TWO)
    verified(moment, progress=lambda *counts: told.append(counts))
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_what_the_store_raises_passes():
    class Unreachable(Moment):
        def set_asides(self, _):
            raise DatabaseUnavailable("store", expected="an answer", found="none")

    with pytest.raises(DatabaseUnavailable):
        verified(Unreachable(CORRECTED, CORRECTED_ROWS))
