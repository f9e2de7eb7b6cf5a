"""The three uses of the UI, in a real browser: lineage, rebuild by backfill, verdicts."""

from __future__ import annotations

import json
import re
import time
from datetime import datetime

import pytest
from playwright.sync_api import expect

from amends_pipeline.cli.stack_demo import DEMO
from amends_pipeline_tests.browser.reader import CHAIN, VIEW
from amends_pipeline_tests.browser.stack import DEMO_UNITS, PATIENCE, comes_true, verified

pytestmark = pytest.mark.browser

LAUNCH_SECONDS = 10
PART, BOLT = DEMO_UNITS
REBUILT = "rebuild-1"


# Lineage


def test_lineage_shows_the_chain_from_the_source_log_to_what_is_built_on_the_view(reader, context):
    page = reader.page
    strangers = []
    context.on(
        "request",
        lambda request: (
            request.url.startswith((reader.stack.url, "data:", "blob:"))
            or strangers.append(request.url)
        ),
    )
    page.goto(reader.stack.told["links"]["lineage"])
    nodes = [page.get_by_text(name, exact=True).last for name in CHAIN]
    for node in nodes:
        expect(node).to_be_visible()
    places = [node.bounding_box() for node in nodes]
    assert [place["x"] for place in places] == sorted(place["x"] for place in places)
    assert len({round(place["y"]) for place in places}) == 1
    reader.keep("lineage")
    page.get_by_role("button", name="Downstream").click()
    expect(page.get_by_text("open_reorders", exact=True)).to_be_visible()
    reader.keep("lineage-downstream")
    assert strangers == []


# Partitions


def test_the_partition_grid_is_filled_and_tells_what_changed(reader):
    page = reader.page
    page.goto(reader.stack.told["links"]["partitions"])
    reader.choose(PART)
    expect(page.get_by_text("Materialized", exact=True)).to_be_visible()
    assert reader.counted("Materialized") >= len(DEMO_UNITS)
    assert reader.counted("Failed") == 0
    expect(page.get_by_role("cell", name="what_changed", exact=True)).to_be_visible()
    reader.keep("partitions")
    page.get_by_role("cell", name="what_changed", exact=True).scroll_into_view_if_needed()
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
def drift(stack):
    """A close that somebody changed behind our back, until it is mended: 227 in place of 220."""
    mended = []

    def mend():
        if not mended:
            stack.call("reproject", "--namespace", DEMO)
            mended.append(True)

    with stack.sql() as connection:
        planted = connection.execute(PLANT, [BOLT.namespace, BOLT.partition])
        assert planted.rowcount == 1
    yield mend
    mend()


def test_a_drift_turns_the_check_red_and_shows_the_row_until_it_is_mended(reader, drift):
    page = reader.page
    reader.judge(BOLT)
    reader.keep("verify-run")
    reader.open_check("view_equals_oracle")
    expect(page.get_by_text("Failed", exact=True).first).to_be_visible()
    expect(
        page.get_by_text(
            "DRIFT: 1 row differs: balance of DEMO-BOLT at DEPOT-B on 2026-01-03,"
            " expected close 220, found close 227."
        )
    ).to_be_visible()
    [row] = reader.table("differences")
    assert row[:6] == [
        "balance",
        "DEMO-BOLT",
        "DEPOT-B",
        "2026-01-03",
        "close 220",
        "close 227",
    ]
    reader.keep("red-check")
    reader.open_verdict(BOLT)
    assert reader.value("status") == "DRIFT"
    reader.keep("red-check-partition")
    reader.open_check("every_unit_is_verified")
    expect(page.get_by_text(re.compile(r"DRIFT: 1 of \d+ units not verified"))).to_be_visible()
    units = reader.table("units")
    assert units[0][:2] == ["DRIFT", str(BOLT)]
    assert {row[0] for row in units[1:]} == {"PASS"}
    reader.keep("red-roll-up")
    drift()
    reader.judge(BOLT)
    reader.open_check("every_unit_is_verified")
    expect(page.get_by_text(re.compile(r"PASS: \d+ units are verified"))).to_be_visible()
    reader.keep("green-again")


# Rebuild by backfill


