"""An export that somebody offers: taken when it is whole, a red check with its code when not."""

from __future__ import annotations

import json
import os

import dagster as dg
import msgspec
import pytest

from amends_pipeline.kernel.errors import DatabaseUnavailable
from amends_pipeline_tests.defs.bank.conftest import HERE, on_both
from amends_pipeline_tests.defs.bank.test_runs import ASSETS, balance_of
from amends_pipeline_tests.defs.conftest import rows

COLUMNS = ["code", "group", "sequence", "where", "expected", "found"]


@pytest.fixture
def told(office):
    """An office whose stream has the story, folded once: groups G-1, G-2, G-3 of two, G-5."""
    office.tell_the_story()
    assert office.fold().success
    return office


# --- damage


def drop(number):
    return lambda export: export.lines.pop(number)


def swap(export):
    export.lines[1], export.lines[2] = export.lines[2], export.lines[1]


def repeat(export):
    export.lines.insert(2, export.lines[1])


def split(export):
    """Only the reversal of the correction."""
    group = export.group(2)
    group["journals"].pop()
    export.put(2, group)


def forge_a_leg(export):
    """One amount, so that its journal no longer balances."""
    group = export.group(0)
    group["journals"][0]["command"]["legs"][0]["amount_minor"] = "900000"
    export.put(0, group)


def forge_a_journal(export):
    """Both amounts: in itself nothing is wrong with it."""
    group = export.group(3)
    for leg in group["journals"][0]["command"]["legs"]:
        leg["amount_minor"] = "50"
    export.put(3, group)


def forge_a_reversal(export):
    group = export.group(2)
    for leg in group["journals"][0]["command"]["legs"]:
        leg["amount_minor"] = "2499"
    export.put(2, group)


def rebuild_the_past(export):
    """The last group never happened, and the head says so."""
    export.lines.pop()
    export.context["head"]["head_sequence"] = "4"


def rebuild_the_future(export):
    """The head saw one millisecond less than a head that is remembered."""
    export.context["head"]["observed_at"] = "2025-11-01T00:00:00.000Z"
    for number in range(len(export.lines)):
        group = export.group(number)
        group["available_at"] = "2025-11-01T00:00:00.000Z"
        for journal in group["journals"]:
            journal["recorded_at"] = "2025-11-01T00:00:00.000Z"
        export.put(number, group)


def another_stream(export):
    export.context["head"]["stream_id"] = "CB-OTHER"


def an_unknown_member(export):
    group = export.group(1)
    group["note"] = "x"
    export.put(1, group)


def a_member_twice(export):
    export.lines[1] = export.lines[1].replace(
        b'{"schema_version"', b'{"group_id":"G","schema_version"', 1
    )


@pytest.mark.parametrize(
    ("damage", "code", "group", "sequence"),
    [
        (drop(1), "SEQUENCE_GAP", "G-3", "3"),
        (drop(3), "INCOMPLETE_EXPORT", "", ""),
        (swap, "SEQUENCE_GAP", "G-3", "3"),
        (repeat, "DUPLICATE_GROUP", "G-2", "2"),
        (split, "INVALID_GROUP", "G-3", "3"),
        (forge_a_leg, "INVALID_GROUP", "G-1", "1"),
        (forge_a_journal, "FORKED_HEAD", "", "5"),
        (forge_a_reversal, "INVALID_REVERSAL", "G-3", "3"),
        (rebuild_the_past, "STALE_HEAD", "", ""),
        (rebuild_the_future, "STALE_HEAD", "", ""),
        (another_stream, "SCOPE_MISMATCH", "", ""),
        (an_unknown_member, "INVALID_SCHEMA", "G-2", "2"),
        (a_member_twice, "INVALID_SCHEMA", "", ""),
    ],
)
def test_a_rejected_export_is_a_red_check_that_names_code_group_and_sequence(
    told, damage, code, group, sequence
):
    export = told.offer()
    damage(export)
    run = told.fold(exporter=export.config)
    assert not run.success
    assert run.materialized == ["bank_export"]
    check = run.check("bank_export_is_complete")
    assert not check.passed
    assert check.blocking
    assert check.severity.value == "ERROR"
    assert check.description.startswith(f"{code} at ")
    assert check.metadata["code"].value == code
    [fault] = rows(check.metadata["fault"])
    assert fault[:3] == (code, group, sequence)
    assert all(fault[3:])
    assert rows(run.told("bank_export")["fault"]) == [fault]
    # The run says the same as the check.
    assert run.failure("exporter")[0].startswith(f"{code} at ")


