"""What a run of a ledger stream makes: export, history, balances, checkpoints."""

from __future__ import annotations

import base64
import re

import pandas as pd
import pytest

from amends_pipeline.bank.fold import fold_balance
from amends_pipeline.bank.statement import statement
from amends_pipeline.bank.values import plain
from amends_pipeline.flows.bank_checkpoints import Wanted, registry
from amends_pipeline.flows.bank_export import reading
from amends_pipeline_tests.defs.bank.conftest import HERE, on_both
from amends_pipeline_tests.defs.conftest import rows

ASSETS = ["bank_export", "bank_history", "bank_balances", "bank_checkpoints"]
CHECKS = ["bank_export_is_complete", "bank_balances_agree", "bank_trial_balance_is_zero"]
OCTOBER_20 = "2025-10-20T23:59:59.999Z"


def keys(run):
    return {asset: list(run.told(asset)) for asset in run.materialized}


def balance_of(run, account_id):
    [row] = [row for row in rows(run.told("bank_balances")["balances"]) if row[0] == account_id]
    return row[3]


def receipts(office, *names):
    """When the groups of some journals became known."""
    with reading(office.journal, HERE) as export:
        by_name = {
            journal.command.journal_id: group.available_at
            for group in export.groups
            for journal in group.journals
        }
    return [by_name[f"J-{name}"] for name in names]


@on_both
def test_a_run_makes_all_assets_and_every_check_agrees(office):
    office.tell_the_story()
    run = office.fold()
    assert run.success
    assert run.materialized == ASSETS
    assert [run.check(name).passed for name in CHECKS] == [True] * 3
    assert [(row[0], row[3], row[4]) for row in rows(run.told("bank_balances")["balances"])] == [
        ("CASH", "100000", "100000"),
        ("ADA", "97350", "-97350"),
        ("CORA", "2400", "-2400"),
        ("FEES", "250", "-250"),
        ("BEN", "0", "0"),
        ("COSTS", "0", "0"),
        ("DORA", "0", "0"),
        ("KASSE", "0", "0"),
    ]
    assert run.value("bank_export", "head_sequence") == "5"
    assert run.value("bank_export", "dagster/row_count") == 4
    assert run.value("bank_history", "validated_through_sequence") == "5"
    assert run.value("bank_history", "dagster/row_count") == 10
    assert run.value("bank_history", "corrections") == 1
    assert run.value("bank_history", "currencies") == "EUR, USD"
    assert run.value("bank_history", "reference") == "within the reference"
    assert run.value("bank_balances", "dagster/row_count") == 8
    assert run.value("bank_checkpoints", "kept_rows") == 8


def test_the_file_of_balances_holds_what_is_shown(office):
    office.tell_the_story()
    run = office.fold()
    frame = pd.read_parquet(run.value("bank_balances", "file"))
    assert list(frame["account_id"]) == sorted(frame["account_id"])
    assert (
        dict(zip(frame["account_id"], frame["raw_balance_minor"], strict=True))["ADA"] == "-97350"
    )
    assert set(frame.dtypes.astype(str)) == {"string"}


def test_thirty_digits_stay_exact(office):
    office.post("1", f"CASH ADA {'9' * 30}")
    office.post("2", f"CASH ADA {'9' * 30}")
    run = office.fold()
    assert balance_of(run, "ADA") == str(2 * int("9" * 30))
    assert all(run.check(name).passed for name in CHECKS)
    assert pd.read_parquet(run.value("bank_balances", "file"))["raw_balance_minor"].max() != ""


def test_what_changed_is_told_against_the_balances_before(office):
    office.post("fund", "CASH ADA 100000")
    office.post("pay", "ADA BEN 2500")
    first = office.fold()
    assert rows(first.told("bank_balances")["what_changed"]) == [
        ("CASH", "USD", "", "100000", "+100000"),
        ("ADA", "USD", "", "97500", "+97500"),
        ("BEN", "USD", "", "2500", "+2500"),
    ]
    office.correct("redo", "pay", "ADA CORA 2400")
    second = office.fold()
    assert rows(second.told("bank_balances")["what_changed"]) == [
        ("BEN", "USD", "2500", "0", "-2500"),
        ("CORA", "USD", "0", "2400", "+2400"),
        ("ADA", "USD", "97500", "97600", "+100"),
    ]
    third = office.fold()
    assert third.value("bank_balances", "changed_accounts") == 0
    assert rows(third.told("bank_balances")["what_changed"]) == []


def test_the_statement_of_the_busiest_account_is_the_reference_s(office):
    office.tell_the_story()
    run = office.fold()
    assert run.value("bank_balances", "busiest_account") == "ADA"
    with reading(office.journal, HERE) as export:
        query = {
            "schema_version": "d30-balance-fold-v1",
            "ledger_id": export.head.ledger_id,
            "entity_id": export.head.entity_id,
            "account_id": "ADA",
            "currency": "USD",
            "effective_cutoff": export.head.observed_at,
            "knowledge_cutoff": export.head.observed_at,
            "checkpoint": None,
        }
        told = statement(
            query,
            [plain(group) for group in export.groups],
            [plain(account) for account in export.accounts],
            {"head": plain(export.head), "checkpoint_registry": []},
        )
    shown = rows(run.told("bank_balances")["statement"])
    assert [(row[0], row[2], row[3], row[7]) for row in shown] == [
        (line["sequence"], line["journal_id"], line["kind"], line["normal_balance_minor"])
        for line in told["lines"]
    ]
    assert [row[7] for row in shown] == ["100000", "97500", "100000", "97600", "97350"]


