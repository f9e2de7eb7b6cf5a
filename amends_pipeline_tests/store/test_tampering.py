"""What somebody changes behind everybody's back, in the tables that a verdict stands on."""

from __future__ import annotations

import pytest

from amends_pipeline.flows.judge import judge_namespace
from amends_pipeline.flows.status import status
from amends_pipeline.flows.verify import verify
from amends_pipeline.inventory.verify import Manifest
from amends_pipeline.kernel.errors import DatabaseUnavailable
from amends_pipeline.kernel.verdict import Status
from amends_pipeline.ports import Unit
from amends_pipeline_tests.contracts.bench import provisioned
from amends_pipeline_tests.tables import configuration

STORY = """
    A r1 NEW day 1 -50
    B r1 NEW day 2 1
    B r1 NEW day 2 2
    B r2 AMEND day 2 3
"""


@pytest.fixture
def main(tables):
    """A namespace of two partitions that agrees with its history, beside a superseded conflict."""
    document = configuration(partitions=2)
    document["keys"][1]["partition"] = 1
    bench = provisioned(tables, document)
    bench.drain(STORY)
    bench.drain("b/A r1 NEW day 1 -50", partition=1)
    assert verify(tables.store, "main").status is Status.PASS_WITH_EXCLUSIONS
    return bench


@pytest.mark.parametrize(
    "change",
    [
        "stock_key SET threshold = 61 WHERE number = 0",
        "stock_key SET opening = 101 WHERE number = 0",
        "stock_key SET item = 'OTHER' WHERE number = 1",
        "stock_key SET partition = 0 WHERE number = 1",
        "namespace SET origin_day = origin_day - 1",
        "namespace SET digest = 'x'",
    ],
)
def test_another_configuration_is_incomplete_though_this_process_knows_the_right_one(
    main, tables, change
):
    tables.operations.store_manifest("main", Manifest().model_dump_json())
    tables.sql(f"UPDATE amends.{change}")
    report = judge_namespace(tables, "main", "me")
    assert (report.status, report.accepted) == (Status.INCOMPLETE, False)
    [distance] = report.distance
    assert distance.stage == "configuration"
    assert distance.says.endswith(", as provisioned")
    kept = {each.unit: each.status for each in tables.operations.verdicts()}
    assert kept == {Unit("main", 0): "INCOMPLETE", Unit("main", 1): "INCOMPLETE"}


def test_another_configuration_is_shown_to_nobody(main, tables):
    tables.sql("UPDATE amends.stock_key SET threshold = 61 WHERE number = 0")
    with tables.store.snapshot("main") as snapshot:
        assert snapshot.config_as_stored().keys[0].reorder_threshold == 61
        with pytest.raises(DatabaseUnavailable, match=f"expected digest {main.config.digest}, as"):
            snapshot.config()


def test_keys_of_other_numbers_than_their_places_are_told(main, tables):
    """The digest says nothing of them, but readers find a key's rows by its number."""
    tables.sql("UPDATE amends.stock_key SET number = 2 WHERE number = 1")
    assert tables.sql("SELECT DISTINCT location FROM amends.balance") == [("DEPOT-A",)]
    found = "expected 2 keys numbered from 0 to 1, found numbers from 0 to 2"
    with pytest.raises(DatabaseUnavailable, match=found):
        verify(tables.store, "main", wait_seconds=0)


def test_a_configuration_that_is_put_right_is_believed_again(main, tables):
    for threshold in (61, 60):
        tables.sql("UPDATE amends.stock_key SET threshold = %s WHERE number = 0", threshold)
        found = verify(tables.store, "main", wait_seconds=0)
        assert (found.status is Status.INCOMPLETE) == (threshold == 61)


@pytest.mark.parametrize("moved", [True, False])
def test_a_status_that_stands_at_a_day_is_told_with_it(main, tables, moved):
    if moved:
        tables.sql("UPDATE amends.view_row SET day = 20454 WHERE family = 3 AND key = 0")
    else:
        tables.sql("""
            INSERT INTO amends.view_row SELECT version, close, cause_offset, cause_revision,
            unit_id, key, 20454, family, type, cause_txn_id FROM amends.view_row
            WHERE family = 3 AND key = 0""")
    report = verify(tables.store, "main", wait_seconds=0)
    assert report.status is Status.DRIFT
    told = [(each.kind, each.day, each.expected, each.found) for each in report.differences]
    assert [(kind, day, one is None, other is None) for kind, day, one, other in told] == [
        *([("status", None, False, True)] if moved else []),
        ("status", "2026-01-01", True, False),
    ]


@pytest.mark.parametrize("key", [1, 2, -1])
def test_conflicts_of_no_key_of_their_unit_are_told_with_their_place(main, tables, key):
    tables.sql(f"UPDATE amends.observation SET key = {key}")  # noqa: S608 - a number
    tables.sql(f"UPDATE amends.authority SET key = {key} WHERE txn_id = 'B'")  # noqa: S608 - a number
    where = r"stored evidence of main\|p0: expected keys of that partition, found key number"
    with pytest.raises(DatabaseUnavailable, match=f"{where} {key}"):
        verify(tables.store, "main", wait_seconds=0)


MISSING = {
    "a worker": ("worker_progress", "progress of namespace main: expected that of 2 partitions"),
    "a relay": ("relay_progress", "progress of namespace main: expected that of 2 partitions"),
    "a view": ("view_progress", "progress of namespace main: expected that of 2 partitions"),
    "a log": ("output_end", "ends of the output log of namespace main: expected that of 2"),
}


@pytest.mark.parametrize(("table", "where"), MISSING.values(), ids=MISSING)
@pytest.mark.parametrize(
    "look",
    [lambda ledger: verify(ledger.store, "main"), lambda ledger: status(ledger, "main")],
    ids=["verify", "status"],
)
def test_a_unit_of_which_a_row_is_missing_is_told_with_its_place(main, tables, table, where, look):
    unit_id = tables.unit_id(Unit("main", 1))
    tables.sql(f"DELETE FROM amends.{table} WHERE unit_id = %s", unit_id)  # noqa: S608 - of above
    with pytest.raises(DatabaseUnavailable, match=f"stored {where}"):
        look(tables)


def test_units_of_other_partitions_than_the_source_has_are_told_with_their_place(main, tables):
    tables.sql("UPDATE amends.source SET partitions = 3")
    with pytest.raises(DatabaseUnavailable, match=r"partitions 0 to 2, found .* \[0, 1\]"):
        verify(tables.store, "main", wait_seconds=0)


@pytest.mark.parametrize("change", ["count = count + 1", "ends = ends || NULL, count = count + 1"])
def test_a_source_segment_that_does_not_say_where_a_record_ends_is_told(main, tables, change):
    tables.sql(f"UPDATE amends.source_segment SET {change}")  # noqa: S608 - of above
    tables.sql("UPDATE amends.source_partition SET end_offset = end_offset + 1")
    tables.sql("UPDATE amends.worker_progress SET next_offset = next_offset + 1")
    where = f'source "{main.config.source}", partition 0, offset 0: expected'
    with pytest.raises(DatabaseUnavailable, match=where):
        verify(tables.store, "main", wait_seconds=0)
