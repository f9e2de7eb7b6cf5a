"""The checks of the balances: what they find, and that they always say something."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from amends_pipeline_tests.defs.conftest import QUIET, Run, rows

AGREE, ZERO = "bank_balances_agree", "bank_trial_balance_is_zero"


@pytest.fixture
def told(office):
    """An office whose stream has the story, folded once."""
    office.tell_the_story()
    assert office.fold().success
    return office


def spoil(office, change):
    """Change the file of balances behind everybody's back."""
    path = office.folder / "balances.parquet"
    frame = pd.read_parquet(path)
    about = frame.attrs
    frame = change(frame.set_index("account_id")).reset_index()
    frame.attrs = about
    frame.to_parquet(path, index=False)


def judged(office):
    """Run both checks of the balances, and nothing else."""
    keys = office.definitions.resolve_asset_graph().asset_check_keys
    wanted = {key for key in keys if key.name in {AGREE, ZERO}}
    job = office.definitions.resolve_implicit_global_asset_job_def()
    subset = job.get_subset(asset_selection=set(), asset_check_selection=wanted)
    return Run(
        subset.execute_in_process(
            partition_key="CB-MAIN",
            instance=office.instance,
            run_config=QUIET,
            raise_on_error=False,
        )
    )


def test_a_balance_that_was_changed_is_named_with_both_amounts(told):
    def change(frame):
        frame.loc["BEN", ["raw_balance_minor", "normal_balance_minor"]] = ["-7", "7"]
        return frame

    spoil(told, change)
    run = judged(told)
    check = run.check(AGREE)
    assert not check.passed
    assert check.description.startswith("DRIFT: 1 row of 8 accounts")
    assert rows(check.metadata["differences"]) == [("BEN", "USD", "0", "-7", "-7")]
    zero = run.check(ZERO)
    assert not zero.passed
    assert zero.description == "DRIFT: USD does not add up to zero."
    assert rows(zero.metadata["trial_balance"]) == [
        ("EUR", "0", "0", "0", "0"),
        ("USD", "-7", "107650", "107650", "0"),
    ]


def test_two_changes_that_cancel_out_are_found_one_by_one(told):
    def change(frame):
        frame.loc["BEN", ["raw_balance_minor", "normal_balance_minor"]] = ["-7", "7"]
        frame.loc["CASH", ["raw_balance_minor", "normal_balance_minor"]] = ["100007", "100007"]
        return frame

    spoil(told, change)
    run = judged(told)
    assert run.check(AGREE).metadata["differing_rows"].value == 2
    assert run.check(ZERO).passed


def test_an_account_that_is_not_there_is_missed(told):
    spoil(told, lambda frame: frame.drop(index="CORA"))
    run = judged(told)
    assert rows(run.check(AGREE).metadata["differences"]) == [
        ("CORA", "USD", "-2400", "nothing", "2400")
    ]
    assert not run.check(ZERO).passed


def test_balances_of_another_export_are_not_compared(told):
    told.post("late", "CASH ADA 1")
    told.fold(assets=["bank_export", "bank_history"])
    run = judged(told)
    for name in (AGREE, ZERO):
        check = run.check(name)
        assert not check.passed
        assert check.description.startswith("INCOMPLETE: The balances are of 5/R-5-")
        assert check.severity.value == "WARN"


@pytest.mark.parametrize("what", ["export", "balances.parquet"])
def test_without_export_or_balances_there_is_nothing_to_judge(told, what):
    (told.folder / what).rename(told.home / "away")
    run = judged(told)
    assert {run.check(name).metadata["status"].value for name in (AGREE, ZERO)} == {"INCOMPLETE"}


def test_what_is_no_file_of_balances_is_an_error_and_no_exception(told):
    (told.folder / "balances.parquet").write_bytes(b"PAR1 or so")
    run = judged(told)
    assert run.success
    assert run.check(AGREE).description.startswith("ERROR: There is no verdict.")
    assert run.check(AGREE).severity.value == "ERROR"


def test_an_export_that_changed_on_disk_is_no_pass(told):
    path = told.folder / "export/groups.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    group = json.loads(lines[3])
    for leg in group["journals"][0]["command"]["legs"]:
        leg["amount_minor"] = "50"
    path.write_bytes(b"".join(lines[:3]) + json.dumps(group).encode())
    check = judged(told).check(AGREE)
    assert check.description.startswith("DRIFT: 2 rows")
    path.write_bytes(b"".join(lines[:3]))
    check = judged(told).check(AGREE)
    assert check.description.startswith("INCOMPLETE:")
    path.write_bytes(b"{}")
    check = judged(told).check(AGREE)
    assert check.description.startswith("ERROR:")


def test_a_run_that_names_no_stream_says_so(told):
    run = told.execute_all()
    assert run.success
    for name in (AGREE, ZERO):
        check = run.check(name)
        assert not check.passed
        assert check.description.startswith("INCOMPLETE: This run names no ledger stream")


def test_the_same_is_told_by_every_verdict(told):
    passed = judged(told)
    (told.folder / "balances.parquet").unlink()
    incomplete = judged(told)
    named = {"differences", "distance"}  # tables that are there when they have rows

    def keys(run, name):
        return [key for key in run.check(name).metadata if key not in named]

    for name in (AGREE, ZERO):
        assert keys(passed, name) == keys(incomplete, name)
