"""`new_records` after runs that ended without success: later and later, never one key twice."""

from __future__ import annotations

import dagster as dg
import pytest

from amends_pipeline.defs.inventory.runs import ATTEMPT_TAG, failing
from amends_pipeline.flows.drain import Options, ingest_unit
from amends_pipeline.ports import Role
from amends_pipeline_tests.defs.conftest import QUIET
from amends_pipeline_tests.defs.sensors.tower import MAIN, A, B
from amends_pipeline_tests.tables import configuration


def test_a_failed_run_is_tried_again_after_5_10_20_seconds_and_keeps_its_error(main):
    for attempt, wait in enumerate([5, 10, 20, 40, 80, 160, 300, 300]):
        [run_id] = main.launch(error="no luck")
        ended = int(main.instance.get_run_record_by_id(run_id).end_time)
        tries = "1 attempt" if attempt == 0 else f"{attempt + 1} attempts"
        for early in (0, wait - 1):
            main.now = ended + early
            told = f"main|p0: {tries} from source offset 0, the last one ended with: no luck; tried"
            assert main.reason().startswith(told)
            assert main.reason().endswith(f"Z, in {wait - early} s.")
        main.now = ended + wait
        assert main.asked() == [f"main|p0@0->1#{attempt + 1}"]


def test_the_roll_up_hears_of_a_unit_whose_runs_fail_until_one_gets_further(main):
    def told():
        behind = [each for each in main.ledger.store.standing() if each.behind]
        return failing(main.instance, behind)

    assert told() == {}
    main.launch()
    assert told() == {}, "a first run that is not finished has not failed"
    main.instance.report_run_failed(main.instance.get_runs()[0], "no luck")
    assert told() == {MAIN: "1 run failed there, no luck"}
    main.drain()
    assert told() == {}


def executed(tower, request):
    """Execute a run that was asked for."""
    tower.definitions.resolve_job_def("refold").execute_in_process(
        partition_key=request.partition_key,
        instance=tower.instance,
        tags=request.tags,
        run_config={"ops": {"worker": {"config": {"wait_seconds": 0}}}, **QUIET},
        raise_on_error=False,
    )


def test_the_error_of_a_step_is_told_as_the_step_told_it(main):
    [request] = main.tick().run_requests
    with main.ledger.store.hold(MAIN, Role.WORKER, holder="warm worker 7"):
        executed(main, request)
    assert main.reason().startswith(
        "main|p0: 1 attempt from source offset 0, the last one ended with: worker of main|p0:"
        ' expected its lock to be free, found it held by "warm worker 7"; tried again at '
    )


def test_a_check_that_stops_a_run_is_told_with_what_it_found(main):
    main.drain()
    main.append(B)
    ingest_unit(main.ledger, MAIN, 2, Options(holder="x"))
    main.lose_first_segment(MAIN)
    [request] = main.tick().run_requests
    executed(main, request)
    assert main.reason().startswith(
        "main|p0: 1 attempt from source offset 2, the last one ended with:"
        " outbox_sequence_is_whole: DRIFT: expected a segment at sequence 0, found one at 3;"
        " tried again at "
    )


@pytest.mark.parametrize(
    "status",
    [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED, dg.DagsterRunStatus.SUCCESS],
)
def test_the_key_of_a_finished_run_is_not_asked_for_again(main, status):
    """Dagster would pass it over for ever, whatever became of the run."""
    main.launch(status=status)
    main.now += 10
    assert main.asked() == ["main|p0@0->1#1"]


def test_attempts_of_one_unit_do_not_hide_those_of_another(tower):
    tower.provision(configuration(namespace="a"))
    tower.append(A, "a")
    tower.launch(error="no luck")
    tower.provision(configuration(namespace="b"))
    [request] = [each for each in tower.tick().run_requests if each.partition_key == "b|p0"]
    job = tower.definitions.resolve_job_def("refold")
    for attempt in range(20):
        tags = {**request.tags, ATTEMPT_TAG: str(attempt)}
        run = tower.instance.create_run_for_job(job, tags=tags)
        tower.instance.report_run_failed(run, "no luck")
    tower.now += 400
    assert tower.asked() == ["a|p0@0->1#1", "b|p0@0->1#20"]


def test_the_longest_of_errors_is_cut(main):
    main.launch(error="x" * 10_000)
    assert len(main.reason()) < 500


def test_no_password_is_told(main):
    main.launch(error="postgresql://amends:secret@host/x failed")
    assert "secret" not in main.reason()
