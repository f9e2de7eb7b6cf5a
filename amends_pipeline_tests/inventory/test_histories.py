"""Shared cases and the worked correction, with outcomes stated by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from amends_pipeline.kernel.instants import day_text
from amends_pipeline_tests.driver import all_cuts, drive, source, suffix, whole
from amends_pipeline_tests.reference import compute, publish
from amends_pipeline_tests.tables import Line, configuration, day, history, lines, visible_lines

ROOT = Path(__file__).parents[2]
SEED = ROOT / "fixtures/inventory/seed"
SHARED = ROOT / "../shared/cases/inventory-histories.json"
MAX_CUT = 8
"""Up to so many records, every way of cutting is tried."""


def shared_cases() -> list:
    if not SHARED.is_file():
        skipped = pytest.mark.skip(reason="the shared cases are not beside this repository")
        return [pytest.param(None, marks=skipped)]
    cases = json.loads(SHARED.read_text(encoding="utf-8"))["cases"]
    return [pytest.param(case, id=case["name"]) for case in cases]


def expected_pairs(config: dict, case: dict) -> dict[str, dict]:
    """The case's outcome as visible payloads by encoded output id."""

    def encoded_id(*parts: str) -> str:
        return json.dumps([config["namespace"], *parts], ensure_ascii=False, separators=(",", ":"))

    pairs: dict[str, dict] = {}
    for stock_key, rows in case["expect"]["keys"].items():
        item, location = json.loads(stock_key)
        pairs[encoded_id("key-status", item, location)] = {
            "present": True,
            "status": rows["status"],
            "reasons": [
                {
                    "stock_key": {"item": item, "location": location},
                    "txn_id": txn_id,
                    "revision": revision,
                }
                for txn_id, revision in rows["reasons"]
            ],
        }
        for when, close in rows["balances"]:
            pairs[encoded_id("balance", item, location, when)] = {"present": True, "close": close}
        for when, threshold, close in rows["alerts"]:
            pairs[encoded_id("alert", item, location, when)] = {
                "present": True,
                "threshold": threshold,
                "close": close,
            }
    return pairs


@pytest.mark.parametrize("case", shared_cases())
def test_a_shared_case_holds_for_every_way_of_cutting_it(case):
    config = case["config"]
    log = source([Line(json.dumps(record).encode()) for record in case["records"]])
    assert len(log) <= MAX_CUT
    pairs = expected_pairs(config, case)
    conflicts = {
        (*json.loads(stock_key), txn_id, revision)
        for stock_key, rows in case["expect"]["keys"].items()
        for txn_id, revision in rows["conflicts"]
    }
    for sizes in all_cuts(len(log)):
        for loading in (whole, suffix):
            run = drive(config, log, sizes, loading=loading)
            assert run.excess is None
            assert run.visible() == pairs
            assert run.conflicts() == conflicts
            assert [
                {"partition": 0, "offset": each.offset, "code": str(each.code)}
                for each in run.shelf.rejections
            ] == case["expect"]["rejections"]


@pytest.mark.parametrize("case", shared_cases())
def test_the_reference_agrees_with_the_shared_case(case):
    log = source([Line(json.dumps(record).encode()) for record in case["records"]])
    outcome = compute(case["config"], log)
    assert outcome.visible == expected_pairs(case["config"], case)
    assert outcome.stop is None


STORIES = {
    "a day that empties and fills again": (
        """
        A r1 NEW day 1 -50
        A r2 CANCEL day 1
        B r1 NEW day 1 -45
        """,
        """
        a READY
        a day 1: 55, alert
        """,
    ),
    "a crossing that moves twice": (
        """
        A r1 NEW day 1 -30
        B r1 NEW day 2 -30
        C r1 NEW day 3 -30
        A r2 AMEND day 1 -50
        A r3 AMEND day 1 10
        """,
        """
        a READY
        a day 1: 110
        a day 2: 80
        a day 3: 50, alert
        """,
    ),
    "what comes while a key is blocked shows when it unblocks": (
        """
        A r1 NEW day 2 -50
        A r1 NEW day 2 -51
        B r1 NEW day 1 -10
        C r1 NEW day 3 5
        C r2 AMEND day 4 5
        A r2 CANCEL day 9
        """,
        """
        a READY
        a day 1: 90
        a day 4: 95
        """,
    ),
    "blocked twice: what stood in between is frozen": (
        """
        A r1 NEW day 1 -50
        A r1 NEW day 1 -60
        A r2 AMEND day 1 -20
        B r1 NEW day 2 -21
        B r1 NEW day 2 -22
        A r3 AMEND day 1 -1
        """,
        """
        a BLOCKED by B r1
        a day 1: 80
        a day 2: 59, alert
        """,
    ),
    "a conflict on top of a conflict": (
        """
        A r1 NEW day 1 -50
        A r1 NEW day 1 -60
        A r2 AMEND day 1 -20
        A r2 AMEND day 1 -30
        A r1 NEW day 1 -70
        """,
        """
        a BLOCKED by A r2
        a day 1: 80
        """,
    ),
    "the conflict was seen before the revision it lies below": (
        """
        A r2 AMEND day 1 -20
        A r2 AMEND day 1 -30
        A r1 NEW day 1 -10
        b/A r2 AMEND day 1 -20
        """,
        """
        a BLOCKED by A r2
        a day 1: 80
        b READY
        b day 1: 80
        """,
    ),
    "cancellations in conflict, and one that resolves it, make no day": (
        """
        A r1 CANCEL day 1
        A r1 CANCEL day 2
        A r2 CANCEL day 3
        """,
        """
        a READY
        """,
    ),
    "the first day of all and the last": (
        """
        A r1 NEW day 1 at 00:00:00 -5
        B r1 NEW day 2912443 at 23:59:59.999999999 -50
        """,
        """
        a READY
        a day 1: 95
        a day 2912443: 45, alert
        """,
    ),
}


