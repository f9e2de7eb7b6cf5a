"""A source that was lost and made anew is not the one that its namespaces are bound to."""

from __future__ import annotations

import pytest

from amends_pipeline.flows.append import Line, append
from amends_pipeline.flows.catch_up import catch_up
from amends_pipeline.flows.drain import Options
from amends_pipeline.flows.landing import land
from amends_pipeline.flows.set_aside import set_aside
from amends_pipeline.flows.status import status
from amends_pipeline.flows.verify import verify
from amends_pipeline.kernel.errors import ForeignIncarnation
from amends_pipeline.kernel.verdict import Status
from amends_pipeline.ports import Extent, Unit
from amends_pipeline_tests.contracts.bench import SOURCE, provisioned
from amends_pipeline_tests.contracts.ledgers import MemoryLedger
from amends_pipeline_tests.tables import configuration, history

[RECORD] = history("A r1 NEW day 1 -50")


@pytest.fixture
def lost():
    """A ledger whose source was lost and made anew since it was drained."""
    ledger = MemoryLedger()
    provisioned(ledger, configuration(partitions=2)).drain("A r1 NEW day 1 -50")
    ledger.recreate(SOURCE)
    return ledger


def appended(ledger, _):
    append(ledger, "main", [Line("file", 1, RECORD.value)])


def landed(ledger, folder):
    (folder / SOURCE).mkdir()
    (folder / SOURCE / "one.jsonl").write_bytes(RECORD.value + b"\n")
    list(land(ledger, folder, SOURCE, clock=lambda: 1 << 62))


def set_aside_(ledger, _):
    ledger.source(SOURCE).append([])
    set_aside(ledger, Unit("main", 0), 0, "why not")


def drained(ledger, _):
    catch_up(ledger, "main", Options(holder="test"))


@pytest.mark.parametrize("act", [appended, landed, set_aside_, drained])
def test_nothing_is_done_with_another_source(lost, act, tmp_path):
    found = lost.source(SOURCE).incarnation()
    with pytest.raises(ForeignIncarnation, match=f"expected incarnation .*, found {found}$"):
        act(lost, tmp_path)
    assert lost.source(SOURCE).extents() == [Extent(0, 0)] * 2
    assert lost.store.set_asides(Unit("main", 0)) == []


def test_another_source_of_fewer_partitions_can_be_looked_at(lost):
    del lost.tables.sources[SOURCE]
    lost.source(SOURCE).create(1)
    report = verify(lost.store, "main", wait_seconds=0)
    assert report.status is Status.INCOMPLETE
    assert report.distance[0].stage == "incarnation"
    assert [each.source for each in status(lost, "main").units] == [Extent(0, 0)] * 2
