from __future__ import annotations

import random

import msgspec
import pytest

from amends_pipeline.inventory.authority import Authority, Candidate, Observation
from amends_pipeline.inventory.envelope import Cause, Envelope, Type
from amends_pipeline.kernel.errors import DatabaseUnavailable, ProtocolStop
from amends_pipeline.ports import SourceRecord
from amends_pipeline.sources import table
from amends_pipeline.store import bulk, configurations, evidence, pages, segments
from amends_pipeline_tests.contracts.bench import (
    STORY,
    Bench,
    decision,
    provisioned,
    segments_of,
)
from amends_pipeline_tests.contracts.ledgers import MemoryLedger
from amends_pipeline_tests.envelopes import batch, envelopes
from amends_pipeline_tests.store.postgres_ledger import TestedLedger
from amends_pipeline_tests.tables import Line, configuration, day, document, encoded

# --- room

CORRECTED_DAYS = 166
MUST_BYTES, GOAL_BYTES = 250, 30


@pytest.mark.parametrize(("corrections", "days", "bytes_each"), [(200, CORRECTED_DAYS, GOAL_BYTES)])
def test_an_envelope_takes_little_room(bench, corrections, days, bytes_each):
    token = bench.claim()
    for number in range(corrections):
        rows = [
            Envelope(0, Type.BALANCE_STATED, day(at), number + 1, -7_000 + at, _cause(number), ())
            for at in range(1, days + 1)
        ]
        here = decision(number, number + 1, number * days, envelopes=batch(rows))
        bench.store.commit(token, [here])
    ((stored,),) = bench.ledger.sql("SELECT pg_total_relation_size('amends.outbox_segment')")
    assert stored / (corrections * days) <= bytes_each < MUST_BYTES


def _cause(number):
    return Cause(1_000_000 + number, f"T{number:08d}", 2)


def test_a_correction_rewrites_its_suffix_and_no_other_row(bench):
    """Of some twelve pages of two keys, the pages from the corrected day on, of its key alone."""
    days = [day(at) for at in range(1, 64 * 12, 8)]
    both = "A{0} r1 NEW day {0} 1\n b/A{0} r1 NEW day {0} 1\n"
    bench.work("".join(both.format(at) for at in range(1, 64 * 12, 8)), size=500)
    state = "SELECT key, page, ctid::text FROM amends.key_page ORDER BY key, page"
    before = bench.ledger.sql(state)
    assert [row[:2] for row in before] == [
        (key, page) for key in (0, 1) for page in sorted(set(map(pages.page_of, days)))
    ]
    bench.work("A577 r2 AMEND day 577 5")
    changed = [row[:2] for row in bench.ledger.sql(state) if row not in before]
    suffix = sorted({pages.page_of(each) for each in days if each >= day(577)})
    assert changed == [(0, page) for page in suffix]
    assert len(suffix) < 5


# --- source segments


def sizes(ledger):
    return ledger.sql(
        "SELECT base, count, length(record_values) FROM amends.source_segment ORDER BY base"
    )


def test_segments_of_the_source_log_end_at_a_number_of_records(bench):
    values = [b"%d" % number for number in range(2 * table.SEGMENT_RECORDS + 1)]
    assert bench.source.append(SourceRecord(0, None, value) for value in values) == [len(values)]
    assert [(base, count) for base, count, _ in sizes(bench.ledger)] == [
        (0, 4_096),
        (4_096, 4_096),
        (8_192, 1),
    ]
    read = bench.source.read(0, 4_000, 4_200, 1_000)
    assert list(read.values) == values[4_000:4_200]
    assert list(read.offsets) == list(range(4_000, 4_200))


def test_segments_of_the_source_log_end_at_a_number_of_bytes(bench):
    large, small = b"x" * (table.SEGMENT_BYTES - 1), b"y"
    values = [small, large, small, small, b"z" * (2 * table.SEGMENT_BYTES), small]
    bench.source.append(SourceRecord(0, None, value) for value in values)
    assert [row[:2] for row in sizes(bench.ledger)] == [(0, 2), (2, 3), (5, 1)]
    assert list(bench.source.read(0, 0, 6, 10).values) == values


