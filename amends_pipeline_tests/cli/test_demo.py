"""`amends demo`: the transcript, the document, and what it leaves alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

from amends_pipeline.cli import demo_bank, demo_stages
from amends_pipeline.cli import demo_transcript as transcript
from amends_pipeline.cli.demo import DATABASE
from amends_pipeline.cli.demo_stages import Verdict, played, seed_folder
from amends_pipeline.cli.demo_writing import WIDTH
from amends_pipeline.cli.program import program
from amends_pipeline.inventory.config import load_configuration
from amends_pipeline.kernel.errors import InputError, OperationError
from amends_pipeline.store.scratch import fresh_database
from amends_pipeline.store.server import URL_VARIABLE
from amends_pipeline_tests.contracts.ledgers import MemoryLedger

SEED = Path(__file__).parents[2] / "fixtures/inventory/seed"
AMENDS = Path(sys.executable).with_name("amends")


def envelopes() -> list[dict]:
    lines = (SEED / "envelopes-slice-1.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def demo(*arguments: str):
    """Call `amends demo` in this process."""
    result = CliRunner().invoke(program, ["demo", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture(scope="module")
def stages():
    """The three stages, played over a ledger in memory."""
    folder = seed_folder()
    return list(played(MemoryLedger(), load_configuration(folder / "config.json"), folder))


def test_the_stages_are_the_seed_s_record_by_record(stages):
    told = json.loads((SEED / "days.json").read_text())["stages"]
    for stage, expected in zip(stages, told, strict=True):
        assert stage.file == expected["file"]
        assert (stage.worker_next, stage.view_next) == (
            expected["worker_next"],
            expected["view_next"],
        )
        visible = [
            {"day": each.day, "close": each.now.close, "alert": each.now.alert}
            for each in stage.days
            if each.now.close is not None
        ]
        assert visible == expected["days"]
        assert stage.verdict.status == "PASS"
    assert [each for stage in stages for each in stage.envelopes] == envelopes()
    assert [stage.first_sequence for stage in stages] == [0, 5, 10]


def test_what_readers_saw_before_a_stage_is_what_they_saw_after_the_one_before(stages):
    for before, after in pairwise(stages):
        seen = {each.day: each.now for each in before.days if each.now.close is not None}
        assert seen == {each.day: each.was for each in after.days if each.was.close is not None}


def test_the_amendment_reads_like_this(stages):
    text = transcript.stage(2, stages[1]).decode()
    said = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    assert said[2:] == [
        "What readers see",
        "day was now",
        "2026-01-01 50, alert 70",
        "2026-01-02 30 50, alert",
        "2026-01-03 80 100",
        "Alerts",
        "withdrawn on 2026-01-01",
        "raised on 2026-01-02: 50 is below 60",
        "Envelopes",
        "sequence type day version says cause",
        "5 AlertRetracted 2026-01-01 2 withdrawn ISSUE-001 r2 at offset 3",
        "6 AlertRaised 2026-01-02 1 50 ISSUE-001 r2 at offset 3",
        "7 BalanceStated 2026-01-01 2 70 ISSUE-001 r2 at offset 3",
        "8 BalanceStated 2026-01-02 2 50 ISSUE-001 r2 at offset 3",
        "9 BalanceStated 2026-01-03 2 100 ISSUE-001 r2 at offset 3",
        "Frontiers",
        "source 4 of 4 decided, output 10 of 10 applied",
        "Verdict",
        "PASS: All rows agree. Judged at source offset 4 and output offset 10. Not compared:",
        "versions, causes and order of publication.",
    ]


def test_text_that_is_not_for_a_terminal_has_no_colours_and_no_line_too_long(stages):
    for number, stage in enumerate(stages, 1):
        lines = transcript.stage(number, stage).decode().splitlines()
        assert all(line.isprintable() and len(line) <= WIDTH for line in lines)


def test_it_ends_with_the_next_command_to_try():
    lines = transcript.closing(seed_folder(), 12_345, accepted=True).decode().splitlines()
    assert "Every verdict is positive (12.3 s)." in lines
    assert lines[-1].endswith("inventory provision fixtures/inventory/seed/config.json")


def test_without_a_checkout_it_says_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.setattr(demo_stages.amends_pipeline, "__file__", str(tmp_path / "a" / "b.py"))
    with pytest.raises(InputError, match="part of the source checkout"):
        seed_folder()
    result = demo()
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "run `amends demo` from a checkout" in result.stderr


def test_a_run_that_fails_is_an_operation_error_in_the_words_of_its_step(monkeypatch):
    folder = seed_folder()
    ledger = MemoryLedger()

    def refuse(token, decisions):
        raise OperationError("commit", expected="room", found="none")

    monkeypatch.setattr(ledger.store, "commit", refuse)
    with pytest.raises(OperationError, match="commit: expected room, found none"):
        next(played(ledger, load_configuration(folder / "config.json"), folder))


def test_the_document_holds_the_three_stages(postgres_server):
    result = demo("--json")
    assert result.exit_code == 0
    assert result.stderr == ""
    [line] = result.stdout.splitlines()
    told = json.loads(line)
    assert (told["database"], told["namespace"], told["accepted"]) == (DATABASE, "main", True)
    frontiers = [
        (each["frontiers"]["worker_next"], each["frontiers"]["view_next"])
        for each in (told["stages"])
    ]
    assert frontiers == [(3, 5), (4, 10), (5, 11)]
    assert [each["envelope"] for stage in told["stages"] for each in stage["envelopes"]] == (
        envelopes()
    )
    assert [each["now"].get("ADA") for each in told["bank"]] == ["97500", "97600", "97350", None]
    stock_key = {"item": "DEMO-PART", "location": "DEPOT-A"}
    assert [(stage["raised_alerts"], stage["withdrawn_alerts"]) for stage in told["stages"]] == [
        ([{"stock_key": stock_key, "day": "2026-01-01"}], []),
        (
            [{"stock_key": stock_key, "day": "2026-01-02"}],
            [{"stock_key": stock_key, "day": "2026-01-01"}],
        ),
        ([], []),
    ]


def test_it_starts_afresh_each_time_and_leaves_every_other_database_alone(postgres_server):
    lease = postgres_server.lease

    def databases() -> set[str]:
        with psycopg.connect(lease.url("postgres")) as connection:
            return {name for (name,) in connection.execute("SELECT datname FROM pg_database")}

    with psycopg.connect(lease.url("postgres"), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")
        before = databases()
        connection.execute(f"CREATE DATABASE {DATABASE}")
    with psycopg.connect(lease.url(DATABASE), autocommit=True) as connection:
        connection.execute("CREATE TABLE left_by_somebody ()")
    assert demo().exit_code == 0
    assert databases() - before == {DATABASE}
    with psycopg.connect(lease.url(DATABASE)) as connection:
        assert connection.execute("SELECT to_regclass('left_by_somebody')").fetchone() == (None,)


def test_two_at_once_do_not_fight(postgres_server):
    with fresh_database(DATABASE):
        result = demo()
    assert result.exit_code == 3
    assert "nobody to work in it" in result.stderr


TAKEN = demo_bank.Run(
    run_id="0" * 32,
    effective_cutoff="2025-10-20T00:00:00.000Z",
    knowledge_cutoff="2025-10-20T00:00:00.000Z",
    visible_through="5",
    balances={},
    statement=[],
    checks=[],
    fault=None,
)
NEGATIVE = Verdict("DRIFT", accepted=False, says="DRIFT: 1 row differs.")
UNREFUSED = demo_bank.Stage("An export is offered", (), {}, [TAKEN], offered=["a gap"])


@pytest.mark.parametrize("ledger", ["inventory", "bank"])
def test_a_negative_verdict_of_either_ledger_is_exit_status_1(
    postgres_server, monkeypatch, stages, ledger
):
    """The stages are not played: what they said is made up."""
    stage, bank_stages = stages[0], [UNREFUSED]
    if ledger == "inventory":
        stage, bank_stages = replace(stage, verdict=NEGATIVE), []
    monkeypatch.setattr(demo_stages, "played", lambda *_: [stage])
    monkeypatch.setattr(demo_bank, "played", lambda *_: bank_stages)
    result = demo()
    assert result.exit_code == 1
    assert "A verdict is negative" in result.stdout
    assert json.loads(demo("--json").stdout)["accepted"] is False


def test_in_a_process_of_its_own_it_prints_utf_8_and_is_quiet_whatever_the_environment(tmp_path):
    home = Path(os.environ["AMENDS_HOME"])
    told = subprocess.run(
        [AMENDS, "demo"],
        check=False,
        cwd=tmp_path,
        env={
            "AMENDS_HOME": str(home),
            "PATH": os.environ["PATH"],
            "LC_ALL": "C",
            "PYTHONHASHSEED": "7",
            "TZ": "Pacific/Kiritimati",
            "DAGSTER_HOME": str(tmp_path),
            URL_VARIABLE: "postgresql://me:hunter2@127.0.0.1:1/mine",
        },
        capture_output=True,
    )
    assert (told.returncode, told.stderr) == (0, b"")
    text = told.stdout.decode("utf-8")
    assert "3. The last day's receipt is cancelled" in text
    assert "7. Two exports are offered that are not whole" in text
    assert "hunter2" not in text
    assert list(tmp_path.iterdir()) == []  # DAGSTER_HOME and the current folder