def test_the_picture_of_the_busiest_account_shows_what_was_known_then(office):
    office.tell_the_story()
    markdown = office.fold().value("bank_balances", "busiest_account_picture")
    [paid] = receipts(office, "pay")
    assert "ADA: 97350 minor units of USD after 5 journals." in markdown
    assert "Before that correction, 97500 minor units of USD were known." in markdown
    [data] = re.findall(r"\(data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)\)", markdown)
    assert f"as known at {paid}" in base64.b64decode(data).decode()


# --- cutoffs


def test_balances_are_asked_for_at_an_economic_cutoff(office):
    office.tell_the_story()
    run = office.fold(balances={"effective_cutoff": OCTOBER_20})
    assert balance_of(run, "ADA") == "97600"  # the fee is of 23 October
    assert run.value("bank_balances", "visible_through_sequence") == "5"
    assert all(run.check(name).passed for name in CHECKS)
    assert OCTOBER_20 in run.check("bank_balances_agree").description


@on_both
def test_balances_are_asked_for_before_and_at_the_receipt_of_a_correction(office):
    office.tell_the_story()
    paid, corrected = receipts(office, "pay", "redo")
    for cutoff, balance, through in ((paid, "97500", "2"), (corrected, "97600", "4")):
        run = office.fold(balances={"knowledge_cutoff": cutoff})
        assert balance_of(run, "ADA") == balance
        assert run.value("bank_balances", "visible_through_sequence") == through
        assert all(run.check(name).passed for name in CHECKS)


@pytest.mark.parametrize(
    ("cutoff", "says"),
    [
        ("9999-12-31T23:59:59.999Z", "KNOWLEDGE_BEYOND_EXPORT"),
        ("yesterday", "INVALID_TIMESTAMP"),
    ],
)
def test_a_cutoff_that_has_no_answer_fails_with_its_code(office, cutoff, says):
    office.tell_the_story()
    run = office.fold(balances={"knowledge_cutoff": cutoff})
    assert not run.success
    assert run.materialized == ["bank_export", "bank_history"]
    description, told = run.failure("balances")
    assert says in description
    assert told["error"] == "InputError"


# --- little and nothing


@on_both
def test_an_empty_stream_has_balances_of_zero(office):
    run = office.fold()
    assert run.success
    assert run.materialized == ASSETS
    assert {row[3] for row in rows(run.told("bank_balances")["balances"])} == {"0"}
    assert "empty" in run.check("bank_export_is_complete").description
    assert [run.check(name).passed for name in CHECKS] == [True] * 3


def test_a_stream_without_accounts_has_no_balances(nowhere):
    nowhere.open(accounts=[])
    run = nowhere.fold()
    assert run.success
    assert run.value("bank_balances", "dagster/row_count") == 0
    assert run.value("bank_balances", "busiest_account") == ""
    assert [run.check(name).passed for name in CHECKS] == [True] * 3


def test_a_stream_that_nobody_opened_fails_clearly(nowhere):
    nowhere.instance.add_dynamic_partitions("ledger_stream", ["NOBODY"])
    run = nowhere.fold(stream="NOBODY")
    assert not run.success
    description, told = run.failure("exporter")
    assert "NOBODY" in description
    assert told["error"] == "UnknownStream"


def test_the_same_is_told_on_every_path(nowhere):
    nowhere.open(accounts=[])
    told = [nowhere.fold()]
    nowhere.open()
    told.append(nowhere.fold())
    nowhere.tell_the_story()
    told.extend([nowhere.fold(), nowhere.fold()])
    told.append(nowhere.fold(exporter=nowhere.offer().config))
    assert all(run.success for run in told)
    assert all(keys(run) == keys(told[0]) for run in told)


# --- checkpoints


@on_both
def test_checkpoints_are_kept_first_and_then_after_so_many_journals(office):
    office.post("1", "CASH ADA 1")
    kept = [office.fold(checkpoints={"every_journals": 2})]
    for name in ("2", "3", "4"):
        office.post(name, "CASH ADA 1")
        kept.append(office.fold(checkpoints={"every_journals": 2}))
    assert [run.value("bank_checkpoints", "kept_rows") for run in kept] == [8, 0, 8, 0]
    assert [run.value("bank_checkpoints", "through_sequence") for run in kept] == ["1", "", "3", ""]
    assert [each.through_sequence for each in office.journal.checkpoints(HERE)] == [1, 3]
    assert "2 journals later" in kept[-1].value("bank_checkpoints", "note")


@on_both
def test_a_fold_resumes_from_a_checkpoint_that_a_run_kept(office):
    office.post("fund", "CASH ADA 100000")
    office.post("pay", "ADA BEN 2500")
    office.fold(balances={"effective_cutoff": OCTOBER_20})
    [only] = office.journal.checkpoints(HERE)
    kept = office.journal.checkpoint_set(HERE, only)
    assert (kept.through_sequence, kept.raw_balances["ADA"]) == (2, -97500)
    office.correct("redo", "pay", "ADA CORA 2400")
    with reading(office.journal, HERE) as export:
        [entry] = registry([Wanted(kept, ["ADA"])])(export.snapshot)
        query = {
            "schema_version": "d30-balance-fold-v1",
            "ledger_id": export.head.ledger_id,
            "entity_id": export.head.entity_id,
            "account_id": "ADA",
            "currency": "USD",
            "effective_cutoff": OCTOBER_20,
            "knowledge_cutoff": export.head.observed_at,
            "checkpoint": plain(entry.checkpoint),
        }
        suffix = [plain(group) for group in export.groups][2:]
        accounts = [plain(account) for account in export.accounts]
        context = {"head": plain(export.head), "checkpoint_registry": [plain(entry)]}
    answer = fold_balance(query, suffix, accounts, context)
    assert answer["balance"]["raw_balance_minor"] == "-97600"