def test_an_append_longer_than_its_buffer_is_one_append_all_the_same(tables, monkeypatch):
    monkeypatch.setattr(table, "BUFFERED_BYTES", 10)
    bench = provisioned(tables, configuration(keys="abc", partitions=3))
    records = [SourceRecord(number % 3, None, b"%03d" % number) for number in range(20)]
    assert list(bench.source.append(iter(records))) == [7, 7, 6]
    for partition in range(3):
        values = [record.value for record in records if record.partition == partition]
        assert list(bench.source.read(partition, 0, 9, 99).values) == values


def test_an_append_that_breaks_off_leaves_nothing(tables, monkeypatch):
    monkeypatch.setattr(table, "BUFFERED_BYTES", 10)
    bench = provisioned(tables)

    def broken():
        yield from (SourceRecord(0, None, b"12345678") for _ in range(9))
        raise ZeroDivisionError

    before = tables.dump()
    with pytest.raises(ZeroDivisionError):
        bench.source.append(broken())
    assert tables.dump() == before


# --- long transaction ids

LONGEST = evidence.LONGEST_INDEXED


def long_ids():
    alike = "é😀" * LONGEST
    yield from ("x" * LONGEST, "x" * (LONGEST + 1), "x" * (LONGEST + 2))
    yield from (alike, alike + "!", alike[:-1] + "?", "y" * 900_000)
    yield evidence.indexed(alike)  # what stands for another one in the index


def test_transaction_ids_of_any_length_are_identities(bench):
    ids = list(long_ids())
    assert len(set(map(evidence.indexed, ids))) == len(ids)
    for at, txn_id in enumerate(ids):
        record = document(("DEMO-PART", "DEPOT-A"), txn_id, 1, "NEW", "2026-01-02T12:00:00Z", -at)
        bench.append_lines([Line(encoded(record))])
    bench.drain()
    known = bench.store.authorities(bench.unit(), [(0, txn_id) for txn_id in [*ids, "z" * 700]])
    assert {txn_id: each.candidate.qty for (_, txn_id), each in known.items()} == {
        txn_id: -at for at, txn_id in enumerate(ids)
    }
    found = bench.store.evidence(bench.unit(), 0)
    assert [txn_id for txn_id, _ in found.authorities] == sorted(ids)


def test_records_of_long_identities_take_over_and_conflict(bench):
    first, second = "a" * 5_000, "a" * 5_001
    candidate = Candidate(1, "NEW", day(1), 0, 5)
    later = Candidate(2, "AMEND", day(2), 1, -(2**63))
    token = bench.claim()
    old = {
        (0, txn_id): Authority(candidate, at, conflicted=False)
        for at, txn_id in enumerate((first, second))
    }
    bench.store.commit(token, [decision(0, 2, authorities=old)])
    new = {
        (0, first): Authority(later, 2, conflicted=False),
        (0, second): Authority(candidate, 1, conflicted=True),
    }
    seen = [
        Observation(0, first, 0, candidate),
        Observation(0, second, 3, msgspec.structs.replace(candidate, qty=6)),
    ]
    bench.store.commit(token, [decision(2, 4, authorities=new, observations=seen)])
    assert bench.store.authorities(bench.unit(), new) == new
    with bench.store.snapshot("main") as snapshot:
        assert [(each.txn_id, each.revision) for each in snapshot.conflicts()] == [(second, 1)]


# --- many rows at once go another way


def test_large_slices_are_kept_as_memory_keeps_them(tables):
    draw = random.Random(5)  # noqa: S311 - a drawn history, the same each time
    lines = []
    for number in range(1_500):
        letter = draw.choice("abc")
        txn_id = f"{draw.choice('ST😀')}{draw.randrange(number // 2 + 1)}"
        when = f"2026-{draw.randrange(1, 13):02d}-{draw.randrange(1, 28):02d}T12:00:00Z"
        key = ("DEMO-PART", f"DEPOT-{letter.upper()}")
        record = document(key, txn_id, draw.randrange(4), "NEW", when, draw.randrange(-9, 9))
        lines.append(Line(encoded(record) if draw.random() < 0.7 else b"{" * draw.randrange(9)))
    seen = []
    for ledger in (MemoryLedger(), tables):
        bench = provisioned(ledger)
        bench.append_lines(lines)
        bench.drain(size=700)
        observed = bench.observed()
        for part in ("binding", "info"):
            observed[part] = observed[part]._replace(incarnation="")
        observed["snapshot"].pop("incarnation")
        observed["snapshot"]["info"] = observed["info"]
        observed["main|p0"].pop("segments")
        seen.append(observed)
    assert len(seen[0]["snapshot"]["quarantine"]) > 300
    assert seen[0] == seen[1]


