"""The check `view_equals_oracle`: six statuses, their colours, their tables and their words."""

from __future__ import annotations

import dagster as dg
import pytest

from amends_pipeline.defs.inventory.checks import VIEW_EQUALS_ORACLE
from amends_pipeline.defs.inventory.verdict import reported
from amends_pipeline.flows.drain import Options, ingest_unit
from amends_pipeline.inventory.compare import BalanceFact, Difference, Kind, RejectionFact
from amends_pipeline.inventory.verify import NotCompared, Report
from amends_pipeline.kernel.errors import DatabaseUnavailable
from amends_pipeline.kernel.verdict import Status
from amends_pipeline.ports import Unit
from amends_pipeline_tests.defs.conftest import on_both, rows
from amends_pipeline_tests.tables import day

MAIN = Unit("main", 0)


def seen(check: dg.AssetCheckEvaluation) -> tuple[str, bool, str]:
    """The status, whether it passed, and its colour."""
    status = check.metadata["status"].value
    assert check.description.startswith(f"{status}: ")
    return status, check.passed, check.severity.value


def tables_of(check: dg.AssetCheckEvaluation) -> list[str]:
    """Its tables, in the order in which Dagster shows them: that of the keys."""
    tables = (dg.TableMetadataValue, dg.JsonMetadataValue)
    return [key for key, told in sorted(check.metadata.items()) if isinstance(told, tables)]


def test_equal_rows_pass_and_the_words_say_where_and_what_was_not_compared(main):
    main.append("A r1 NEW day 1 -50")
    check = main.backfill().check()
    assert (check.metadata["status"].value, check.passed) == ("PASS", True)
    assert check.description == (
        "PASS: All rows agree. Judged at source offset 1 and output offset 3. Not compared:"
        " versions, causes and order of publication."
    )
    assert rows(check.metadata["not_compared"]) == [("versions, causes and order of publication",)]
    assert check.partition == "main|p0"


@on_both
def test_exclusions_that_nobody_accepted_are_amber_and_stand_in_tables(main):
    main.append("""
        A r1 NEW day 1 -50
        malformed
        A r2 AMEND day 1 -30
        A r2 AMEND day 1 -31
        A r3 AMEND day 1 -40
    """)
    check = main.backfill().check()
    assert seen(check) == ("PASS_WITH_EXCLUSIONS", False, "WARN")
    assert rows(check.metadata["rejections"]) == [("1", "MALFORMED")]
    assert rows(check.metadata["conflicts"]) == [("DEMO-PART", "DEPOT-A", "A", "2")]
    assert check.metadata["rejected_records"].value == 1
    assert check.metadata["conflicting_revisions"].value == 1
    assert check.metadata["accepted"].value is False
    assert "1 rejected record and 1 conflicting revision, which nobody has accepted." in (
        check.description
    )


@on_both
def test_a_row_that_drifted_is_red_and_stands_in_the_table(main):
    main.append("""
        A r1 NEW day 1 -50
        B r1 NEW day 2 -20
    """)
    assert main.backfill().check().passed
    main.add_to_balance(MAIN, day(2), 1)
    run = main.verify()
    assert run.success  # the verdict is the check's; the run did its work
    check = run.check()
    assert seen(check) == ("DRIFT", False, "ERROR")
    assert check.metadata["differing_rows"].value == 1
    assert rows(check.metadata["differences"]) == [
        ("balance", "DEMO-PART", "DEPOT-A", "2026-01-02", "close 30", "close 31")
    ]
    assert check.description.startswith(
        "DRIFT: 1 row differs: balance of DEMO-PART at DEPOT-A on 2026-01-02, expected close 30,"
        " found close 31. Judged at source offset 2 and output offset 4."
    )
    assert check.metadata["next_step"].value == (
        "Make the rows of readers anew from the output log: amends inventory reproject --namespace"
        " main. Then launch the job verify for main|p0. If rows still differ, make another"
        " namespace from the source: amends inventory rebuild NEW --from main, then backfill its"
        " units."
    )
    # A correction of the day puts it right again, without anybody's help.
    main.append("B r2 AMEND day 2 -25")
    assert main.backfill().check().passed


