"""Runs of the job `refold`: what they commit, what they tell, and how they fail."""

from __future__ import annotations

import json

import pytest

from amends_pipeline.flows.drain import Options, ingest_unit
from amends_pipeline.flows.set_aside import set_aside
from amends_pipeline.ports import Role, SourceRecord, Unit
from amends_pipeline_tests.defs.conftest import SEED, on_both, rows
from amends_pipeline_tests.tables import configuration, encoded
from amends_pipeline_tests.tables import document as record

MAIN = Unit("main", 0)
ASSETS = ["source_evidence", "projections", "committed_outbox", "output_log", "materialized_view"]
STAGES = json.loads((SEED / "days.json").read_text())["stages"]


def expected_envelopes(name: str) -> list[dict]:
    return [json.loads(line) for line in (SEED / name).read_text().splitlines()]


@on_both
@pytest.mark.parametrize(
    ("slice_records", "file"), [(1, "envelopes-slice-1.jsonl"), (None, "envelopes-default.jsonl")]
)
def test_the_seed_s_three_stages_commit_exactly_the_expected_envelopes(office, slice_records, file):
    office.provision(path=SEED / "config.json")
    for stage in STAGES:
        office.append_file(SEED / stage["file"])
        run = office.refold(slice_records=slice_records)
        assert run.success
        assert run.materialized == ASSETS
        verdict = office.verify().check()
        assert run.value("materialized_view", "worker_next_offset") == stage["worker_next"]
        assert run.value("materialized_view", "view_next_offset") == stage["view_next"]
        assert run.check("outbox_sequence_is_whole").passed
        assert verdict.passed
        assert verdict.metadata["status"].value == "PASS"
    assert office.outbox(MAIN) == expected_envelopes(file)


def test_each_asset_tells_the_seed_s_amendment_as_a_table(office):
    office.provision(path=SEED / "config.json")
    office.append_file(SEED / "before.jsonl")
    office.refold()
    office.append_file(SEED / "correction.jsonl")
    run = office.refold()
    for asset in ASSETS:
        assert rows(run.told(asset)["what_changed"]) == [
            ("DEMO-PART", "DEPOT-A", "2026-01-01", "50, alert", "70", "ISSUE-001 r2 at offset 3"),
            ("DEMO-PART", "DEPOT-A", "2026-01-02", "30", "50, alert", "ISSUE-001 r2 at offset 3"),
            ("DEMO-PART", "DEPOT-A", "2026-01-03", "80", "100", "ISSUE-001 r2 at offset 3"),
        ]
        assert run.value(asset, "changed_days") == 3
    assert {
        key: run.value("committed_outbox", key)
        for key in (
            "committed_envelopes",
            "raised_alerts",
            "withdrawn_alerts",
            "stated_balances",
            "withdrawn_balances",
            "stated_statuses",
        )
    } == {
        "committed_envelopes": 5,
        "raised_alerts": 1,
        "withdrawn_alerts": 1,
        "stated_balances": 3,
        "withdrawn_balances": 0,
        "stated_statuses": 0,
    }


def test_every_count_of_a_run_is_told(main):
    main.append("""
        A r1 NEW day 1 -50
        B r1 NEW day 1 -20
        b/A r1 NEW day 2 -30
        malformed
    """)
    run = main.refold()
    counts = {
        "source_evidence": {
            "dagster/row_count": 3,
            "observation_rows": 0,
            "quarantine_rows": 1,
            "processed_records": 4,
            "accepted_records": 3,
            "rejected_records": 1,
            "committed_decisions": 1,
        },
        "projections": {"dagster/row_count": 2, "touched_stock_keys": 2, "written_day_rows": 2},
        "committed_outbox": {
            "dagster/row_count": 5,
            "committed_envelopes": 5,  # a: alert, balance, status; b: balance, status
            "raised_alerts": 1,
            "stated_balances": 2,
            "stated_statuses": 2,
        },
        "output_log": {"dagster/row_count": 5, "published_envelopes": 5},
        "materialized_view": {
            "dagster/row_count": 5,
            "visible_rows": 5,
            "applied_envelopes": 5,
            "stored_rows": 5,
            "duplicate_envelopes": 0,
        },
    }
    for asset, expected in counts.items():
        assert {key: run.value(asset, key) for key in expected} == expected