def test_a_rejected_export_takes_nobody_s_place(told):
    export = told.offer()
    export.lines.pop(1)
    told.fold(exporter=export.config)
    assert (told.folder / "rejected/groups.jsonl").read_bytes() == b"".join(export.lines)
    again = told.fold(assets=["bank_balances"])
    assert again.success
    assert balance_of(again, "ADA") == "97350"
    assert again.check("bank_balances_agree").passed
    assert told.fold().success
    assert sorted(path.name for path in told.folder.iterdir()) == [
        "balances.parquet",
        "export",
        "rejected",
    ]


def test_the_same_is_told_of_a_valid_and_of_a_rejected_export(told):
    valid = told.fold()
    export = told.offer()
    export.lines.pop(1)
    rejected = told.fold(exporter=export.config)
    assert list(rejected.told("bank_export")) == list(valid.told("bank_export"))
    checks = [run.check("bank_export_is_complete") for run in (valid, rejected)]
    assert list(checks[0].metadata) == list(checks[1].metadata)
    assert rows(checks[0].metadata["fault"]) == []
    schema = checks[0].metadata["fault"].schema
    assert [column.name for column in schema.columns] == COLUMNS


def test_an_examination_touches_nothing_but_the_export(told):
    export = told.offer()
    export.lines.pop(1)
    run = told.examine(export)
    assert not run.success
    assert run.materialized == ["bank_export"]
    assert run.check("bank_export_is_complete").metadata["code"].value == "SEQUENCE_GAP"
    # Dagster shows as failed what a failed run was going to make.
    planned = told.instance.get_records_for_run(
        run.result.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED
    ).records
    assert [each.event_log_entry.dagster_event.asset_key for each in planned] == [
        dg.AssetKey("bank_export")
    ]
    whole = told.examine(told.offer("whole"))
    assert whole.success
    assert whole.materialized == ["bank_export"]


def test_a_history_can_be_made_alone(told):
    run = told.fold(assets=["bank_history"])
    assert run.success
    assert run.materialized == ["bank_history"]


# --- what is taken


@on_both
def test_an_export_as_the_journal_gave_it_is_taken_and_makes_no_checkpoint(told):
    run = told.fold(exporter=told.offer().config, checkpoints={"every_journals": 0})
    assert run.success
    assert run.materialized == ASSETS
    assert run.value("bank_export", "note").startswith("Offered in ")
    assert balance_of(run, "ADA") == "97350"
    assert run.value("bank_checkpoints", "kept_rows") == 0
    assert "not of the live journal" in run.value("bank_checkpoints", "note")
    assert len(told.journal.checkpoints(HERE)) == 1


def test_an_export_of_a_stream_that_is_kept_elsewhere_is_taken_as_its_context_says(told):
    export = told.offer()
    another_stream(export)
    told.instance.add_dynamic_partitions("ledger_stream", ["CB-OTHER"])
    run = told.fold(stream="CB-OTHER", exporter=export.config)
    assert run.success
    assert balance_of(run, "ADA") == "97350"
    assert [each.stream.stream_id for each in told.journal.streams()] == [HERE]
    assert run.value("bank_checkpoints", "checkpoint_sets") == 0


def test_of_a_stream_that_is_kept_elsewhere_an_accepted_head_is_remembered(told):
    told.instance.add_dynamic_partitions("ledger_stream", ["CB-OTHER"])
    export = told.offer()
    another_stream(export)
    assert told.fold(stream="CB-OTHER", exporter=export.config).success
    forge_a_journal(export)
    run = told.fold(stream="CB-OTHER", exporter=export.config)
    assert run.check("bank_export_is_complete").metadata["code"].value == "FORKED_HEAD"


def test_a_head_of_our_stream_that_we_did_not_hand_out_is_refused(told):
    export = told.offer()
    export.context["head"]["receipt_ref"] = "R-5-by-somebody"
    run = told.examine(export)
    check = run.check("bank_export_is_complete")
    assert check.description.startswith("FORKED_HEAD at head: expected a head that the live")


