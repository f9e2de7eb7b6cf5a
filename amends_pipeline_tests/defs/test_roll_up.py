"""The check `every_unit_is_verified`: one badge for all units, and a table that names the worst."""

from __future__ import annotations

import json
import re

import dagster as dg
import pytest

from amends_pipeline.defs.inventory.roll_up import UNITS, rolled_up
from amends_pipeline.flows.judge import judge_namespace
from amends_pipeline.flows.rebuild import rebuild
from amends_pipeline.flows.review import Reviewed, reviewed
from amends_pipeline.kernel.errors import DatabaseUnavailable
from amends_pipeline.ports import Extent, Unit
from amends_pipeline_tests.defs.conftest import Office, on_both, rows
from amends_pipeline_tests.flows.test_review import standing, verdict
from amends_pipeline_tests.tables import configuration, day

ROLL_UP = "every_unit_is_verified"
P0 = Unit("main", 0)
TOO_MANY = (
    "1001 exclusions are too many to show. Take rejections and conflicts from the output of:"
    " amends inventory verify --namespace main --json"
)


def seen(result) -> tuple[str, bool, str]:
    """The status, whether it passed, and its colour."""
    status = result.metadata["status"].value
    assert result.description.startswith(f"{status}: ")
    return status, result.passed, result.severity.value


@pytest.fixture
def two(office) -> Office:
    """An office with the namespace `main`: key a on partition 0, key b on partition 1."""
    document = configuration(partitions=2)
    document["keys"][1]["partition"] = 1
    office.provision(document)
    office.append("A r1 NEW day 1 -50; b/B r1 NEW day 1 -30")
    return office


# --- what it comes to


def units(*described) -> list[Reviewed]:
    """Units `main|p0`, `main|p1` and so on, by status; `None` was never judged."""
    standings, verdicts = [], {}
    for at, (status, members) in enumerate(described):
        unit = Unit("main", at)
        standings.append(standing(unit, extent=Extent(0, members.pop("end", 10))))
        if status is not None:
            verdicts[unit] = verdict(unit, status, **members)
    return list(reviewed(standings, verdicts))


PASSED = ("PASS", {})
BADGES = {
    "all pass": ([PASSED, PASSED], ("PASS", True, "WARN")),
    "accepted exclusions": (
        [PASSED, ("PASS_WITH_EXCLUSIONS", {"accepted": True})],
        ("PASS_WITH_EXCLUSIONS", True, "WARN"),
    ),
    "exclusions": (
        [PASSED, ("PASS_WITH_EXCLUSIONS", {})],
        ("PASS_WITH_EXCLUSIONS", False, "WARN"),
    ),
    "never judged": ([PASSED, (None, {})], ("INCOMPLETE", False, "WARN")),
    "blocked": ([("BLOCKED", {}), (None, {}), PASSED], ("BLOCKED", False, "WARN")),
    "incomplete": ([("INCOMPLETE", {}), PASSED], ("INCOMPLETE", False, "WARN")),
    "drift": ([("BLOCKED", {}), PASSED, ("DRIFT", {})], ("DRIFT", False, "ERROR")),
    "error": ([("DRIFT", {}), ("ERROR", {}), PASSED], ("ERROR", False, "ERROR")),
    "less than accepted": ([("PASS", {"accepted": False})], ("INCOMPLETE", False, "WARN")),
    "behind": ([("PASS", {"end": 99}), PASSED], ("PASS", True, "WARN")),
    "nothing": ([], ("INCOMPLETE", False, "WARN")),
}


@pytest.mark.parametrize(("described", "badge"), BADGES.values(), ids=BADGES)
def test_the_badge_is_as_bad_as_the_worst_unit(described, badge):
    described = [(status, dict(members)) for status, members in described]
    assert seen(rolled_up(units(*described))) == badge


def test_a_unit_whose_runs_fail_is_not_verified_whatever_its_verdict_says():
    stuck, other = units(("PASS_WITH_EXCLUSIONS", {"accepted": True}), PASSED)
    result = rolled_up([stuck._replace(failing="2 runs failed there, no luck"), other])
    assert seen(result) == ("INCOMPLETE", False, "WARN")
    assert "is stuck at source offset" in result.description
    assert "2 runs failed there, no luck" in result.description


def test_a_verdict_behind_its_source_stands_and_says_how_far():
    result = rolled_up(units(("PASS", {"end": 13}), PASSED))
    assert result.description == (
        "PASS: 2 units are verified and accepted."
        " Judged at an earlier boundary: main|p0 stands at 10, 3 records behind."
    )
    assert result.metadata["records_behind"].value == 3


def test_the_first_units_are_named_and_the_others_counted():
    result = rolled_up(units(*[("DRIFT", {"differences": 2}) for _ in range(5)], (None, {})))
    assert result.description == (
        "DRIFT: 6 of 6 units not verified and accepted:"
        " main|p0 is DRIFT, 2 rows differ at source offset 10;"
        " main|p1 is DRIFT, 2 rows differ at source offset 10;"
        " main|p2 is DRIFT, 2 rows differ at source offset 10; and 3 more."
    )