def test_row_counts_are_those_of_the_whole_unit_and_withdrawn_rows_stay(main):
    main.append("A r1 NEW day 1 -50\n B r1 NEW day 1 -20\n b/A r1 NEW day 200 -30")
    main.refold()
    main.append("A r2 CANCEL day 1\n B r2 CANCEL day 1")
    run = main.refold()
    assert {asset: run.value(asset, "dagster/row_count") for asset in ASSETS} == {
        "source_evidence": 3,  # A and B of a, A of b
        "projections": 2,
        "committed_outbox": 7,  # then the balance and the alert of day 1 are withdrawn
        "output_log": 7,
        "materialized_view": 5,
    }
    assert run.value("source_evidence", "observation_rows") == 2
    assert run.value("materialized_view", "visible_rows") == 3


def test_a_count_that_takes_too_long_is_left_out(main, monkeypatch):
    monkeypatch.setattr(main.ledger.operations, "row_counts", lambda *_: {})
    main.append("A r1 NEW day 1 -50")
    run = main.refold()
    assert run.success
    left = {asset for asset in ASSETS if "dagster/row_count" not in run.told(asset)}
    assert left == {"source_evidence", "projections", "materialized_view"}
    assert run.value("source_evidence", "processed_records") == 1


@on_both
def test_frontiers_and_lags_are_those_after_each_step(main):
    main.append("A r1 NEW day 1 -50")
    run = main.refold()
    keys = (
        "worker_next_offset",
        "outbox_next_sequence",
        "acknowledged_next_sequence",
        "output_end_offset",
        "view_next_offset",
        "pending_envelopes",
        "unapplied_envelopes",
    )
    assert [run.value("committed_outbox", key) for key in keys] == [1, 3, 0, 0, 0, 3, 0]
    assert [run.value("output_log", key) for key in keys] == [1, 3, 3, 3, 0, 0, 3]
    assert [run.value("materialized_view", key) for key in keys] == [1, 3, 3, 3, 3, 0, 0]


def test_the_keys_are_the_same_with_work_without_work_and_for_a_unit_that_is_not_there(main):
    main.instance.add_dynamic_partitions("source_partition", ["p1"])
    main.append("A r1 NEW day 1 -50")
    worked, idle, absent = main.backfill(), main.backfill(), main.backfill("main|p1")
    for asset in ASSETS:
        assert list(worked.told(asset)) == list(idle.told(asset)) == list(absent.told(asset)), asset
    checks = [run.check("outbox_sequence_is_whole") for run in (worked, idle, absent)]
    assert list(checks[0].metadata) == list(checks[1].metadata) == list(checks[2].metadata)


def test_a_run_without_new_records_materializes_zeros_and_says_so(main):
    main.append("A r1 NEW day 1 -50")
    main.refold()
    run = main.refold()
    assert run.materialized == ASSETS
    assert run.value("source_evidence", "processed_records") == 0
    assert run.value("source_evidence", "note") == (
        "No record was left to decide before source offset 1."
    )
    assert run.value("output_log", "note") == "Nothing was pending."
    assert run.value("materialized_view", "note") == "No envelope was left to apply."
    assert all(rows(run.told(asset)["what_changed"]) == [] for asset in ASSETS)


def test_a_unit_beyond_its_namespace_materializes_zeros_and_its_checks_pass_saying_so(main):
    main.instance.add_dynamic_partitions("source_partition", ["p7"])
    main.append("A r1 NEW day 1 -50")
    run = main.backfill("main|p7")
    note = "Namespace main has no partition p7, only p0: there is nothing to do."
    assert run.success
    assert run.materialized == ASSETS
    for asset in ASSETS:
        assert run.value(asset, "note") == note
        numbers = [each.value for each in run.told(asset).values() if isinstance(each.value, int)]
        assert len(numbers) > 10
        assert not any(numbers)
    assert run.check().passed
    assert run.check().description == f"PASS: {note} Nothing was compared."
    assert run.check("outbox_sequence_is_whole").description == f"PASS: {note}"
    assert main.ledger.store.progress(MAIN).next_offset == 0