@pytest.mark.parametrize(("text", "rows"), STORIES.values(), ids=STORIES)
def test_a_story_ends_the_same_for_every_way_of_cutting_it(text, rows):
    log = source(history(text))
    for sizes in all_cuts(len(log)):
        run = drive(configuration(), log, sizes)
        assert visible_lines(run.visible()) == lines(rows)


def test_the_last_day_of_the_tables_is_the_last_supported_one():
    assert day_text(day(2912443)) == "9999-12-31"


class Stages:
    """The worked correction: its configuration, its three stages, what is expected of them."""

    def __init__(self) -> None:
        self.config = json.loads((SEED / "config.json").read_bytes())
        self.days = json.loads((SEED / "days.json").read_bytes())["stages"]
        self.stages = [(SEED / each["file"]).read_bytes().splitlines() for each in self.days]
        self.log = source([Line(value) for stage in self.stages for value in stage])
        self.sizes = [len(stage) for stage in self.stages]


CUTS = {"slice-1": [1, 1, 1, 1, 1], "default": [3, 1, 1]}


@pytest.mark.parametrize("name", CUTS)
def test_the_worked_correction_publishes_what_was_worked_out(name):
    seed = Stages()
    expected = (SEED / f"envelopes-{name}.jsonl").read_bytes().splitlines()
    run = drive(seed.config, seed.log, CUTS[name])
    assert [each for decision in run.wire() for each in decision] == expected
    untils = [decision.until for decision in run.decisions]
    assert [e for each in publish(seed.config, seed.log, untils) for e in each] == expected


@pytest.mark.parametrize("name", CUTS)
def test_the_worked_correction_shows_the_days_of_every_stage(name):
    seed = Stages()
    for stage, end in zip(seed.days, (3, 4, 5), strict=True):
        run = drive(seed.config, seed.log[:end], CUTS[name])
        assert (run.frontier, len(run.envelopes)) == (stage["worker_next"], stage["view_next"])
        shown = [f"a {stage['status']}"]
        for each in stage["days"]:
            number = int(each["day"][-2:])
            shown.append(f"a day {number}: {each['close']}" + ", alert" * each["alert"])
        assert visible_lines(run.visible()) == shown


def test_the_default_cut_of_each_stage_is_the_whole_stage():
    assert Stages().sizes == CUTS["default"]


RENDERING = """
import sys
from amends_pipeline_tests.driver import drive
from amends_pipeline_tests.inventory.test_histories import CUTS, STORIES, Stages
from amends_pipeline_tests.tables import configuration, history
from amends_pipeline_tests.driver import source
seed = Stages()
for run in (
    drive(seed.config, seed.log, CUTS["slice-1"]),
    *(drive(configuration(), source(history(text)), [2, 3]) for text, _ in STORIES.values()),
):
    for decision in run.wire():
        sys.stdout.buffer.write(b"".join(each + b"\\n" for each in decision))
"""


def test_no_clock_locale_or_hash_seed_shows_in_the_bytes():
    rendered = []
    for surroundings in (
        {"TZ": "UTC", "LC_ALL": "C", "PYTHONHASHSEED": "0"},
        {"TZ": "Pacific/Kiritimati", "LANG": "tr_TR.UTF-8", "PYTHONHASHSEED": "1"},
        {"TZ": "America/St_Johns", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "4294967295"},
    ):
        kept = {
            name: value
            for name, value in os.environ.items()
            if name not in {"TZ", "LANG", "PYTHONHASHSEED"} and not name.startswith("LC_")
        }
        completed = subprocess.run(
            [sys.executable, "-c", RENDERING],
            env=kept | surroundings,
            cwd=ROOT,
            check=True,
            capture_output=True,
            timeout=60,
        )
        rendered.append(completed.stdout)
    assert rendered[0] == rendered[1] == rendered[2]
    expected = (SEED / "envelopes-slice-1.jsonl").read_bytes()
    assert rendered[0].startswith(expected)
    assert len(rendered[0]) > 2 * len(expected)