def test_texts_of_any_length_are_kept_in_parts(tables, monkeypatch):
    """A parameter has a limit; what does not fit into one goes in several."""
    monkeypatch.setattr(bulk, "LARGEST_BYTES", 2_000)
    monkeypatch.setattr(evidence, "LARGEST_BYTES", 2_000)
    lines = []
    for number in range(30):
        txn_id = f"{number}" * (40 * (number % 5) + 1)
        key, when = ("DEMO-PART", f"DEPOT-{'ABC'[number % 3]}"), f"2026-01-{number % 9 + 1:02d}"
        lines.append(Line(encoded(document(key, txn_id, 1, "NEW", f"{when}T12:00:00Z", -9))))
        lines.append(Line(b"{" * (100 * number)))
    seen = []
    for ledger in (MemoryLedger(), tables):
        bench = provisioned(ledger)
        for each in lines:
            bench.append_lines([each])
        bench.drain(size=60)
        observed = bench.observed()
        seen.append((observed["main|p0"], observed["snapshot"]["visible"]))
        rejected = observed["snapshot"]["quarantine"]
        assert [len(each.rejection.value) for each in rejected] == [100 * at for at in range(30)]
    assert len(seen[1][0].pop("segments")) > len(seen[0][0].pop("segments"))
    assert seen[0] == seen[1]


def test_a_read_of_many_segments_goes_on_to_its_limit(bench):
    values = [b"%d" % at for at in range(50)]
    for value in values:
        bench.source.append([SourceRecord(0, None, value)])
    for limit in (1, 15, 16, 17, 32, 33, 50, 60):
        records = bench.source.read(0, 0, 50, limit)
        assert list(records.values) == values[:limit]
        assert records.until == min(limit, 50)


# --- configurations


def test_a_configuration_is_read_once_in_the_life_of_a_process(bench, tables):
    configurations.configurations.__init__()
    first = bench.store.config("main")
    assert first == bench.config
    assert first is not bench.config
    with tables.reopened() as ledger:
        tables.sql("DELETE FROM amends.stock_key")
        assert ledger.store.config("main") is first


@pytest.mark.parametrize(
    "spoilt", ["opening = 101", "threshold = 61", "item = 'x'", "partition = 1"]
)
def test_a_configuration_that_was_tampered_with_is_not_believed(bench, tables, spoilt):
    configurations.configurations.__init__()
    tables.sql(f"UPDATE amends.stock_key SET {spoilt} WHERE number = 1")  # noqa: S608 - words of the table above
    with pytest.raises(DatabaseUnavailable, match=f"expected digest {bench.config.digest}"):
        bench.store.config("main")


def test_only_the_last_few_configurations_are_kept(bench):
    kept = configurations.configurations
    for number in range(configurations.KEPT_CONFIGURATIONS + 3):
        provisioned(bench.ledger, configuration(keys="abc", namespace=f"n{number}"))
    assert kept.get(bench.config.digest) is None
    assert bench.store.config("main") == bench.config


# --- segments that somebody spoilt

FOUR = """
    a day 1 alert v1 50, by A r1 at 0
    a day 1 balance v1 50, by A r1 at 0
    a day 2 balance v1 30, by B r1 at 1
    a status v1 READY, by A r1 at 0
"""
SPOILT = {
    "another encoder": ("encoder_version = 99", 0),
    "a null type": ("type[3] = NULL", 2),
    "a null day at the end": ("day[4] = NULL", 3),
    "a cause that is not there": ("cause_index[2] = 3", 1),
    "a cause before the first": ("cause_index[1] = -1", 0),
    "too few keys": ("key = key[1:3]", 3),
    "too many keys": ("key = key || 0", 4),
    "too few causes": ("cause_txn_id = cause_txn_id[1:1]", 2),
    "no versions": ("version = NULL", 0),
    "another count": ("count = 5", 4),
}


