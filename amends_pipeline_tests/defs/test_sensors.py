"""Sensors as functions: a ledger, a Dagster instance and a folder are set up; one tick is seen."""

from __future__ import annotations

import json
import os
import time
from contextlib import contextmanager
from dataclasses import dataclass

import dagster as dg
import pytest
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)

from amends_pipeline.definitions import defs
from amends_pipeline.defs.inventory import sensors
from amends_pipeline.defs.inventory.runs import ATTEMPT_TAG, PLACE_TAG
from amends_pipeline.defs.resources import LedgerResource, resource_over
from amends_pipeline.flows.drain import Options, drain_unit, ingest_unit
from amends_pipeline.flows.judge import judge_unit
from amends_pipeline.kernel.errors import DatabaseUnavailable
from amends_pipeline.ports import Role, Unit
from amends_pipeline_tests.defs.conftest import Office, on_both
from amends_pipeline_tests.tables import configuration, history

MAIN = Unit("main", 0)
ORIGIN = RemoteJobOrigin(
    RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("amends"), "repository"), "refold"
)
"""Dagster queues no run without one."""
A = "A r1 NEW day 1 -50"
B = "B r1 NEW day 2 -20"


@dataclass
class Tower(Office):
    """An office whose sensors are asked by hand, at a time that the test sets."""

    now: float = 0.0
    cursor: str | None = None

    def tick(self, sensor=sensors.new_records, resource=None) -> dg.SensorResult:
        context = dg.build_sensor_context(
            instance=self.instance,
            cursor=self.cursor,
            resources={"ledger": resource or resource_over(self.ledger)},
        )
        result = sensor(context)
        if isinstance(result, dg.SkipReason):
            return dg.SensorResult(skip_reason=result)
        # As the daemon does with it
        self.cursor = result.cursor or self.cursor
        for request in result.dynamic_partitions_requests or ():
            name, keys = request.partitions_def_name, list(request.partition_keys)
            self.instance.add_dynamic_partitions(name, keys)
        return result

    def asked(self, sensor=sensors.new_records) -> list[str]:
        """The run keys of a tick."""
        return [each.run_key for each in self.tick(sensor).run_requests]

    def reason(self, sensor=sensors.new_records) -> str:
        """Why a tick asked for nothing."""
        result = self.tick(sensor)
        assert result.run_requests == []
        return result.skip_reason.skip_message

    def launch(self, sensor=sensors.new_records, *, status=None, error=None) -> list[str]:
        """Make the runs of a tick; each gets the status, or none and fails with the error."""
        made = []
        for request in self.tick(sensor).run_requests:
            tags = {**request.tags, "dagster/run_key": request.run_key}
            if request.partition_key:
                tags["dagster/partition"] = str(request.partition_key)
            run = self.instance.create_run_for_job(
                self.definitions.resolve_job_def("refold"),
                tags=tags,
                status=status or dg.DagsterRunStatus.STARTED,
                remote_job_origin=ORIGIN,
            )
            if error is not None:
                self.instance.report_run_failed(run, error)
            made.append(run.run_id)
        return made

    def drain(self, unit: Unit = MAIN) -> None:
        source = self.ledger.source(self.ledger.store.info(unit.namespace).source)
        drain_unit(self.ledger, unit, source.extents()[unit.partition].end, Options(holder="x"))


@pytest.fixture
def tower(ledger, instance, monkeypatch):
    """A tower over a ledger without a namespace; its clock begins now."""
    tower = Tower(ledger, instance, time.time())
    monkeypatch.setattr(sensors, "_now", lambda: int(tower.now))
    return tower


@pytest.fixture
def main(tower):
    """A tower over namespace `main`, one partition, one record waiting."""
    tower.provision(configuration())
    tower.append(A)
    return tower


# --- new records


@on_both
def test_a_unit_that_is_behind_gets_a_run_and_one_that_has_caught_up_gets_none(main):
    [request] = main.tick().run_requests
    assert request.run_key == "main|p0@0->1#0"
    assert request.partition_key == "main|p0"
    assert request.tags == {PLACE_TAG: "main|p0@0", ATTEMPT_TAG: "0"}
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


