"""The three uses of the UI, in a real browser: lineage, rebuild by backfill, verdicts."""

from __future__ import annotations

import json
import re
import time
from datetime import datetime

import pytest
from playwright.sync_api import expect

from amends_pipeline.cli.stack_demo import DEMO
from amends_pipeline_tests.browser.reader import REBUILT, VIEW
from amends_pipeline_tests.browser.stack import DEMO_UNITS, PATIENCE, comes_true, verified

pytestmark = pytest.mark.browser

CHAIN = [
    "source_log",
    "source_evidence",
    "projections",
    "committed_outbox",
    "output_log",
    "materialized_view",
]
BUILT_ON_IT = "open_reorders"
LAUNCH_SECONDS = 10
PART, BOLT = DEMO_UNITS
REBUILT_UNITS = [unit._replace(namespace=REBUILT) for unit in DEMO_UNITS]


# Lineage


def test_lineage_shows_the_chain_and_nothing_is_asked_of_other_machines(reader):
    page = reader.page
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(reader.stack.told["links"]["lineage"])
    for asset in [*CHAIN, BUILT_ON_IT]:
        expect(reader.node(asset)).to_be_visible()
    places = [reader.node(asset).bounding_box() for asset in [*CHAIN, BUILT_ON_IT]]
    assert [place["x"] for place in places] == sorted(place["x"] for place in places)
    assert len({round(place["y"]) for place in places}) == 1
    reader.keep("lineage")
    own = (reader.stack.url, "data:", "blob:")
    assert [url for url in asked if not url.startswith(own)] == []


def test_lineage_is_green_up_to_what_is_built_on_the_view(reader, demo):
    reader.page.goto(reader.stack.url)
    with reader.small_window(440):
        reader.open(VIEW, view="lineage", lineageScope="neighbors", lineageDepth=5)
        for asset in [*CHAIN, BUILT_ON_IT]:  # the last one follows the view by itself
            reader.expect_green(asset)
        reader.keep("lineage-in-the-readme")


# Partitions


def test_the_partition_grid_is_filled_and_tells_what_changed(reader, demo):
    page = reader.page
    page.goto(reader.stack.told["links"]["partitions"])
    reader.choose(PART)
    expect(page.get_by_text("Materialized", exact=True)).to_be_visible()
    reader.expect_counted("Materialized", r"[2-9]")
    reader.expect_counted("Failed", "0")
    table = page.get_by_role("cell", name="what_changed", exact=True)
    expect(table).to_be_visible()
    reader.keep("partitions")
    table.scroll_into_view_if_needed()
    reader.keep("what-changed")
    assert [row[:5] for row in reader.table("what_changed")] == [
        ["DEMO-PART", "DEPOT-A", "2026-01-03", "80", "none"],
        ["DEMO-PART", "DEPOT-A", "2026-01-01", "50, alert", "70"],
        ["DEMO-PART", "DEPOT-A", "2026-01-02", "30", "50, alert"],
    ]


# Verdicts


PLANT = """
UPDATE amends.view_row v SET close = close + 7
FROM amends.unit u JOIN amends.namespace n ON n.id = u.namespace_id
WHERE v.unit_id = u.id AND n.name = %s AND u.partition = %s
    AND v.family = 2 AND amends.day_text(v.day) = '2026-01-03'
"""


@pytest.fixture
def mend(judged):
    """A close that is changed behind our back, 227 in place of 220; call it to put it right."""
    with judged.sql() as connection:
        assert connection.execute(PLANT, [BOLT.namespace, BOLT.partition]).rowcount == 1

    def reproject():
        judged.call("reproject", "--namespace", DEMO)

    yield reproject
    reproject()


def test_a_drift_turns_the_check_red_and_shows_the_row_until_it_is_mended(reader, mend):
    page = reader.page
    reader.judge(BOLT)
    reader.keep("verify-run")
    with reader.small_window(850):
        reader.open_check("view_equals_oracle")
        expect(page.get_by_text("Failed", exact=True).first).to_be_visible()
        drift = (
            "DRIFT: 1 row differs: balance of DEMO-BOLT at DEPOT-B on 2026-01-03, expected close"
            " 220, found close 227."
        )
        expect(page.get_by_text(drift)).to_be_visible()
        [row] = reader.table("differences")
        assert " ".join(row).startswith("balance DEMO-BOLT DEPOT-B 2026-01-03 close 220 close 227")
        reader.keep("red-check-in-the-readme")
    reader.open_verdict(BOLT)
    assert reader.value("status") == "DRIFT"
    reader.expect_counted("Failed", "1")
    reader.expect_counted("Missing", "0")
    reader.keep("red-check-of-the-unit")
    reader.open_check("every_unit_is_verified")
    expect(page.get_by_text(re.compile(r"^DRIFT: 1 of \d+ units not verified"))).to_be_visible()
    first, *others = reader.table("all_units")
    assert first[:2] == ["DRIFT", str(BOLT)]
    assert {row[0] for row in others} == {"PASS"}
    reader.keep("red-roll-up")
    mend()
    reader.judge(BOLT)
    reader.open_check("every_unit_is_verified")
    expect(page.get_by_text(re.compile(r"^PASS: \d+ units are verified"))).to_be_visible()
    reader.keep("green-again")