@pytest.mark.parametrize("long", [1, segments.MANY_ROWS])
@pytest.mark.parametrize(("damage", "sound"), SPOILT.values(), ids=SPOILT)
def test_what_precedes_a_spoilt_row_is_read_and_then_the_log_stops(
    bench, damage, sound, long, monkeypatch
):
    monkeypatch.setattr(segments, "MANY_ROWS", long)
    outputs, unit, four = bench.ledger.outputs, bench.unit(), envelopes(FOUR)
    outputs.append(unit, batch(four))
    outputs.append(unit, batch(four))
    bench.ledger.sql(f"UPDATE amends.output_segment SET {damage} WHERE base = 4")  # noqa: S608 - words of the table above
    for start in (0, 2, 4):
        read = []
        with pytest.raises(ProtocolStop, match=f"at {4 + sound}: expected"):
            read.extend(outputs.read(unit, start, 100))
        assert segments_of(read) == list(enumerate(four + four[:sound]))[start:]


WITH_REASONS = """
    a day 1 balance v1 50, by A r1 at 0
    a status v1 BLOCKED by A r1, B r2, by B r2 at 1
    b status v1 BLOCKED by A r1, B r2, by B r2 at 2
"""


@pytest.mark.parametrize("long", [1, segments.MANY_ROWS])
@pytest.mark.parametrize(
    "damage",
    [
        "reason_position[1] = -1",
        "reason_position[4] = 3",
        "reason_position[2] = NULL",
        "reason_position = NULL",
        "reason_txn_id[3] = NULL",
        "reason_txn_id = reason_txn_id[1:3]",
        "reason_revision[4] = NULL",
        "reason_revision = reason_revision || 1::int8",
    ],
)
def test_spoilt_reasons_are_those_of_no_envelope(bench, damage, long, monkeypatch):
    monkeypatch.setattr(segments, "MANY_ROWS", long)
    outputs, unit, three = bench.ledger.outputs, bench.unit(), envelopes(WITH_REASONS)
    outputs.append(unit, batch(three))
    outputs.append(unit, batch(three))
    bench.ledger.sql(f"UPDATE amends.output_segment SET {damage} WHERE base = 3")  # noqa: S608 - words of the table above
    read = []
    with pytest.raises(ProtocolStop, match="at 4: expected"):
        read.extend(outputs.read(unit, 0, 100))
    assert segments_of(read) == list(enumerate([*three, three[0]]))


def test_a_gap_in_the_output_log_is_no_place_to_go_on(bench):
    outputs, unit, four = bench.ledger.outputs, bench.unit(), envelopes(FOUR)
    for _ in range(3):
        outputs.append(unit, batch(four))
    bench.ledger.sql("DELETE FROM amends.output_segment WHERE base = 4")
    with pytest.raises(ProtocolStop, match="expected offset 4, found 8"):
        list(outputs.read(unit, 0, 100))


def test_a_spoilt_outbox_is_not_published(bench):
    bench.work("A r1 NEW day 1 -50")
    bench.ledger.sql("UPDATE amends.outbox_segment SET type[2] = NULL")
    with pytest.raises(ProtocolStop):
        bench.store.pending(bench.unit(), 10)


# --- settings that a server or a role may have

SETTINGS = {
    "search path": "search_path=pg_temp",
    "dates": "DateStyle=German,DMY",
    "time zone": "TimeZone=Asia/Kolkata",
    "bytes": "bytea_output=escape",
    "isolation": "default_transaction_isolation=serializable",
    "plans": "plan_cache_mode=force_generic_plan",
}


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_a_role_with_other_settings_gets_the_same_ledger(tables, setting):
    url = f"{tables.url}&options=-c%20{setting.replace('=', '%3D').replace(',', '%2C%20')}"
    url = url.replace("%2C%20DMY", "%2CDMY")
    plain = provisioned(tables)
    with TestedLedger(url) as ledger:
        bench = Bench(ledger, plain.config)
        bench.drain(STORY, size=3)
        assert bench.observed() == plain.observed()
        old = bench.claim()
        plain.claim()
        with pytest.raises(Exception, match="expected epoch"):
            bench.store.commit(old, [decision(10, 11, bench.progress().next_sequence)])
