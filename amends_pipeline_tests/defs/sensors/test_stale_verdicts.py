"""`stale_verdicts`: when a unit is verified by itself, and when a verdict stands."""

from __future__ import annotations

import time

import pytest
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from amends_pipeline.definitions import defs
from amends_pipeline.defs.inventory import sensors
from amends_pipeline.defs.inventory.runs import PLACE_TAG, PRIORITY_TAG
from amends_pipeline.defs.resources import resource_over
from amends_pipeline.flows.judge import judge_unit
from amends_pipeline.ports import Unit
from amends_pipeline_tests.defs.conftest import on_both
from amends_pipeline_tests.defs.sensors.tower import MAIN, B
from amends_pipeline_tests.tables import configuration, day


@pytest.fixture
def judged(main):
    """A tower whose unit was drained and verified, just now."""
    main.drain()
    judge_unit(main.ledger, MAIN, "a test")
    main.now = time.time()  # however long that took
    return main


def verified(tower, request):
    """Execute the run that was asked for."""
    return defs.resolve_job_def("verify").execute_in_process(
        partition_key=request.partition_key,
        instance=tower.instance,
        tags={**request.tags, "dagster/sensor_name": "stale_verdicts"},
        resources={"ledger": resource_over(tower.ledger)},
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
    )


def test_a_unit_that_was_never_verified_gets_a_verification_when_it_has_caught_up(main):
    assert main.reason(sensors.stale_verdicts) == "main|p0: not caught up with its source."
    main.drain()
    [request] = main.tick(sensors.stale_verdicts).run_requests
    assert request.run_key == "main|p0@1/3 verified#0"
    assert request.partition_key == "main|p0"
    assert request.tags == {PLACE_TAG: "main|p0@1/3", PRIORITY_TAG: "-1"}


@on_both
def test_a_verdict_stands_until_the_boundary_has_moved_and_the_interval_is_over(judged):
    assert judged.reason(sensors.stale_verdicts) == (
        "The verdict of every unit is about where it stands."
    )
    judged.append(B)
    judged.drain()
    reason = judged.reason(sensors.stale_verdicts)
    assert reason.startswith("main|p0: to be verified in ")
    judged.now += 61
    assert judged.asked(sensors.stale_verdicts) == ["main|p0@2/4 verified#0"]


def test_the_interval_is_that_of_the_environment(judged, monkeypatch):
    judged.append(B)
    judged.drain()
    monkeypatch.setenv("AMENDS_VERIFY_INTERVAL_SECONDS", "0")
    assert judged.asked(sensors.stale_verdicts) == ["main|p0@2/4 verified#0"]
    monkeypatch.setenv("AMENDS_VERIFY_INTERVAL_SECONDS", "1 min")
    assert judged.reason(sensors.stale_verdicts) == (
        "AMENDS_VERIFY_INTERVAL_SECONDS: expected a whole number of seconds, at most nine digits,"
        ' found "1 min"'
    )


@on_both
def test_a_drift_in_an_idle_unit_is_found_after_ten_minutes_and_once(judged):
    judged.add_to_balance(MAIN, day(1), 7)
    judged.now += 590
    assert judged.asked(sensors.stale_verdicts) == []
    judged.now += 20
    [request] = judged.tick(sensors.stale_verdicts).run_requests
    before = judged.ledger.operations.verdict(MAIN)
    assert request.run_key == f"main|p0@1/3~{before.judged_at} verified#0"
    result = verified(judged, request)
    assert result.success
    verdict = judged.ledger.operations.verdict(MAIN)
    assert (verdict.status, verdict.source_end) == ("DRIFT", 1)
    assert verdict.judged_at > before.judged_at
    judged.now = time.time() + 590
    assert judged.asked(sensors.stale_verdicts) == []


def test_when_an_idle_unit_is_judged_again_is_that_of_the_environment(judged, monkeypatch):
    monkeypatch.setenv("AMENDS_RECHECK_INTERVAL_SECONDS", "30")
    judged.now += 31
    assert len(judged.asked(sensors.stale_verdicts)) == 1
    monkeypatch.setenv("AMENDS_RECHECK_INTERVAL_SECONDS", "0")
    judged.now += 10**6
    assert judged.asked(sensors.stale_verdicts) == []
    monkeypatch.setenv("AMENDS_RECHECK_INTERVAL_SECONDS", "-1")
    assert judged.reason(sensors.stale_verdicts).startswith("AMENDS_RECHECK_INTERVAL_SECONDS: ")