def test_the_error_of_a_step_is_told_as_the_step_told_it(main):
    main.append(f"B r1 NEW day 1 {2**63 - 51}\nC r1 NEW day 1 60")
    request = main.tick().run_requests[0]
    job = main.definitions.resolve_job_def("refold")
    with main.ledger.store.hold(MAIN, Role.WORKER, holder="warm worker 7"):
        job.execute_in_process(
            partition_key=request.partition_key,
            instance=main.instance,
            tags=request.tags,
            run_config={
                "ops": {"worker": {"config": {"wait_seconds": 0}}},
                "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
            },
            raise_on_error=False,
        )
    assert main.reason().startswith(
        "main|p0: 1 attempt from source offset 0, the last one ended with: worker of main|p0:"
        ' expected its lock to be free, found it held by "warm worker 7"; tried again at '
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


# --- partitions and the source log


def test_new_namespaces_become_partitions_in_the_tick_that_asks_for_their_runs(main):
    for name in ("namespace", "source_partition"):
        for key in main.instance.get_dynamic_partitions(name):
            main.instance.delete_dynamic_partition(name, key)
    result = main.tick()
    assert [
        (each.partitions_def_name, list(each.partition_keys))
        for each in result.dynamic_partitions_requests
    ] == [("namespace", ["main"]), ("source_partition", ["p0"])]
    assert len(result.run_requests) == 1
    assert main.tick().dynamic_partitions_requests == []


def test_a_namespace_that_does_not_follow_is_a_partition_all_the_same(main):
    main.provision(configuration(namespace="rebuild"))
    main.ledger.operations.follow("rebuild", follows=False)
    main.instance.delete_dynamic_partition("namespace", "rebuild")
    main.tick()
    assert set(main.instance.get_dynamic_partitions("namespace")) == {"main", "rebuild"}


def test_units_beyond_a_namespace_s_partitions_are_asked_for_by_nobody(tower):
    tower.provision(configuration())
    tower.provision(configuration(namespace="wide", source="wide-feed", partitions=3))
    tower.append(A)
    tower.append(A, "wide")
    assert tower.asked() == ["main|p0@0->1#0", "wide|p0@0->1#0"]
    assert tower.instance.get_dynamic_partitions("source_partition") == ["p0", "p1", "p2"]


@pytest.mark.parametrize("ledger", ["postgres"], indirect=True)
def test_a_name_that_no_partition_can_have_is_told_and_made_none(main):
    main.ledger.sql("UPDATE amends.namespace SET name = 'a|b'")
    result = main.tick()
    assert result.skip_reason.skip_message == '"a|b": no partition can have this name.'
    assert result.dynamic_partitions_requests == []


def test_the_end_of_each_source_partition_is_reported_when_it_has_moved(main):
    [event] = main.tick().asset_events
    assert isinstance(event, dg.AssetMaterialization)
    assert (event.asset_key, event.partition) == (dg.AssetKey("source_log"), "p0")
    assert {name: each.value for name, each in event.metadata.items()} == {
        "source": "depot-feed-1",
        "source_start_offset": 0,
        "source_end_offset": 1,
        "appended_offsets": 1,
    }
    assert event.tags == {"dagster/data_version": "depot-feed-1@1"}
    assert main.tick().asset_events == []
    main.append(f"{B}\nmalformed")
    [event] = main.tick().asset_events
    assert event.metadata["appended_offsets"].value == 2


def test_two_namespaces_over_one_source_report_it_once(main):
    main.provision(configuration(namespace="other"))
    assert len(main.tick().asset_events) == 1


def test_a_lost_cursor_reports_an_end_once_more_and_nothing_else(main):
    main.tick()
    main.cursor = "edited"
    result = main.tick()
    assert len(result.asset_events) == 1
    assert [each.run_key for each in result.run_requests] == ["main|p0@0->1#0"]


# --- no database


class Broken(LedgerResource):
    """A ledger that nobody can open."""

    @contextmanager
    def open(self):
        raise DatabaseUnavailable(
            "AMENDS_POSTGRES_URL", expected="a server", found="postgresql://x:secret@host/"
        )
        yield


@pytest.mark.parametrize("sensor", [sensors.new_records, sensors.stale_verdicts])
def test_without_a_database_a_sensor_says_so(main, sensor):
    result = main.tick(sensor, Broken())
    assert result.skip_reason.skip_message == (
        "AMENDS_POSTGRES_URL: expected a server, found postgresql://x:***@host/"
    )


class Faulty(LedgerResource):
    """A ledger with a defect."""

    @contextmanager
    def open(self):
        raise ZeroDivisionError("postgresql://x:secret@host/")
        yield


def test_a_defect_fails_the_tick_without_a_password(main):
    with pytest.raises(dg.Failure) as caught:
        main.tick(resource=Faulty())
    assert caught.value.description == "ZeroDivisionError: postgresql://x:***@host/"


# --- all sensors


def test_all_sensors_run_by_themselves_and_at_an_interval_that_the_daemon_keeps():
    assert {each.name for each in defs.sensors} == {"new_records", "stale_verdicts", "landed_files"}
    for sensor in defs.sensors:
        assert sensor.default_status is dg.DefaultSensorStatus.RUNNING
        # The daemon looks every 5 s: an interval of exactly that would miss every other turn.
        assert sensor.minimum_interval_seconds % 5
        assert sensor.description


# --- verdicts


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


# --- landing folders


@pytest.fixture
def harbour(main, tmp_path, monkeypatch):
    """A tower with a landing folder; its clock is three seconds ahead, so files have settled."""
    monkeypatch.setenv("AMENDS_HOME", str(tmp_path))
    monkeypatch.setattr(sensors, "_now_nanoseconds", lambda: time.time_ns() + 3 * 10**9)
    main.folder = tmp_path / "landing" / "depot-feed-1"
    main.folder.mkdir(parents=True)
    return main


def land(tower, request):
    """Run what the sensor asked for."""
    return defs.resolve_job_def("land_files").execute_in_process(
        instance=tower.instance,
        tags=request.tags,
        resources={"ledger": resource_over(tower.ledger)},
        run_config=request.run_config
        | {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
        raise_on_error=False,
    )


def test_without_a_landing_folder_nothing_lands(main, tmp_path, monkeypatch):
    monkeypatch.setenv("AMENDS_HOME", str(tmp_path))
    assert main.reason(sensors.landed_files) == (
        f'No source has a folder in "{tmp_path / "landing"}".'
    )


def test_an_empty_folder_waits(harbour):
    assert harbour.reason(sensors.landed_files) == "No file waits in a landing folder."


def test_a_file_is_told_to_wait_until_it_has_settled(harbour, monkeypatch):
    (harbour.folder / "a.jsonl").write_text("odd")
    monkeypatch.setattr(sensors, "_now_nanoseconds", time.time_ns)
    assert harbour.reason(sensors.landed_files) == 'depot-feed-1: "a.jsonl" changed just now.'


def test_a_folder_of_an_unknown_source_is_told(harbour):
    other = harbour.folder.parent / "nobody's"
    other.mkdir()
    (other / "a.jsonl").write_text("odd")
    assert harbour.reason(sensors.landed_files) == (
        "nobody's: no namespace has a source of that name; nothing is taken from the folder."
    )


def test_a_folder_that_cannot_be_listed_is_told(harbour, monkeypatch):
    def scandir(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", scandir)
    assert harbour.reason(sensors.landed_files).endswith(
        'landing": expected a folder to list, found Permission denied'
    )


@on_both
def test_the_run_that_is_asked_for_empties_the_folder(harbour):
    line = history(B)[0].value
    (harbour.folder / "a.jsonl").write_bytes(line)
    (harbour.folder / "b.jsonl").write_bytes(line)
    (harbour.folder / "c.csv").write_text("no header")
    age(harbour.folder)
    [request] = harbour.tick(sensors.landed_files).run_requests
    assert request.tags["amends/landing"] == "depot-feed-1"
    result = land(harbour, request)
    assert result.success
    [observation] = [each for each in result.all_events if each.is_asset_observation]
    metadata = observation.asset_observation_data.asset_observation.metadata
    told = {name: each.value for name, each in metadata.items() if name != "files"}
    assert told == {
        "source": "depot-feed-1",
        "appended_files": 1,
        "appended_records": 1,
        "set_aside_files": 1,
    }
    assert [tuple(row.data.values())[:3] for row in metadata["files"].records] == [
        ("a.jsonl", "appended", "1"),
        ("b.jsonl", "appended before", "0"),
        ("c.csv", "set aside", "0"),
    ]
    assert harbour.ledger.source("depot-feed-1").extents()[0].end == 2
    assert harbour.asked(sensors.landed_files) == []
    assert harbour.asked() == ["main|p0@0->2#0"]


def age(folder):
    """Wait until the files of a folder have settled: a run has the system's own clock."""
    while any(
        time.time_ns() - each.stat().st_ctime_ns < 2_100_000_000 for each in folder.iterdir()
    ):
        time.sleep(0.1)


def test_one_run_at_a_time_empties_a_folder(harbour):
    (harbour.folder / "a.jsonl").write_text("odd")
    [run_id] = harbour.launch(sensors.landed_files)
    assert harbour.reason(sensors.landed_files) == (
        f"depot-feed-1: run {run_id[:8]} (STARTED) is not finished."
    )


def test_files_that_a_run_did_not_take_wait_longer_and_longer_and_new_ones_do_not(harbour):
    (harbour.folder / "a.jsonl").write_text("odd")
    first = harbour.asked(sensors.landed_files)
    harbour.launch(sensors.landed_files, error="no luck")
    assert "1 attempt to take 1 file, " in harbour.reason(sensors.landed_files)
    (harbour.folder / "b.jsonl").write_text("odd")
    [second] = harbour.asked(sensors.landed_files)
    assert second.endswith("#0")
    assert [second] != first


def test_a_run_for_a_source_without_a_namespace_fails_clearly(harbour):
    config = {"ops": {"land": {"config": {"source": "elsewhere"}}}}
    result = land(harbour, dg.RunRequest("x", run_config=config))
    failure = result.failure_data_for_node("land").user_failure_data
    assert failure.description == (
        'landing folder "elsewhere": expected the name of a namespace\'s source, found "elsewhere"'
    )