def test_the_table_holds_two_hundred_units_and_the_totals_stand_beside_it():
    result = rolled_up(units(*[PASSED] * 300, (None, {})))
    table = rows(result.metadata[UNITS])
    assert len(table) == 200
    assert table[0][:3] == ("NOT JUDGED", "main|p300", "was never judged")
    counts = ("counted_units", "accepted_units", "never_judged_units", "doubtful_units")
    assert [result.metadata[key].value for key in counts] == [301, 300, 1, 1]


def test_what_others_wrote_into_a_verdict_does_no_harm():
    [unit] = units(("A\n\u202eSTATUS", {"judged_by": "\x1b[31mme", "judged_at": "\x00"}))
    result = rolled_up([unit])
    assert all(str(cell).isprintable() for cell in rows(result.metadata[UNITS])[0])
    assert seen(result)[0] == "ERROR"


def test_the_table_comes_before_all_counts_but_one():
    result = rolled_up(units(PASSED))
    assert sorted(result.metadata)[:2] == ["accepted_units", UNITS]  # as Dagster shows them


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ({"judged_at": "2026-11-30T17:13:52.123Z"}, ("2026-11-30 17:13:52", "a test")),
        ({"judged_at": "2026-11-30T17:13:52Z"}, ("2026-11-30 17:13:52", "a test")),
        ({"judged_at": "yesterday"}, ("yesterday", "a test")),
        (
            {"judged_by": "Dagster run 5f0c2aa1-3b1e-4cf5-8f21-0e2c6a7b8c9d"},
            ("2026-01-01 00:00:00", "run 5f0c2aa1"),
        ),
        (
            {"judged_by": "amends inventory verify, process 7 on here"},
            ("2026-01-01 00:00:00", "amends inventory verify, process 7 on here"),
        ),
    ],
)
def test_times_and_runs_are_written_short(written, shown):
    usual = {"judged_at": "2026-01-01T00:00:00.000Z", "judged_by": "a test"}
    [row] = rows(rolled_up(units(("PASS", usual | written))).metadata[UNITS])
    assert row[4:6] == shown


# --- in runs


@on_both
def test_a_pass_of_one_unit_does_not_hide_the_drift_of_another(two):
    assert seen(two.backfill("main|p1").check(ROLL_UP)) == ("INCOMPLETE", False, "WARN")
    run = two.backfill("main|p0")
    assert seen(run.check(ROLL_UP)) == ("PASS", True, "WARN")
    two.add_to_balance(P0, day(1), 1)
    assert two.verify("main|p0").check("view_equals_oracle").severity.value == "ERROR"
    run = two.verify("main|p1")
    assert run.check("view_equals_oracle").passed
    assert seen(run.check(ROLL_UP)) == ("DRIFT", False, "ERROR")
    [worst, other] = rows(run.check(ROLL_UP).metadata[UNITS])
    assert worst[:4] == ("DRIFT", "main|p0", "is DRIFT, 1 row differs at source offset 1", 0)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", worst[4])
    assert worst[6] == "yes"
    assert other[:2] == ("PASS", "main|p1")


def test_the_unit_of_a_run_is_judged_before_all_are_rolled_up(main):
    main.append("A r1 NEW day 1 -50")
    run = main.backfill()
    assert run.check().passed
    assert run.check(ROLL_UP).passed
    assert run.check(ROLL_UP).partition is None
    [row] = rows(run.check(ROLL_UP).metadata[UNITS])
    assert row[5] == f"run {run.result.run_id[:8]}"


def test_a_correction_says_that_the_verdict_is_about_an_earlier_boundary(main):
    main.append("A r1 NEW day 1 -50")
    main.backfill()
    main.append("A r2 AMEND day 1 -30; B r1 NEW day 2 1")
    run = main.refold()
    assert [each.check_name for each in run.result.get_asset_check_evaluations()] == [
        "outbox_sequence_is_whole",
        ROLL_UP,
    ]
    assert run.check(ROLL_UP).passed
    assert "main|p0 stands at 1, 2 records behind" in run.check(ROLL_UP).description


def test_it_can_be_executed_by_itself_and_without_a_partition(main):
    main.append("A r1 NEW day 1 -50")
    main.refold()
    alone = dg.define_asset_job(
        "alone",
        selection=dg.AssetSelection.checks(
            dg.AssetCheckKey(dg.AssetKey("materialized_view"), ROLL_UP)
        ),
    )
    definitions = dg.Definitions.merge(main.definitions, dg.Definitions(jobs=[alone]))
    run = main.executed(definitions.resolve_job_def("alone"), {})
    assert run.success
    assert seen(run.check(ROLL_UP)) == ("INCOMPLETE", False, "WARN")
    assert main.ledger.operations.verdicts() == []  # it judges nothing itself


def test_namespaces_that_do_not_follow_are_listed_and_do_not_turn_the_badge(main):
    main.append("A r1 NEW day 1 -50")
    main.backfill()
    rebuild(main.ledger, "new", "main")
    check = main.refold().check(ROLL_UP)
    assert seen(check) == ("PASS", True, "WARN")
    assert check.description == (
        "PASS: 1 unit is verified and accepted."
        " Not counted, as they do not follow their source: new."
    )
    assert [(row[1], row[6]) for row in rows(check.metadata[UNITS])] == [
        ("main|p0", "yes"),
        ("new|p0", "no"),
    ]
    assert check.metadata["uncounted_units"].value == 1