# --- what cannot be read


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("groups.jsonl", b"\xff\n", "line 1: expected UTF-8"),
        ("groups.jsonl", b"{}\nnot json\n", "line 2 column 1: expected well-formed JSON"),
        ("accounts.json", b"", "line 1 column 1: expected well-formed JSON"),
        ("context.json", b"{", "line 1 column 2: expected well-formed JSON"),
    ],
)
def test_what_is_no_json_fails_clearly_and_keeps_what_was_there(told, name, content, says):
    export = told.offer()
    config = export.config
    (export.folder / name).write_bytes(content)
    says = f'"{export.folder / name}", {says}'
    run = told.fold(exporter=config)
    assert not run.success
    assert run.materialized == []
    description, metadata = run.failure("exporter")
    assert description.startswith(says)
    assert metadata["error"] == "StrictJsonError"
    check = run.check("bank_export_is_complete")
    assert not check.passed
    assert check.description.startswith(f"ERROR: There is no export. {says}")
    assert list(check.metadata) == list(told.fold().check("bank_export_is_complete").metadata)
    assert sorted(path.name for path in told.folder.iterdir()) == ["balances.parquet", "export"]


def test_a_journal_that_was_changed_behind_its_back_is_red(told):
    tables = told.journal._tables.streams[HERE]  # noqa: SLF001 - past everything that guards it
    tables.groups[1] = msgspec.structs.replace(tables.groups[1], group_id="G-X")
    run = told.fold()
    assert not run.success
    assert run.materialized == ["bank_export"]
    check = run.check("bank_export_is_complete")
    assert check.metadata["code"].value == "FORKED_HEAD"
    assert "expected the history of R-5-" in check.description


def test_no_export_at_all_is_red_too(told, monkeypatch):
    def away(_):
        raise DatabaseUnavailable("bank", expected="a server", found="postgresql://x:secret@host/")

    monkeypatch.setattr(told.journal, "snapshot", away)
    run = told.fold()
    assert run.materialized == []
    assert run.check("bank_export_is_complete").description == (
        "ERROR: There is no export. bank: expected a server, found postgresql://x:***@host/"
    )


def test_what_a_killed_run_left_behind_is_swept_a_day_later(told):
    old, young = told.folder / ".old", told.folder / ".young"
    for folder in (old, young):
        folder.mkdir()
        (folder / "groups.jsonl").write_bytes(b"x")
    (told.folder / ".part").write_bytes(b"x")
    for path in (old, told.folder / ".part"):
        os.utime(path, (0, 0))
    told.fold()
    assert {path.name for path in told.folder.glob(".*")} == {".young"}


def test_a_file_that_is_not_there_fails_clearly(told):
    export = told.offer()
    config = export.config
    (export.folder / "accounts.json").unlink()
    run = told.fold(exporter=config)
    description, metadata = run.failure("exporter")
    assert "accounts.json" in description
    assert "No such file" in metadata["found"]


def test_a_context_that_nobody_can_read_is_rejected_too(told):
    export = told.offer()
    export.context = []
    run = told.fold(exporter=export.config)
    assert run.check("bank_export_is_complete").metadata["code"].value == "INVALID_SCHEMA"
    assert run.value("bank_export", "head_sequence") == ""


def test_text_from_strangers_is_shown_safely(told):
    export = told.offer()
    group = export.group(1)
    group["group_id"] = "\u202e<script>\x1b[2J"
    export.put(1, group)
    run = told.fold(exporter=export.config)
    check = run.check("bank_export_is_complete")
    assert check.metadata["code"].value == "INVALID_IDENTIFIER"
    shown = json.dumps([check.description, *rows(check.metadata["fault"])], ensure_ascii=False)
    assert all(character.isprintable() for character in shown)


def test_assets_after_the_export_say_what_they_lack(office):
    run = office.fold(assets=["bank_balances"])
    assert "materialize bank_export" in run.failure("balances")[0]
    run = office.fold(assets=["bank_checkpoints"])
    assert "materialize bank_balances" in run.failure("checkpoints")[0]