@on_both
def test_units_of_one_namespace_are_worked_on_apart(office):
    document = configuration(partitions=2)
    document["keys"][1]["partition"] = 1
    office.provision(document)
    office.append("""
        A r1 NEW day 1 -50
        b/B r1 NEW day 1 -30
    """)
    first = office.backfill("main|p1")
    assert first.check().passed
    assert rows(first.told("materialized_view")["what_changed"]) == [
        ("DEMO-PART", "DEPOT-B", "2026-01-01", "none", "70", "B r1 at offset 0")
    ]
    assert office.ledger.store.progress(Unit("main", 0)).next_offset == 0
    assert office.backfill("main|p0").check().passed


def test_the_table_of_changes_holds_fifty_rows_and_the_total_stands_beside_it(main):
    main.append("\n".join(f"T{day} r1 NEW day {day} 1" for day in range(1, 61)))
    run = main.refold()
    assert len(run.told("projections")["what_changed"].records) == 50
    assert run.value("projections", "changed_days") == 60
    assert run.value("projections", "not_looked_at_envelopes") == 0
    # All are new: the largest close comes first.
    assert rows(run.told("projections")["what_changed"])[0][2:5] == ("2026-03-01", "none", "160")


@on_both
def test_a_record_that_comes_during_a_run_belongs_to_the_next_one(main, monkeypatch):
    main.append("A r1 NEW day 1 -50")
    published = main.ledger.outputs.append

    def append_and_publish(unit, envelopes):
        main.append("B r1 NEW day 2 -20")
        return published(unit, envelopes)

    monkeypatch.setattr(main.ledger.outputs, "append", append_and_publish)
    run = main.backfill()
    monkeypatch.undo()
    assert run.value("source_evidence", "boundary_offset") == 1
    assert run.value("materialized_view", "boundary_offset") == 1
    assert run.value("materialized_view", "source_end_offset") == 2
    assert run.value("materialized_view", "lag_offsets") == 1
    # Judged at the boundary of the run, not at the source end of the moment.
    assert run.check().metadata["status"].value == "PASS"
    judged_at = [at for _, at in rows(run.check().metadata["judged_at"])]
    assert judged_at == ["1", "1", "0", "3", "3"]
    assert main.verify().check().metadata["status"].value == "INCOMPLETE"

    later = main.backfill()
    assert later.value("source_evidence", "processed_records") == 1
    assert later.check().metadata["status"].value == "PASS"


def test_what_an_earlier_run_left_on_the_way_is_told_by_the_run_that_delivers_it(main):
    main.append("A r1 NEW day 1 -50")
    ingest_unit(main.ledger, MAIN, 1, Options(holder="a run that was killed"))
    assert main.ledger.store.progress(MAIN).pending == 3
    run = main.refold()
    assert run.value("source_evidence", "processed_records") == 0
    assert rows(run.told("source_evidence")["what_changed"]) == []
    for asset in ("output_log", "materialized_view"):
        assert rows(run.told(asset)["what_changed"]) == [
            ("DEMO-PART", "DEPOT-A", "2026-01-01", "none", "50, alert", "A r1 at offset 0")
        ]


# --- failures


@on_both
def test_an_overflow_fails_the_run_names_the_record_and_lets_readers_have_what_precedes_it(main):
    main.append(f"""
        A r1 NEW day 1 -50
        B r1 NEW day 2 {2**63 - 51}
        C r1 NEW day 2 1
    """)
    run = main.refold()
    assert not run.success
    assert run.materialized == []
    description, parts = run.failure("worker")
    assert description == (
        "partition 0, offset 2: expected closes that fit a signed 64-bit integer, found one of"
        ' item "DEMO-PART" at location "DEPOT-A" on 2026-01-02 that does not fit'
    )
    assert parts["error"] == "CloseOverflow"
    assert parts["where"] == "partition 0, offset 2"
    assert parts["next_step"] == (
        "Declare the record out of the input: amends inventory set-aside --namespace main"
        " --partition 0 --offset 2 --reason TEXT. The next run goes on after it: launch refold, or"
        " wait for it."
    )
    progress = main.ledger.store.progress(MAIN)
    assert progress.next_offset == 2
    assert progress.view_next == progress.next_sequence > 0
    # The next run stops there again, and has nothing to hand over.
    assert main.refold().failure("worker")[0] == description
    set_aside(main.ledger, MAIN, 2, "it was counted twice")
    assert main.refold().success