def test_a_blocked_key_is_amber_and_keeps_the_differences_elsewhere(main):
    main.append("""
        A r1 NEW day 1 -50
        b/B r1 NEW day 1 -30
        b/B r1 NEW day 1 -31
    """)
    check = main.backfill().check()
    assert seen(check) == ("BLOCKED", False, "WARN")
    assert check.description.startswith(
        "BLOCKED: Authority is in conflict for DEMO-PART at DEPOT-B. All other rows agree."
    )
    assert rows(check.metadata["not_compared"])[1:] == [
        ("balances and alerts of a blocked key", "DEMO-PART", "DEPOT-B")
    ]
    decide = (
        "Append one more revision, with a higher number, of each transaction that blocks a key: it"
        " decides. The table conflicts names them."
    )
    assert check.metadata["next_step"].value == decide
    main.add_to_balance(MAIN, day(1), 7)
    check = main.verify().check()
    assert seen(check) == ("BLOCKED", False, "WARN")
    assert check.metadata["next_step"].value.startswith(f"{decide} Make the rows of readers anew")
    assert check.metadata["differing_rows"].value == 1
    assert "1 row differs: balance of DEMO-PART at DEPOT-A" in check.description


def test_records_that_are_not_processed_yet_are_incomplete_with_their_distance(main):
    main.append("A r1 NEW day 1 -50")
    main.refold()
    main.append("B r1 NEW day 2 -20")
    check = main.verify().check()
    assert seen(check) == ("INCOMPLETE", False, "WARN")
    [(stage, by, says)] = rows(check.metadata["distance"])
    assert (stage, by) == ("worker", "1")
    assert check.description == f"INCOMPLETE: {says}."
    assert check.metadata["next_step"].value == (
        "When the stages that distance names are there, launch the job verify for main|p0."
    )
    assert rows(check.metadata["judged_at"]) == [
        ("H, source end: the records before it are judged", "2"),
        ("first source offset that is not decided", "1"),
        ("outbox rows that are not acknowledged", "0"),
        ("O, end of the output log", "3"),
        ("first output offset that is not applied", "3"),
    ]


def test_a_worker_that_went_past_the_boundary_of_a_run_leaves_it_incomplete(main, monkeypatch):
    main.append("A r1 NEW day 1 -50")
    published = main.ledger.outputs.append

    def go_on_and_publish(unit, envelopes):
        monkeypatch.undo()
        main.append("B r1 NEW day 2 -20")
        ingest_unit(main.ledger, MAIN, 2, Options(holder="somebody else"))
        return published(unit, envelopes)

    monkeypatch.setattr(main.ledger.outputs, "append", go_on_and_publish)
    check = main.backfill().check()
    assert seen(check) == ("INCOMPLETE", False, "WARN")
    assert ("worker", "-1") in [row[:2] for row in rows(check.metadata["distance"])]
    assert main.verify().check().passed


@on_both
def test_a_history_that_is_not_the_namespace_s_is_amber_and_says_what_to_make_of_it(main):
    main.append("A r1 NEW day 1 -50")
    main.refold()
    main.ledger.recreate("depot-feed-1")
    check = main.verify().check()
    assert seen(check) == ("INCOMPLETE", False, "WARN")
    assert check.metadata["next_step"].value.startswith("Restore the history and the configuration")


@on_both
def test_a_view_that_stopped_is_red(main):
    main.append("A r1 NEW day 1 -50")
    main.refold()
    main.ledger.spoil(MAIN)
    main.append("B r1 NEW day 2 -20")
    main.refold()
    check = main.verify().check()
    assert seen(check) == ("ERROR", False, "ERROR")
    assert "the view stopped at 3" in check.description


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            DatabaseUnavailable("here", expected="a server", found="none"),
            "ERROR: There is no verdict. here: expected a server, found none",
        ),
        (
            RuntimeError("cannot reach postgresql://me:hunter2@db/amends"),
            "ERROR: There is no verdict. RuntimeError: cannot reach postgresql://me:***@db/amends",
        ),
    ],
)
def test_whatever_goes_wrong_is_a_verdict_and_shows_no_password(main, monkeypatch, error, words):
    main.append("A r1 NEW day 1 -50")
    main.refold()

    def fail(namespace):
        raise error

    monkeypatch.setattr(main.ledger.store, "snapshot", fail)
    run = main.verify()
    assert run.success
    assert seen(run.check()) == ("ERROR", False, "ERROR")
    assert run.check().description == words
    logged = main.instance.all_logs(run.result.run_id)
    assert "hunter2" not in "".join(str(entry) for entry in logged)


def test_a_namespace_that_is_not_there_is_an_error(main):
    main.instance.add_dynamic_partitions("namespace", ["ghost"])
    check = main.verify("ghost|p0").check()
    assert seen(check) == ("ERROR", False, "ERROR")
    assert '"ghost"' in check.description


