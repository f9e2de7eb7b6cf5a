"""The bank's part of `amends demo`: the canonical answers, by real runs of Dagster."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from amends_pipeline.cli import demo_bank
from amends_pipeline.cli import demo_bank_transcript as transcript
from amends_pipeline.cli.demo_bank import OCTOBER_20, Check, history_folder, played
from amends_pipeline.cli.demo_writing import WIDTH
from amends_pipeline.kernel.errors import InputError, OperationError
from amends_pipeline.store.memory_bank import BankTables, MemoryBank

CANONICAL = Path(__file__).parents[2] / "fixtures/bank/canonical"


@pytest.fixture(scope="module")
def stages():
    """All stages, played over a journal in memory."""
    return list(played(MemoryBank(BankTables()), history_folder()))


def answers(balance_of="ADA"):
    """What the fixtures state of an account: normal balances by what was asked."""
    stated = json.loads((CANONICAL / "answers.json").read_text())
    return {each["asked"]: each["normal"] for each in stated if each["account"] == balance_of}


def test_the_stages_have_the_stated_answers(stages):
    funded, corrected, charged, _ = stages
    stated = answers()
    before, at, after = (run.balances["ADA"] for run in corrected.runs)
    assert (
        funded.now["ADA"]
        == before
        == next(
            normal for asked, normal in stated.items() if asked.startswith("one millisecond before")
        )
    )
    assert before == "97500"
    assert at == after == stated["at the receipt of the correction"] == "97600"
    assert charged.now["ADA"] == stated["all that the head saw"] == "97350"
    october = charged.runs[0]
    assert (october.effective_cutoff, october.balances["ADA"]) == (OCTOBER_20, "97600")


def test_a_statement_runs_through_the_story(stages):
    told = [line["balance"] for line in stages[2].runs[-1].statement]
    assert told == ["100000", "97500", "100000", "97600", "97350"]


def test_a_fold_from_the_checkpoint_is_what_the_fixtures_state(stages):
    resumed = stages[2].resumed
    assert (resumed.checkpoint_id, resumed.opening) == ("CP-2-20251020T235959999Z", "97500")
    assert resumed.supplied_groups == 2
    stated = json.loads((CANONICAL / "resumed.json").read_text())
    assert resumed.balance == stated["balance"]["normal_balance_minor"] == "97600"


def test_every_offered_export_is_rejected_with_its_code(stages):
    faults = [run.fault for run in stages[3].runs]
    assert [(each["code"], each["group"], each["sequence"]) for each in faults] == [
        ("SEQUENCE_GAP", "G-3", "3"),
        ("FORKED_HEAD", "", "5"),
    ]
    assert [run.balances for run in stages[3].runs] == [{}, {}]


def test_all_is_as_it_should_be(stages):
    assert [stage.as_it_should_be for stage in stages] == [True] * 4
    assert {check.name for run in stages[0].runs for check in run.checks} == {
        "bank_export_is_complete",
        "bank_balances_agree",
        "bank_trial_balance_is_zero",
    }


def test_a_check_that_says_something_else_is_noticed(stages):
    wrong = Check("bank_balances_agree", passed=False, says="DRIFT: 1 row differs.")
    run = stages[0].runs[0]._replace(checks=[wrong])
    told = demo_bank.Stage("x", (), {}, [run])
    assert not told.as_it_should_be
    accepted = stages[3].runs[0]._replace(checks=[wrong._replace(passed=True)])
    assert not demo_bank.Stage("x", (), {}, [accepted], offered=["x"]).as_it_should_be
    resumed = stages[2].resumed._replace(balance="1")
    assert not demo_bank.Stage("x", (), {}, stages[2].runs, resumed).as_it_should_be


def test_the_correction_reads_like_this(stages):
    text = transcript.stage(5, stages[1]).decode()
    said = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    said = [re.sub(r"20[0-9]{2}-[0-9-]+T[0-9:.]+Z", "T", line) for line in said]
    assert said[2:19] == [
        "Posted",
        "sequence journal effective debit credit amount",
        "3 J-UNDO 2025-10-10 BEN ADA 2500",
        "4 J-REDO 2025-10-10 ADA CORA 2400",
        "Balances",
        "account was now",
        "ADA 97500 97600",
        "BEN 2500 0",
        "CASH 100000 100000",
        "CORA 0 2400",
        "FEES 0 0",
        "What ADA has, and when that was known",
        "effective by known by through sequence balance",
        "T T 2 97500",
        "T T 4 97600",
        "T T 4 97600",
        "Statement of ADA",
    ]


def test_no_line_is_too_long(stages):
    for number, stage in enumerate(stages, 4):
        lines = transcript.stage(number, stage).decode().splitlines()
        assert all(line.isprintable() and len(line) <= WIDTH for line in lines)


def test_the_document_is_json(stages):
    told = [transcript.document(stage) for stage in stages]
    assert json.loads(json.dumps(told)) == told


def test_without_a_checkout_it_says_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.setattr(demo_bank.amends_pipeline, "__file__", str(tmp_path / "a" / "b.py"))
    with pytest.raises(InputError, match="part of the source checkout"):
        history_folder()


def test_a_run_that_fails_is_an_operation_error_in_the_words_of_its_step(monkeypatch):
    journal = MemoryBank(BankTables())

    def refuse(*_):
        raise OperationError("checkpoints", expected="room", found="none")

    monkeypatch.setattr(journal, "keep_checkpoints", refuse)
    with pytest.raises(OperationError, match="checkpoints: expected room, found none"):
        next(played(journal, history_folder()))
