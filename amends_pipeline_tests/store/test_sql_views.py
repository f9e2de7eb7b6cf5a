"""The views of schema amends, which show names in place of numbers."""

from __future__ import annotations

import json

import psycopg
import pytest

from amends_pipeline.inventory.envelope import Encoder, joined
from amends_pipeline.ports import Role, SourceRecord
from amends_pipeline_tests.contracts.bench import SOURCE, STORY, provisioned, segments_of
from amends_pipeline_tests.tables import configuration


@pytest.fixture
def shown(bench):
    """The story and an alert, published but for the last row, and applied."""
    bench.work(STORY, size=3)
    bench.work("D r1 NEW day 3 -45\n b/C r2 AMEND day 3 -5\n b/D r1 NEW day 1 0")
    relay = bench.claim(Role.RELAY)
    pending = joined([each.envelopes for each in bench.store.pending(bench.unit(), 100)])
    rows = pending.slice(0, len(pending) - 1)
    bench.ledger.outputs.append(bench.unit(), rows)
    bench.store.acknowledge(relay, 0, len(rows))
    bench.project()
    return bench


def wire(bench, envelope):
    """The columns of an envelope as its bytes on the wire tell them."""
    told = json.loads(Encoder(bench.config, 0).encode(envelope))
    output, payload, cause = told["output_id"], told["payload"], told["cause"]
    return (
        output["namespace"],
        cause["partition"],
        output["family"],
        output["stock_key"]["item"],
        output["stock_key"]["location"],
        output.get("day"),
        told["version"],
        told["type"],
        payload.get("close"),
        payload.get("status"),
        cause["offset"],
        cause["txn_id"],
        cause["revision"],
    )


COLUMNS = (
    "namespace, partition, family, item, location, day, version, type, close, status, cause_offset,"
    " cause_txn_id, cause_revision"
)


def test_the_view_outbox_shows_envelopes_one_by_one(shown):
    rows = shown.ledger.sql(
        f"SELECT sequence, acknowledged, {COLUMNS} FROM amends.outbox ORDER BY sequence"  # noqa: S608 - columns of this file
    )
    expected = list(shown.store.outbox(shown.unit()))
    assert rows == [(at, done, *wire(shown, each)) for at, done, each in expected]
    assert [done for _, done, *_ in rows] == [True] * (len(rows) - 1) + [False]


def test_the_view_output_log_shows_envelopes_one_by_one(shown):
    rows = shown.ledger.sql(
        f"SELECT output_offset, {COLUMNS} FROM amends.output_log ORDER BY output_offset"  # noqa: S608 - columns of this file
    )
    logged = segments_of(shown.ledger.outputs.read(shown.unit(), 0, 100))
    assert rows == [(at, *wire(shown, each)) for at, each in logged]
    assert len(rows) == shown.progress().next_sequence - 1


@pytest.mark.parametrize("family", ["balance", "alert", "key_status"])
def test_the_views_of_facts_show_what_readers_see(shown, family):
    columns = [name for name in COLUMNS.split(", ") if name not in {"family", "type"}]
    missing = {"balance": ["status"], "alert": ["status"], "key_status": ["day", "close"]}[family]
    columns = [name for name in columns if name not in missing]
    rows = shown.ledger.sql(f"SELECT {', '.join(columns)} FROM amends.{family}")  # noqa: S608 - columns of this file
    with shown.store.snapshot("main") as snapshot:
        told = [
            dict(zip(COLUMNS.split(", "), wire(shown, each), strict=True))
            for each in snapshot.visible()
        ]
    expected = [
        tuple(each[name] for name in columns)
        for each in told
        if each["family"] == family.replace("_", "-")
    ]
    assert sorted(rows) == sorted(expected)
    assert len(rows) > 0


def test_the_view_alert_tells_the_threshold_and_key_status_the_reasons(shown):
    shown.publish()
    shown.project()
    shown.drain("b/E r1 NEW day 3 -5; b/E r1 NEW day 3 -6")
    assert set(shown.ledger.sql("SELECT threshold FROM amends.alert")) == {(60,)}
    reasons = "SELECT location, reason_txn_ids, reason_revisions FROM amends.key_status ORDER BY 1"
    assert shown.ledger.sql(reasons) == [("DEPOT-A", None, None), ("DEPOT-B", ["E"], [1])]


def test_days_read_as_dates_from_the_first_to_the_last_year(tables):
    days = [-719_163, -719_162, -1, 0, 20_454, 2_932_896]
    told = tables.sql("SELECT amends.day_text(d) FROM unnest(%s::int4[]) d", days)
    assert [text for (text,) in told] == [
        *(None, "0001-01-01", "1969-12-31", "1970-01-01", "2026-01-01", "9999-12-31")
    ]


# The last two have no 30 December 2011 and no 21 August 1993.
@pytest.mark.parametrize(
    "zone", ["UTC", "Asia/Kolkata", "America/New_York", "Pacific/Apia", "Pacific/Kwajalein"]
)
def test_no_zone_of_the_session_decides_a_day(tables, zone):
    days = [-719_162, 8_633, 15_338, 20_454, 20_520, 20_758, 2_932_896]
    with psycopg.connect(tables.url, options=f"-c TimeZone={zone}") as session:
        told = session.execute("SELECT amends.day_text(d) FROM unnest(%s::int4[]) d", (days,))
        assert [text for (text,) in told] == [
            *("0001-01-01", "1993-08-21", "2011-12-30", "2026-01-01"),
            *("2026-03-08", "2026-11-01", "9999-12-31"),
        ]


def test_the_view_source_record_shows_records_one_by_one(tables):
    bench = provisioned(tables, configuration(keys="abc", partitions=2))
    bench.source.append([SourceRecord(1, None, b"one"), SourceRecord(1, b"k", b"")])
    tables.skip(SOURCE, 1, 3)
    bench.source.append([SourceRecord(1, b"", b"\x00\xff"), SourceRecord(0, None, b"other")])
    rows = tables.sql("SELECT * FROM amends.source_record ORDER BY partition, source_offset")
    assert rows == [
        (SOURCE, 0, 0, None, b"other"),
        (SOURCE, 1, 0, None, b"one"),
        (SOURCE, 1, 1, b"k", b""),
        (SOURCE, 1, 5, b"", b"\x00\xff"),
    ]


UNTOLD = """
SELECT c.relname FROM pg_class c
WHERE c.relnamespace = 'amends'::regnamespace AND c.relkind IN ('r', 'v')
    AND c.relname <> 'alembic_version' AND obj_description(c.oid, 'pg_class') IS NULL
"""


def test_every_relation_says_what_one_row_of_it_is(tables):
    assert tables.sql(UNTOLD) == []
