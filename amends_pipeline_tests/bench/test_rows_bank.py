"""The bank's rows on a history so small that their numbers say nothing: that they were earned."""

from __future__ import annotations

import json

import pytest

from amends_pipeline_tests.bench import __main__ as bench
from amends_pipeline_tests.bench import ledger, rows_bank, table
from amends_pipeline_tests.bench.measure import chosen
from amends_pipeline_tests.bench.player import PEERS
from amends_pipeline_tests.bench.stage import Options, Stage, WrongError
from amends_pipeline_tests.conftest import SETTINGS

ROWS = ("B1", "B2", "B3", "B4", "B5")
SMALL = ledger.Shape("small", groups=300, accounts=30, seed=5)


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    home = tmp_path_factory.mktemp("bench")
    home.chmod(0o711)
    with Stage(Options(ROWS, 1, 0.002, home=home, settings=SETTINGS)) as made:
        yield made


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return ledger.ledger(SMALL, tmp_path_factory.mktemp("ledgers"))


def groups_of(made):
    return [json.loads(line) for line in made.groups.read_bytes().splitlines()]


def test_small_rows_are_measured_and_every_balance_is_the_oracles(stage, tmp_path, record_property):
    measurements = bench.measured(stage, list(chosen(ROWS)), tmp_path / "bench.json")
    assert {each.row for each in measurements} == set(ROWS)
    for each in measurements:
        assert each.value is not None, each
        assert each.holds is None, "so small a history says nothing"
    peers = {(each.row, each.must and each.must.split(" × ")[1]) for each in measurements}
    assert {("B2", "DuckDB raw query"), ("B2", "Beancount"), ("B4", None), ("B5", None)} <= peers
    record_property("report", table.text(measurements, stage.machine(), width=150))


@pytest.mark.parametrize("account_id", ["ACC-000000", "ACC-000029"])
def test_a_balance_that_is_off_by_one_or_missing_is_no_result(stage, small, account_id):
    with rows_bank.ours(stage) as player:
        told = rows_bank.judged(player, small).raw
    rows_bank.check_all("us", told, told)
    wrong = {**told, account_id: str(int(told[account_id]) + 1)}
    with pytest.raises(WrongError, match=f"balances by us: {account_id}: expected"):
        rows_bank.check("us", wrong, told)
    del wrong[account_id]
    with pytest.raises(WrongError):
        rows_bank.check_all("us", wrong, told)


@pytest.mark.skipif(not PEERS.exists(), reason="no environment of peers")
def test_a_missing_posting_in_the_other_file_is_seen(stage, small, tmp_path):
    head, _, last = small.beancount.read_text().rpartition("\n\n")
    assert " * " in last
    with rows_bank.ours(stage) as player:
        told = rows_bank.judged(player, small).raw
    for text, right in ((f"{head}\n\n{last}", True), (f"{head}\n", False)):
        path = tmp_path / "ledger.beancount"
        path.write_text(text)
        with stage.peer("beancount_peer") as player:
            found = player.ask("load_and_balance", path=str(path), currency=ledger.CURRENCY).raw
        if right:
            rows_bank.check("Beancount", found, told)
        else:
            with pytest.raises(WrongError, match="balances by Beancount"):
                rows_bank.check("Beancount", found, told)


def test_equal_shapes_give_equal_bytes(small, tmp_path):
    again = ledger.ledger(SMALL, tmp_path)
    for name in ("groups.jsonl", "accounts.json", "context.json", "ledger.beancount"):
        assert (again.folder / name).read_bytes() == (small.folder / name).read_bytes()
    other = ledger.ledger(SMALL._replace(seed=6), tmp_path)
    assert other.groups.read_bytes() != small.groups.read_bytes()


def test_a_history_has_what_its_shape_promises(tmp_path):
    made = ledger.ledger(SMALL._replace(groups=3_000), tmp_path)
    groups = groups_of(made)
    assert len(groups) == 3_000
    assert 0.03 < sum(group["kind"] == "correction" for group in groups) / 3_000 < 0.07
    commands = [journal["command"] for group in groups for journal in group["journals"]]
    amounts = [int(leg["amount_minor"]) for command in commands for leg in command["legs"]]
    assert 2**63 < max(amounts) < 10**28, "beyond 64 bits, within Beancount's 28 digits"
    assert {len(command["legs"]) for command in commands} == {2, 3, 4, 6}
    booked_later = sum(
        command["booking_period"] != command["effective_at"][:7] for command in commands
    )
    assert booked_later > 5
    assert made.beancount.read_text().count(" * ") == len(commands)
