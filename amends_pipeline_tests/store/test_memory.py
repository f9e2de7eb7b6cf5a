"""What the memory ledger does beyond the contract, so that others' mistakes show against it."""

from __future__ import annotations

from pathlib import Path

import pytest

from amends_pipeline.inventory.config import load_configuration
from amends_pipeline.inventory.refold import EVERY_DAY, Rows
from amends_pipeline.inventory.wire import decode
from amends_pipeline.kernel.errors import AlreadyLanded, InputError, ProtocolStop
from amends_pipeline.kernel.instants import MAX_DAY, MIN_DAY
from amends_pipeline.ports import Landed, SourceRecord
from amends_pipeline.store.memory_tables import MemoryTables
from amends_pipeline_tests.contracts.bench import STORY, Bench, change, decision, provisioned, state
from amends_pipeline_tests.contracts.ledgers import MemoryLedger
from amends_pipeline_tests.tables import configuration

GOLDEN = Path(__file__).parents[2] / "fixtures" / "golden"


@pytest.fixture
def bench():
    return provisioned(MemoryLedger(), configuration(keys="abc", origin="0001-01-01T00:00:00Z"))


def row(day: int, close: int):
    return (day, 0, 1, close, True, False, 1, 0)


DAYS = [10, 20, 30, 40]


@pytest.mark.parametrize(
    ("from_day", "days", "before"),
    [
        (EVERY_DAY, DAYS, 100),
        (MIN_DAY, DAYS, 100),
        (10, DAYS, 100),
        (11, [20, 30, 40], 1),
        (20, [20, 30, 40], 1),
        (21, [30, 40], 2),
        (40, [40], 3),
        (41, [], 4),
        (MAX_DAY, [], 4),
    ],
)
def test_exactly_the_suffix_is_loaded(bench, from_day, days, before):
    whole = state(rows=[row(day, day // 10) for day in DAYS])
    bench.store.commit(bench.claim(), [decision(keys={0: change(whole)})])
    loaded = bench.store.keys(bench.unit(), {0: from_day})[0]
    assert (loaded.loaded_from, loaded.rows.days, loaded.before) == (from_day, days, before)


@pytest.mark.parametrize(
    ("span", "stored"),
    [((0, 0), []), ((1, 2), [1]), ((0, 4), [0, 1, 2, 3]), ((3, 4), [3]), ((2, 2), [])],
    ids=str,
)
def test_only_rows_that_are_said_to_have_changed_are_stored(bench, span, stored):
    token = bench.claim()
    old = state(rows=[row(day, 1) for day in DAYS])
    bench.store.commit(token, [decision(keys={0: change(old)})])
    new = state(rows=[row(day, 2) for day in DAYS])
    bench.store.commit(token, [decision(1, 2, keys={0: change(new, *span)})])
    closes = bench.store.keys(bench.unit(), {0: EVERY_DAY})[0].rows.closes
    assert closes == [2 if at in stored else 1 for at in range(4)]


def test_a_row_that_a_decision_leaves_out_stays_and_shows(bench):
    token = bench.claim()
    bench.store.commit(token, [decision(keys={0: change(state(rows=[row(10, 1), row(20, 2)]))})])
    bench.store.commit(token, [decision(1, 2, keys={0: change(state(rows=[row(20, 3)]))})])
    rows = bench.store.keys(bench.unit(), {0: EVERY_DAY})[0].rows
    assert rows == Rows(*map(list, zip(row(10, 1), row(20, 3), strict=True)))


def test_the_output_log_keeps_the_canonical_bytes():
    config = load_configuration(GOLDEN / "configuration.json")
    ledger = MemoryLedger()
    ledger.source(config.source).create(config.partitions)
    ledger.store.provision(
        config, ledger.source(config.source).incarnation(), [0] * 3, follows=True
    )
    bench = Bench(ledger, config)
    raw = (GOLDEN / "envelopes.jsonl").read_bytes()[:-1].split(b"\n")
    assert ledger.outputs.append_bytes(bench.unit(2), raw) == 0
    (segment,) = ledger.outputs.read(bench.unit(2), 0, 100)
    assert list(segment.envelopes) == [decode(config, 2, each) for each in raw]
    ledger.outputs.append(bench.unit(2), segment.envelopes)
    assert ledger.outputs.raw_rows(bench.unit(2)) == raw * 2


@pytest.mark.parametrize(("start", "limit", "sizes"), [(0, 3, [2, 1]), (1, 3, [1, 2]), (3, 9, [1])])
def test_the_output_log_gives_what_was_appended_together_up_to_its_limit(
    bench, start, limit, sizes
):
    bench.work("A r1 NEW day 1 -5")
    (segment,) = bench.store.pending(bench.unit(), 100)
    assert len(segment.envelopes) == 2
    for _ in range(2):
        bench.ledger.outputs.append(bench.unit(), segment.envelopes)
    segments = list(bench.ledger.outputs.read(bench.unit(), start, limit))
    assert [len(each.envelopes) for each in segments] == sizes
    assert segments[0].base == start


def test_a_stop_of_the_output_log_names_the_offset_and_the_member(bench):
    bench.work(STORY)
    bench.publish()
    raw = bench.ledger.outputs.raw_rows(bench.unit())[0]
    bench.ledger.outputs.append_bytes(bench.unit(), [raw.replace(b'"version":1', b'"version":0')])
    end = bench.ledger.outputs.end(bench.unit())
    with pytest.raises(ProtocolStop, match=f"output offset {end - 1}, envelope.version"):
        list(bench.ledger.outputs.read(bench.unit(), end - 1, 1))


def landing(name: str, digest: str) -> Landed:
    return Landed("depot-feed-1", digest, name, 0, None, "2026-02-01T00:00:00Z")


def test_a_file_lands_once(bench):
    records = [SourceRecord(0, None, b"1"), SourceRecord(0, None, b"2")]
    bench.source.append(records, landing=landing("a.jsonl", "d1"))
    with pytest.raises(AlreadyLanded, match=r"again\.jsonl"):
        bench.source.append(records, landing=landing("again.jsonl", "d1"))
    with pytest.raises(InputError):
        bench.source.append(
            [*records, SourceRecord(9, None, b"3")], landing=landing("b.jsonl", "d2")
        )
    assert bench.source.extents()[0].end == 2
    bench.source.append(records, landing=landing("b.jsonl", "d2"))
    landed = bench.ledger.tables.landed["depot-feed-1"]
    assert [(each.name, each.records) for each in landed] == [("a.jsonl", 2), ("b.jsonl", 2)]


def test_incarnations_can_be_given():
    names = iter(["first", "second"])
    ledger = MemoryLedger(MemoryTables(new_id=lambda: next(names)))
    source = ledger.source("depot-feed-1")
    source.create(1)
    assert source.incarnation() == "first"
    source.recreate()
    assert source.incarnation() == "second"
