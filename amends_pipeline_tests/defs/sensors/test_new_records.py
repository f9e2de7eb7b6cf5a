"""`new_records`: which unit gets a run, which one does not, and what is told of it."""

from __future__ import annotations

import json

import dagster as dg
import pytest

from amends_pipeline.defs.inventory.runs import PLACE_TAG, PRIORITY_TAG
from amends_pipeline.flows.drain import Options, ingest_unit
from amends_pipeline.ports import Role, Unit
from amends_pipeline_tests.defs.conftest import on_both
from amends_pipeline_tests.defs.sensors.tower import MAIN, ORIGIN, A, B
from amends_pipeline_tests.tables import configuration


@on_both
def test_a_unit_that_is_behind_gets_a_run_and_one_that_has_caught_up_gets_none(main):
    [request] = main.tick().run_requests
    assert request.run_key == "main|p0@0->1#0"
    assert request.partition_key == "main|p0"
    assert request.tags == {PLACE_TAG: "main|p0@0", PRIORITY_TAG: "1"}
    main.drain()
    assert main.reason() == "Every unit is caught up, or does not follow its source."


@on_both
def test_a_run_that_was_killed_before_readers_had_everything_gets_a_successor(main):
    ingest_unit(main.ledger, MAIN, 1, Options(holder="killed"))
    assert main.asked() == ["main|p0@1->1#0"]


def test_a_ledger_without_namespaces_is_no_trouble(tower):
    assert tower.reason() == "Every unit is caught up, or does not follow its source."


def test_each_unit_of_each_namespace_that_follows_is_looked_at(tower):
    for name in ("a", "b"):
        tower.provision(configuration(namespace=name, partitions=2))
    tower.ledger.operations.follow("b", follows=False)
    tower.append(A, "a")
    tower.append("malformed", "a")
    assert tower.asked() == ["a|p0@0->2#0"]
    tower.ledger.operations.follow("b", follows=True)
    assert tower.asked() == ["a|p0@0->2#0", "b|p0@0->2#0"]


def test_of_units_that_fell_behind_between_two_looks_none_is_forgotten(tower):
    letters = configuration(keys="abc", partitions=3)
    for partition, key in enumerate(letters["keys"]):
        key["partition"] = partition
    tower.provision(letters)
    tower.append("; ".join(f"{letter}/A r1 NEW day 1 -1" for letter in "abc"))
    tower.append("b/A r2 AMEND day 1 -2; b/B r1 NEW day 2 -2; b/C r1 NEW day 3 -2")
    every = ["main|p0@0->1#0", "main|p1@0->4#0", "main|p2@0->1#0"]
    assert tower.asked() == every
    assert tower.asked() == every  # whatever the cursor says, what was not done is asked for
    tower.drain(Unit("main", 1))
    assert tower.asked() == ["main|p0@0->1#0", "main|p2@0->1#0"]


@pytest.mark.parametrize(
    "status",
    [
        dg.DagsterRunStatus.QUEUED,
        dg.DagsterRunStatus.NOT_STARTED,
        dg.DagsterRunStatus.STARTING,
        dg.DagsterRunStatus.STARTED,
        dg.DagsterRunStatus.CANCELING,
    ],
)
def test_a_unit_with_an_unfinished_run_gets_no_other(main, status):
    [run_id] = main.launch(status=status)
    main.append(B)
    assert main.reason() == f"main|p0: run {run_id[:8]} ({status.value}) is not finished."


def test_a_run_that_somebody_else_started_counts_too(main):
    job = main.definitions.resolve_job_def("refold")
    main.instance.create_run_for_job(
        job,
        tags={"dagster/partition": "main|p0"},
        status=dg.DagsterRunStatus.QUEUED,
        remote_job_origin=ORIGIN,
    )
    assert "is not finished" in main.reason()


def test_a_run_of_another_unit_holds_nobody_up(tower):
    tower.provision(configuration(partitions=2))
    tower.append(A)
    tower.append("malformed")
    tower.launch()
    other = configuration(namespace="other", partitions=2)
    tower.provision(other)
    assert tower.asked() == ["other|p0@0->2#0"]


@on_both
def test_a_correction_that_comes_during_a_run_gets_a_run_of_its_own(main):
    [run_id] = main.launch()
    main.append(B)
    ingest_unit(main.ledger, MAIN, 1, Options(holder="the run"))
    main.drain()
    main.append("A r2 AMEND day 1 -30")
    assert "is not finished" in main.reason()
    main.instance.report_run_canceled(main.instance.get_run_by_id(run_id))
    assert main.asked() == ["main|p0@2->3#0"]


@on_both
@pytest.mark.parametrize("role", list(Role))
def test_a_unit_that_a_warm_worker_holds_is_left_to_it(main, role):
    with main.ledger.store.hold(MAIN, role, holder="warm worker 7"):
        assert main.reason() == 'main|p0: held by "warm worker 7".'
    assert main.asked() == ["main|p0@0->1#0"]


@on_both
def test_a_source_that_lost_records_is_told(main):
    main.drain()
    main.append(f"{B}\nC r1 NEW day 2 -1")
    main.ledger.forget("depot-feed-1", 0, 2)
    assert main.reason() == (
        "main|p0: expected source offset 1 to come next, found a source that holds 2 to 3."
    )
    main.ledger.recreate("depot-feed-1")
    assert "found another one of that name" in main.reason()


def test_what_is_stuck_is_in_the_cursor_while_others_get_their_runs(tower):
    tower.provision(configuration(namespace="a"))
    tower.append(A, "a")
    tower.launch(error="no luck")
    tower.provision(configuration(namespace="b"))
    assert tower.asked() == ["b|p0@0->1#0"]
    cursor = json.loads(tower.cursor)
    assert list(cursor["waiting"]) == ["a|p0"]
    assert "no luck" in cursor["waiting"]["a|p0"]
    assert cursor["source_ends"] == {"depot-feed-1": {"p0": 1}}


def test_nothing_that_was_launched_depends_on_the_cursor(main):
    for cursor in (
        None,
        "",
        "nonsense",
        '{"source_ends": 7}',
        '{"source_ends": {"x": {"p0": []}}}',
    ):
        main.cursor = cursor
        assert main.asked() == ["main|p0@0->1#0"]