def test_a_unit_that_is_at_work_is_not_verified(main):
    main.drain()
    main.append(B)
    [run_id] = main.launch()
    main.drain()
    reason = main.reason(sensors.stale_verdicts)
    assert reason == f"main|p0: run {run_id[:8]} (STARTED) is not finished."


def test_a_rebuild_is_verified_when_it_is_backfilled(main):
    main.provision(configuration(namespace="rebuild"))
    main.ledger.operations.follow("rebuild", follows=False)
    main.drain()
    assert main.asked(sensors.stale_verdicts) == ["main|p0@1/3 verified#0"]
    main.drain(Unit("rebuild", 0))
    main.append(B)
    main.drain()
    assert main.asked(sensors.stale_verdicts) == [
        "main|p0@2/4 verified#0",
        "rebuild|p0@1/3 verified#0",
    ]


@on_both
def test_the_run_that_is_asked_for_keeps_the_verdict_and_no_other_is_asked_for(main):
    main.drain()
    [request] = main.tick(sensors.stale_verdicts).run_requests
    assert verified(main, request).success
    assert main.ledger.operations.verdict(MAIN).status == "PASS"
    assert main.asked(sensors.stale_verdicts) == []


def test_exclusions_that_a_person_accepts_make_the_unit_be_verified_again(main):
    main.append("malformed")
    main.drain()
    judge_unit(main.ledger, MAIN, "a test")
    assert main.asked(sensors.stale_verdicts) == []
    main.ledger.operations.store_manifest(
        "main",
        '{"rejections": [{"partition": 0, "offset": 1, "code": "MALFORMED"}], "conflicts": []}',
    )
    assert main.asked(sensors.stale_verdicts) == ["main|p0@2/3 verified#0"]


def test_a_unit_that_dagster_does_not_know_becomes_a_partition_in_the_tick_that_asks_for_it(main):
    main.drain()
    main.instance.delete_dynamic_partition("namespace", "main")
    result = main.tick(sensors.stale_verdicts)
    assert [each.partition_key for each in result.run_requests] == ["main|p0"]
    assert [
        (each.partitions_def_name, list(each.partition_keys))
        for each in result.dynamic_partitions_requests
    ] == [("namespace", ["main"])]
    assert not main.tick(sensors.stale_verdicts).dynamic_partitions_requests


# --- the roll-up of a run that ended without one

ROLL_UP = "every_unit_is_verified"


def rolled_up(tower):
    """The roll-ups of a tick, as the daemon reports them."""
    events = tower.tick(sensors.stale_verdicts).asset_events
    for event in events:
        tower.instance.report_runless_asset_event(event)
    return [event.description for event in events]


def unsaid(tower):
    """Whether the UI shows a run that has said nothing yet."""
    return tower.shown(ROLL_UP)[0].status is AssetCheckExecutionRecordStatus.PLANNED


def test_a_run_that_fails_does_not_leave_the_badge_without_words(main):
    main.append(f"B r1 NEW day 1 {2**63 - 51}\nC r1 NEW day 1 60")
    assert not main.refold().success
    assert unsaid(main)
    assert rolled_up(main) == [
        "INCOMPLETE: 1 of 1 unit not verified and accepted: main|p0 was never judged."
    ]
    assert not unsaid(main)
    assert rolled_up(main) == []


def test_a_run_that_is_not_finished_is_waited_for(main):
    [run_id] = main.launch()
    assert unsaid(main)
    assert rolled_up(main) == []
    main.instance.report_run_failed(main.instance.get_run_by_id(run_id), "no luck")
    assert rolled_up(main) == [
        (
            "INCOMPLETE: 1 of 1 unit not verified and accepted: main|p0 was never judged;"
            " is stuck at source offset 0: 1 run failed there, no luck."
        )
    ]
    assert rolled_up(main) == []
