"""The bank ledger in the UI: its lineage, a picture over both times, an export that is refused."""

from __future__ import annotations

import shutil

import pytest
from playwright.sync_api import expect

from amends_pipeline.cli.stack_bank import DEMO
from amends_pipeline_tests.browser.stack import comes_true

pytestmark = pytest.mark.browser

CHAIN = ["bank_export", "bank_history", "bank_balances", "bank_checkpoints"]
MADE = """
query ($partition: String!) {
  assetNodes(assetKeys: [{path: ["bank_checkpoints"]}]) {
    assetMaterializations(partitions: [$partition], limit: 1) { runId }
  }
}
"""
LAUNCH = """
mutation ($execution: ExecutionParams!) {
  launchRun(executionParams: $execution) { __typename ... on LaunchRunSuccess { run { runId } } }
}
"""
RUN = "query ($run: ID!) { runOrError(runId: $run) { ... on Run { status } } }"


@pytest.fixture(scope="module")
def folded(stack):
    """The stack, once the sensor's run of the demo's stream has ended."""

    def made():
        [node] = stack.ask(MADE, partition=DEMO.stream_id)["assetNodes"]
        return node["assetMaterializations"]

    assert comes_true(made)
    assert comes_true(lambda: not stack.unfinished("fold_bank"))
    return stack


def test_the_bank_s_lineage_is_filled_and_every_check_passed(reader, folded):
    reader.page.goto(folded.told["links"]["bank"])
    for asset in CHAIN:
        expect(reader.node(asset)).to_be_visible()
    expect(reader.page.get_by_text("100% filled")).to_have_count(len(CHAIN))
    for passed in ("1 / 1 Passed", "2 / 2 Passed"):
        expect(reader.page.get_by_text(passed)).to_be_visible()
    reader.keep("bank-lineage")


def test_balances_are_shown_with_a_picture_of_the_busiest_account(reader, folded):
    page = reader.page
    reader.open("/assets/bank_balances", view="partitions", partition=DEMO.stream_id)
    assert [(row[0], row[3]) for row in reader.table("balances")] == [
        ("CASH", "100000"),
        ("ADA", "97350"),
        ("CORA", "2400"),
        ("FEES", "250"),
        ("BEN", "0"),
    ]
    assert [row[7] for row in reader.table("statement")] == [
        "100000",
        "97500",
        "100000",
        "97600",
        "97350",
    ]
    page.get_by_text("[Show Markdown]").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("97500 minor units of USD were known")).to_be_visible()
    picture = dialog.get_by_role("img", name="Balance of ADA over both times")
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.naturalWidth") == 640
    reader.keep("bank-picture")


def test_an_offered_export_that_lacks_a_group_is_a_red_check_with_its_code(reader, folded):
    kept = folded.home / "bank" / DEMO.stream_id / "export"
    offered = folded.home / "offered"
    shutil.copytree(kept, offered)
    groups = offered / "groups.jsonl"
    lines = groups.read_bytes().splitlines(keepends=True)
    groups.write_bytes(lines[0] + b"".join(lines[2:]))
    launched = folded.ask(
        LAUNCH,
        execution={
            "selector": {
                "repositoryLocationName": "amends",
                "repositoryName": "__repository__",
                "jobName": "examine_export",
            },
            "runConfigData": {"ops": {"exporter": {"config": {"folder": str(offered)}}}},
            "executionMetadata": {
                "tags": [{"key": "dagster/partition", "value": DEMO.stream_id}],
            },
        },
    )
    run = launched["launchRun"]["run"]["runId"]
    assert comes_true(lambda: folded.ask(RUN, run=run)["runOrError"]["status"] == "FAILURE")
    reader.open("/assets/bank_export", view="checks", checkDetail="bank_export_is_complete")
    page = reader.page
    told = "SEQUENCE_GAP at group 2, sequence 3: expected sequence 2, found 3."
    expect(page.get_by_text(told)).to_be_visible()
    assert reader.table("fault") == [
        ["SEQUENCE_GAP", "G-3", "3", "group 2, sequence 3", "sequence 2", "3"]
    ]
    reader.keep("bank-rejected-export")
    # What was made of the exports before it stands.
    page.goto(folded.told["links"]["bank"])
    expect(page.get_by_text("100% filled")).to_have_count(len(CHAIN))
    for passed in ("0 / 1 Passed", "2 / 2 Passed"):
        expect(page.get_by_text(passed)).to_be_visible()
    reader.keep("bank-lineage-after-a-rejection")