def test_a_run_without_a_unit_says_how_to_name_one(main):
    main.append("A r1 NEW day 1 -50")
    main.backfill()
    run = main.execute_all()
    assert run.success
    assert seen(run.check()) == ("INCOMPLETE", False, "WARN")
    assert "the job verify and choose a partition, such as main|p0" in run.check().description
    assert run.check().partition is None
    assert run.check("every_unit_is_verified").passed
    run = main.verify(None)
    assert run.failure("judge")[0] == (
        "job verify: expected a partition, such as main|p0, to be chosen, found none"
    )


def test_every_status_tells_the_same_beside_its_tables(main):
    main.append("A r1 NEW day 1 -50")
    passing = main.backfill().check()
    main.add_to_balance(MAIN, day(1), 1)
    drifted = main.verify().check()
    main.append("B r1 NEW day 2 -20")
    incomplete = main.verify().check()
    main.instance.add_dynamic_partitions("namespace", ["ghost"])
    failed = main.verify("ghost|p0").check()
    without = main.execute_all().check()
    checks = (passing, drifted, incomplete, failed, without)
    keys = [set(each.metadata) - set(tables_of(each)) for each in checks]
    assert all(each == keys[0] for each in keys)
    assert keys[0] > {"status", "accepted", "next_step", "differing_rows", "judged_in"}
    assert [each.metadata["status"].value for each in checks[:4]] == [
        "PASS",
        "DRIFT",
        "INCOMPLETE",
        "ERROR",
    ]
    assert [tables_of(each) for each in checks] == [
        ["judged_at", "not_compared"],
        ["differences", "judged_at", "not_compared"],
        ["distance", "judged_at", "not_compared"],
        ["not_compared"],
        ["not_compared"],
    ]


def missing_balance(item, close):
    """A balance that readers do not find."""
    fact = BalanceFact(close=close)
    place = {"item": item, "location": "L", "day": "2026-01-01", "partition": 0}
    return Difference(kind=Kind.BALANCE, expected=fact, found=None, **place)


def drift(*differences):
    """A report of these differences."""
    return Report(
        status=Status.DRIFT,
        accepted=False,
        boundary=(),
        differences=differences,
        rejections=(),
        conflicts=(),
        not_compared=(NotCompared(what="causes"),),
    )


def test_a_column_in_which_nothing_would_stand_is_left_out():
    quarantined = RejectionFact(code="MALFORMED", key=None, value="e30=")
    rejection = Difference(
        kind=Kind.REJECTION, partition=0, offset=4, expected=None, found=quarantined
    )
    balance = missing_balance("A", 1)
    tables = [
        reported(drift(*differences), MAIN).metadata["differences"].schema.columns
        for differences in ([rejection], [balance], [rejection, balance])
    ]
    assert [[column.name for column in columns] for columns in tables] == [
        ["kind", "offset", "expected", "found"],
        ["kind", "item", "location", "day", "expected", "found"],
        ["kind", "item", "location", "day", "offset", "expected", "found"],
    ]
    told = reported(drift(rejection, balance), MAIN).metadata["next_step"]
    assert told.value.startswith(
        "Stored evidence differs from the records: make another namespace "
    )


def test_verdicts_are_kept_by_unit(main):
    main.append("A r1 NEW day 1 -50")
    made = main.backfill().result.run_id
    main.verify()
    main.verify()
    history = main.instance.event_log_storage.get_asset_check_execution_history(
        check_key=VIEW_EQUALS_ORACLE.key, limit=10
    )
    assert [record.partition for record in history] == ["main|p0"] * 3
    assert len({record.run_id for record in history}) == 3  # each has a link to its run
    assert all(record.status.value == "SUCCEEDED" for record in history)
    # Each is about what was materialized, so that the grid of partitions shows it.
    targets = [record.evaluation.target_materialization_data.run_id for record in history]
    assert targets == [made] * 3


def test_the_table_of_differences_holds_two_hundred_rows_and_the_total_stands_beside_it():
    result = reported(drift(*(missing_balance("A|\u202e", close) for close in range(1_000))), MAIN)
    assert len(result.metadata["differences"].records) == 200
    assert result.metadata["differing_rows"].value == 1_000
    assert result.description.startswith(
        "DRIFT: 1000 rows differ: balance of A|\\u202e at L on 2026-01-01, expected close 0,"
        " found nothing;"
    )
    assert "; and 997 more." in result.description
    assert result.description.endswith(
        " A table shows 200 rows; all of them: amends inventory verify --namespace main --json"
    )
    whole = reported(drift(*(missing_balance("A", close) for close in range(200))), MAIN)
    assert whole.description.endswith("Not compared: causes.")