def test_verdicts_of_people_on_the_command_line_count_too(two):
    for unit in ("main|p0", "main|p1"):
        two.refold(unit)
    judge_namespace(two.ledger, "main", "amends inventory verify, process 7 on here")
    check = two.refold().check(ROLL_UP)
    assert check.passed
    assert {row[5] for row in rows(check.metadata[UNITS])} == {
        "amends inventory verify, process 7 on here"
    }


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            DatabaseUnavailable("here", expected="a server", found="none"),
            "ERROR: There is no roll-up. here: expected a server, found none",
        ),
        (
            RuntimeError("cannot reach postgresql://me:hunter2@db/amends"),
            "ERROR: There is no roll-up. RuntimeError: cannot reach postgresql://me:***@db/amends",
        ),
    ],
)
def test_whatever_goes_wrong_is_told_under_the_same_keys(main, monkeypatch, error, words):
    main.append("A r1 NEW day 1 -50")
    good = main.backfill().check(ROLL_UP)

    def fail(**_):
        raise error

    monkeypatch.setattr(main.ledger.operations, "verdicts", fail)
    run = main.execute_all()
    assert run.success
    bad = run.check(ROLL_UP)
    assert seen(bad) == ("ERROR", False, "ERROR")
    assert bad.description == words
    assert list(bad.metadata) == list(good.metadata)
    logged = main.instance.all_logs(run.result.run_id)
    assert "hunter2" not in "".join(str(entry) for entry in logged)


# --- the verdict of a unit, and consent


def test_a_verification_that_a_sensor_asked_for_judges_what_is_processed(main):
    main.append("A r1 NEW day 1 -50")
    main.refold()
    main.append("B r1 NEW day 2 -20")
    asked = main.verify(tags={"dagster/sensor_name": "stale_verdicts"})
    assert seen(asked.check())[:2] == ("PASS", True)
    assert rows(asked.check().metadata["judged_at"])[0][1] == "1"
    assert "main|p0 stands at 1, 1 record behind" in asked.check(ROLL_UP).description


def test_a_failed_verification_is_kept_where_the_unit_stands(main, monkeypatch):
    main.append("A r1 NEW day 1 -50")
    main.backfill()

    def fail(_):
        raise RuntimeError

    monkeypatch.setattr(main.ledger.store, "snapshot", fail)
    check = main.verify().check(ROLL_UP)
    assert seen(check) == ("ERROR", False, "ERROR")
    [kept] = main.ledger.operations.verdicts()
    assert (kept.status, kept.source_end) == ("ERROR", 1)


@on_both
def test_exclusions_are_accepted_by_the_manifest_that_the_check_shows(main, tmp_path):
    main.append("""
        A r1 NEW day 1 -50
        malformed
        A r2 AMEND day 1 -30
        A r2 AMEND day 1 -31
        A r3 AMEND day 1 -40
    """)
    check = main.backfill().check()
    shown = check.metadata["manifest_to_accept"].value
    assert shown == {
        "rejections": [{"partition": 0, "offset": 1, "code": "MALFORMED"}],
        "conflicts": [
            {
                "stock_key": {"item": "DEMO-PART", "location": "DEPOT-A"},
                "txn_id": "A",
                "revision": 2,
            }
        ],
    }
    assert check.metadata["next_step"].value == (
        "Save manifest_to_accept as manifest.json, then:"
        " amends inventory accept manifest.json --namespace main --partition 0"
    )
    main.ledger.operations.store_manifest("main", json.dumps(shown))
    run = main.verify()
    assert seen(run.check())[:2] == ("PASS_WITH_EXCLUSIONS", True)
    assert run.check().metadata["next_step"].value == "These exclusions are accepted."
    assert seen(run.check(ROLL_UP)) == ("PASS_WITH_EXCLUSIONS", True, "WARN")


def test_more_exclusions_than_can_be_shown_are_taken_from_the_command_line(main):
    main.append("malformed\n" * 1_001)
    check = main.backfill().check()
    assert check.metadata["next_step"].value == TOO_MANY
    assert "manifest_to_accept" not in check.metadata


def test_a_manifest_that_accepts_more_than_is_excluded_is_told_with_the_one_to_store(main):
    main.append("A r1 NEW day 1 -50")
    more = {"rejections": [{"partition": 0, "offset": 7, "code": "KIND"}], "conflicts": []}
    main.ledger.operations.store_manifest("main", json.dumps(more))
    check = main.backfill().check()
    assert seen(check) == ("PASS", False, "WARN")
    assert check.description.startswith(
        "PASS: All rows agree, and less is excluded than what is accepted."
    )
    fitting = check.metadata["manifest_to_accept"].value
    assert fitting == {"rejections": [], "conflicts": []}
    main.ledger.operations.store_manifest("main", json.dumps(fitting))
    assert main.verify().check().passed