# Rebuild by backfill


def test_a_backfilled_namespace_is_verified_and_follows(reader, backfill, times):
    began = time.monotonic()
    with reader.stack.ledger() as ledger:
        assert comes_true(lambda: ledger.store.info(REBUILT).follows)
        times["backfill launched to namespace follows"] = time.monotonic() - began
        verdicts = [verified(ledger, unit) for unit in REBUILT_UNITS]
    assert [verdict.status for verdict in verdicts] == ["PASS", "PASS"]
    assert reader.stack.balances(REBUILT) == reader.stack.balances(DEMO) != {}
    for unit in REBUILT_UNITS:
        reader.open_verdict(unit)
        assert reader.value("status") == "PASS"
    reader.keep("backfilled-verdict")
    reader.open_check("every_unit_is_verified")
    expect(reader.page.get_by_text(re.compile(r"^PASS: \d+ units are verified"))).to_be_visible()
    assert {str(unit) for unit in REBUILT_UNITS} <= {row[1] for row in reader.table("all_units")}
    reader.keep("backfilled-roll-up")


# An append


def test_an_append_is_followed_by_a_sensor_run_and_a_verdict(reader, judged, times):
    page = reader.page
    before = {run["runId"] for run in judged.runs(PART)}
    correction = {
        "txn_id": "ISSUE-002",
        "revision": 2,
        "kind": "AMEND",
        "stock_key": {"item": "DEMO-PART", "location": "DEPOT-A"},
        "valid_time": "2026-01-02T12:00:00Z",
        "qty": -5,
        "source_time": "2026-01-05T09:00:00Z",
    }
    told = judged.call("append", "--namespace", DEMO, "-", given=json.dumps(correction))
    appended = time.time()

    def launched():
        return [
            run
            for run in judged.runs(PART)
            if run["runId"] not in before and run["jobName"] == "refold" and run["startTime"]
        ]

    [run] = comes_true(launched)
    times["append to run requested"] = run["creationTime"] - appended
    times["append to run started"] = run["startTime"] - appended
    assert run["startTime"] - appended < LAUNCH_SECONDS * PATIENCE
    reader.open("/locations/amends/sensors/new_records")
    expect(page.get_by_text(re.compile(r"^[1-9]\d* runs? requested")).first).to_be_visible()
    reader.keep("sensor")
    at, by = comes_true(lambda: judged.materialized(PART, appended))
    times["append to view"] = at - appended
    assert by == run["runId"]
    reader.open(VIEW, view="partitions", partition=str(PART))
    assert reader.table("what_changed") == [
        ["DEMO-PART", "DEPOT-A", "2026-01-02", "50, alert", "65", "ISSUE-002 r2 at offset 5"]
    ]
    page.get_by_text("[Show Markdown]").first.click()
    expect(page.get_by_role("dialog").get_by_alt_text("before and after")).to_be_visible()
    reader.keep("appended-picture")
    with judged.ledger() as ledger:
        verdict = comes_true(lambda: verified(ledger, PART))
    assert (verdict.status, verdict.source_end) == ("PASS", told["ends"][PART.partition])
    times["append to verdict"] = datetime.fromisoformat(verdict.judged_at).timestamp() - appended
    reader.open("/runs")
    expect(page.get_by_text(run["runId"][:8]).first).to_be_visible()
    reader.keep("runs")


# The backfill as Dagster sees it: its daemon looks every 30 s, so this comes last


def test_the_backfill_itself_has_succeeded(reader, backfill):
    page = reader.page
    reader.open(f"/runs/b/{backfill}", tab="overview")
    expect(page.get_by_text("Succeeded", exact=True).first).to_be_visible()
    expect(page.get_by_text("100% completed")).to_have_count(len([*CHAIN[1:], BUILT_ON_IT]))
    reader.keep("backfill")
