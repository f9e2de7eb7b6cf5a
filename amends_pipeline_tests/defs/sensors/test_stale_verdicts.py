"""`stale_verdicts`: when a unit is verified by itself, and when a verdict stands."""

from __future__ import annotations

import pytest

from amends_pipeline.definitions import defs
from amends_pipeline.defs.inventory import sensors
from amends_pipeline.defs.inventory.runs import ATTEMPT_TAG, PLACE_TAG
from amends_pipeline.defs.resources import resource_over
from amends_pipeline.flows.judge import judge_unit
from amends_pipeline.ports import Unit
from amends_pipeline_tests.defs.conftest import on_both
from amends_pipeline_tests.defs.sensors.tower import MAIN, B
from amends_pipeline_tests.tables import configuration


@pytest.fixture
def judged(main):
    """A tower whose unit was drained and verified, just now."""
    main.drain()
    judge_unit(main.ledger, MAIN, "a test")
    return main


def test_a_unit_that_was_never_verified_gets_a_verification_when_it_has_caught_up(main):
    assert main.reason(sensors.stale_verdicts) == "main|p0: not caught up with its source."
    main.drain()
    [request] = main.tick(sensors.stale_verdicts).run_requests
    assert request.run_key == "main|p0@1/3 verified#0"
    assert request.partition_key == "main|p0"
    assert request.tags == {PLACE_TAG: "main|p0@1/3", ATTEMPT_TAG: "0"}


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
    result = defs.resolve_job_def("verify").execute_in_process(
        partition_key=request.partition_key,
        instance=main.instance,
        tags={**request.tags, "dagster/sensor_name": "stale_verdicts"},
        resources={"ledger": resource_over(main.ledger)},
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
    )
    assert result.success
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
