"""`landed_files`: when a landing folder is emptied, and by which run."""

from __future__ import annotations

import os
import time

import dagster as dg
import pytest

from amends_pipeline.definitions import defs
from amends_pipeline.defs.inventory import sensors
from amends_pipeline.defs.resources import resource_over
from amends_pipeline_tests.defs.conftest import on_both
from amends_pipeline_tests.defs.sensors.tower import B
from amends_pipeline_tests.tables import history


@pytest.fixture
def harbour(main, tmp_path, monkeypatch):
    """A tower with a landing folder; its clock is three seconds ahead, so files have settled."""
    monkeypatch.setenv("AMENDS_HOME", str(tmp_path))
    monkeypatch.setattr(sensors, "_nanoseconds_now", lambda: time.time_ns() + 3 * 10**9)
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
    monkeypatch.setattr(sensors, "_nanoseconds_now", time.time_ns)
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