@on_both
def test_an_outbox_with_a_hole_fails_the_run_and_nothing_is_published(main):
    main.append("A r1 NEW day 1 -50")
    main.refold()
    main.append("B r1 NEW day 2 -20")
    main.lose_first_segment(MAIN)
    run = main.refold()
    assert not run.success
    check = run.check("outbox_sequence_is_whole")
    assert (check.passed, check.severity.value) == (False, "ERROR")
    assert check.description == "DRIFT: expected a segment at sequence 0, found one at 3."
    assert check.metadata["next_step"].value == (
        "Restore the segments of the outbox from a backup. If there is none, make another"
        " namespace from the source: amends inventory rebuild NEW --from main, then backfill its"
        " units."
    )
    assert [step for step in ("relay", "view") if step in run.steps] == []
    assert main.ledger.store.progress(MAIN).pending == 1
    assert main.ledger.outputs.end(MAIN) == 3


def test_an_outbox_that_ends_too_early_fails_the_run(main):
    main.append("A r1 NEW day 1 -50")
    main.refold()
    main.lose_first_segment(MAIN)
    check = main.refold().check("outbox_sequence_is_whole")
    assert check.description == "DRIFT: expected sequences up to 3, found them up to 0."


def test_a_unit_that_somebody_else_owns_fails_the_run_and_says_who_it_is(main):
    main.append("A r1 NEW day 1 -50")
    with main.ledger.store.hold(MAIN, Role.WORKER, holder="warm worker 7"):
        run = main.refold(wait_seconds=0)
    description, parts = run.failure("worker")
    assert parts["error"] == "Held"
    assert "warm worker 7" in description


def test_a_namespace_that_was_not_provisioned_fails_the_run_clearly(main):
    main.instance.add_dynamic_partitions("namespace", ["ghost"])
    run = main.refold("ghost|p0")
    _, parts = run.failure("worker")
    assert parts["error"] == "UnknownNamespace"
    assert parts["next_step"].startswith("Provision it: amends inventory provision CONFIG.json.")


def test_a_partition_that_is_no_unit_fails_the_run_clearly(main):
    main.instance.add_dynamic_partitions("source_partition", ["left"])
    run = main.refold("main|left")
    assert run.failure("worker")[0] == (
        'partition: expected a namespace and a source partition, such as main|p0, found "main|left"'
    )


@on_both
def test_another_source_of_the_same_name_fails_the_run(main):
    main.append("A r1 NEW day 1 -50")
    main.ledger.recreate("depot-feed-1")
    _, parts = main.refold().failure("worker")
    assert parts["error"] == "ForeignIncarnation"
    assert "is another source: it needs a name and a namespace of its own." in parts["next_step"]


@on_both
def test_an_envelope_that_the_view_must_not_apply_fails_the_run_at_the_view(main):
    main.append("A r1 NEW day 1 -50")
    main.refold()
    main.ledger.spoil(MAIN)
    main.append("B r1 NEW day 2 -20")
    run = main.refold()
    assert run.materialized == ASSETS[:-1]
    _, parts = run.failure("view")
    assert parts["error"] == "ProtocolStop"
    assert parts["next_step"].startswith("Restore the output log from a backup, then: amends ")
    verdict = main.verify().check()
    assert verdict.metadata["status"].value == "ERROR"
    assert verdict.metadata["next_step"].value == parts["next_step"]
    assert verdict.severity.value == "ERROR"


@on_both
def test_hostile_text_stands_escaped_in_the_tables(office):
    document = configuration(keys="a")
    document["keys"][0]["stock_key"] = {"item": "A\u202e|<b>\n", "location": "\x1b[31m" + "L" * 300}
    office.provision(document)
    stock_key = tuple(document["keys"][0]["stock_key"].values())
    value = encoded(record(stock_key, "T\u2028", 1, "NEW", "2026-01-01T12:00:00Z", -50))
    office.ledger.source("depot-feed-1").append([SourceRecord(0, None, value)])
    [(item, location, _, _, _, cause)] = rows(office.refold().told("projections")["what_changed"])
    assert item == "A\\u202e|<b>\\n"
    assert location.startswith("\\x1b[31mLLL")
    assert location.endswith("... (305 characters)")
    assert cause == "T\\u2028 r1 at offset 0"