def test_a_rebuild_by_backfill_ends_verified_and_follows(reader, stack, times):
    page = reader.page
    told = stack.call("rebuild", REBUILT, "--from", DEMO)
    assert (told["created"], told["follows"]) == (True, False)
    assert comes_true(lambda: REBUILT in stack.namespaces())
    page.goto(stack.told["links"]["lineage"])
    launched = launch_backfill(reader, REBUILT)
    began = time.monotonic()
    with stack.ledger() as ledger:
        assert comes_true(lambda: ledger.store.info(REBUILT).follows)
        times["backfill launched to the namespace follows"] = time.monotonic() - began
        verdicts = [verified(ledger, unit._replace(namespace=REBUILT)) for unit in DEMO_UNITS]
    assert [verdict.status for verdict in verdicts] == ["PASS", "PASS"]
    assert stack.balances(REBUILT) == stack.balances(DEMO) != {}
    reader.open(f"/runs/b/{launched}", tab="overview")
    expect(page.get_by_text("100% completed")).to_have_count(len(CHAIN) - 1)
    expect(page.get_by_text("Succeeded", exact=True).first).to_be_visible()
    times["backfill launched to the backfill has succeeded"] = time.monotonic() - began
    reader.keep("backfill")
    for unit in DEMO_UNITS:
        reader.open_verdict(unit._replace(namespace=REBUILT))
        assert reader.value("status") == "PASS"
    reader.keep("backfilled-verdict")
    reader.open_check("every_unit_is_verified")
    units = reader.table("units")
    assert {row[1] for row in units} >= {f"{REBUILT}|p0", f"{REBUILT}|p1"}
    reader.keep("backfilled-roll-up")


def launch_backfill(reader, namespace):
    """Materialize all units of a namespace in the dialog; return the id of the backfill."""
    page = reader.page
    page.get_by_role("button", name="Materialize all").click()
    dialog = page.get_by_role("dialog").filter(has_text="Partition selection")
    dialog.get_by_text("Select a partition or create one").first.click()
    page.get_by_role("menuitem").filter(has_text=namespace).click()
    dialog.get_by_text("Launch runs to materialize").click()  # Escape would close all of it
    dialog.get_by_role("button", name="All").nth(1).click()
    expect(dialog.get_by_text("2 partitions")).to_be_visible()
    reader.keep("backfill-dialog")
    dialog.get_by_role("button", name="Launch backfill").click()
    toast = page.get_by_text(re.compile(r"^Created backfill"))
    expect(toast).to_be_visible()
    reader.keep("backfill-launched")
    return re.search(r"Created backfill\s+(\w+)", toast.inner_text())[1]


# An append


def test_an_append_is_followed_by_a_sensor_run_and_a_verdict(reader, stack, times):
    page = reader.page
    before = {run["runId"] for run in stack.runs(PART)}
    correction = {
        "txn_id": "ISSUE-002",
        "revision": 2,
        "kind": "AMEND",
        "stock_key": {"item": "DEMO-PART", "location": "DEPOT-A"},
        "valid_time": "2026-01-02T12:00:00Z",
        "qty": -5,
        "source_time": "2026-01-05T09:00:00Z",
    }
    told = stack.call("append", "--namespace", DEMO, "-", given=json.dumps(correction))
    appended = time.time()
    assert told["appended"] == 1

    def launched():
        return [
            run
            for run in stack.runs(PART)
            if run["runId"] not in before and run["jobName"] == "refold" and run["startTime"]
        ]

    [run] = comes_true(launched)
    times["append to run requested"] = run["creationTime"] - appended
    times["append to run started"] = run["startTime"] - appended
    assert run["startTime"] - appended < LAUNCH_SECONDS * PATIENCE
    reader.open("/locations/amends/sensors/new_records")
    expect(page.get_by_text(re.compile(r"^\d+ runs? requested$")).first).to_be_visible()
    reader.keep("sensor")
    at, by = comes_true(lambda: stack.materialized(PART, appended))
    assert by == run["runId"]
    times["append to view"] = at - appended
    with stack.ledger() as ledger:
        verdict = comes_true(lambda: verified(ledger, PART))
    assert (verdict.status, verdict.source_end) == ("PASS", told["ends"][PART.partition])
    times["append to verdict"] = datetime.fromisoformat(verdict.judged_at).timestamp() - appended
    reader.open(VIEW, view="partitions", partition=str(PART))
    expect(page.get_by_role("cell", name="what_changed", exact=True)).to_be_visible()
    assert reader.table("what_changed") == [
        ["DEMO-PART", "DEPOT-A", "2026-01-02", "50, alert", "65", "ISSUE-002 r2 at offset 5"]
    ]
    reader.keep("appended")
    page.get_by_text("[Show Markdown]").first.click()
    expect(page.get_by_role("dialog").get_by_role("img").last).to_be_visible()
    reader.keep("appended-picture")
    reader.open("/runs")
    expect(page.get_by_text(run["runId"][:8]).first).to_be_visible()
    reader.keep("runs")
