"""`moved_views`: the files of `open_reorders` follow what readers have, a few seconds behind."""

from __future__ import annotations

import json

import dagster as dg
import pandas as pd
import pytest

from amends_pipeline.definitions import defs
from amends_pipeline.defs.catalog import OPEN_REORDERS
from amends_pipeline.defs.inventory.refreshing import moved_views, open_reorders
from amends_pipeline.defs.inventory.reorders import path_of
from amends_pipeline.defs.resources import resource_over
from amends_pipeline.ports import Unit
from amends_pipeline_tests.defs.conftest import QUIET, on_both
from amends_pipeline_tests.defs.sensors.tower import MAIN, B
from amends_pipeline_tests.tables import configuration

CHANGING = "open_reorders: what readers have is changing."
UP_TO_DATE = "The files of open_reorders are made from what readers have."


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Where files are written."""
    monkeypatch.setenv("AMENDS_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def drained(main):
    """A tower whose readers have one record, a close of 50 below 60."""
    main.drain()
    return main


def looked_twice(tower):
    """Look until readers' rows stand still; return the run that is asked for."""
    assert tower.reason(moved_views) == CHANGING
    tower.now += 10
    [request] = tower.tick(moved_views).run_requests
    return request


def execute(tower, request):
    """Execute the run that was asked for; return the units whose files it made."""
    result = defs.resolve_job_def("refresh_open_reorders").execute_in_process(
        instance=tower.instance,
        tags={**request.tags, "dagster/run_key": request.run_key},
        resources={"ledger": resource_over(tower.ledger)},
        run_config=QUIET,
        raise_on_error=False,
    )
    assert result.success
    wanted = dg.DagsterEventType.ASSET_MATERIALIZATION
    records = tower.instance.get_records_for_run(result.run_id, of_type=wanted).records
    return [str(record.partition_key) for record in records]


def locations(unit):
    return pd.read_parquet(path_of(unit, None))["location"].tolist()


@on_both
def test_files_follow_what_readers_have_once_it_stands_still(main):
    main.refold()
    request = looked_twice(main)
    assert request.partition_key is None, "no correction of a unit waits for it"
    assert request.job_name == "refresh_open_reorders"
    assert request.tags["dagster/priority"] == "-2"
    assert execute(main, request) == ["main|p0"]
    assert locations(MAIN) == ["DEPOT-A"]
    assert main.reason(moved_views) == UP_TO_DATE
    main.append("A r2 AMEND day 1 -30\n b/C r1 NEW day 1 -60")
    assert main.reason(moved_views) == UP_TO_DATE, "readers have nothing of it yet"
    main.refold()
    assert execute(main, looked_twice(main)) == ["main|p0"]
    assert locations(MAIN) == ["DEPOT-B"]


def test_the_sensor_is_named_where_the_asset_is_shown():
    repository = defs.get_repository_def()
    targeted = [repository.get_job(target.job_name) for target in moved_views.targets]
    assert any(OPEN_REORDERS.key in job.asset_layer.executable_asset_keys for job in targeted)


def test_the_asset_tells_of_it_as_when_a_person_makes_it(drained):
    execute(drained, looked_twice(drained))
    event = drained.instance.get_latest_materialization_event(OPEN_REORDERS.key)
    told = event.asset_materialization
    assert told.partition == "main|p0"
    assert told.metadata["dagster/row_count"].value == 1
    assert told.metadata["file"].value == str(path_of(MAIN, None))
    by_hand = dg.materialize(
        [open_reorders],
        partition_key="main|p0",
        instance=drained.instance,
        resources={"ledger": resource_over(drained.ledger)},
        run_config=QUIET,
    )
    [materialization] = by_hand.asset_materializations_for_node("open_reorders")
    assert set(materialization.metadata) == set(told.metadata)
    assert materialization.tags["dagster/data_version"] == told.tags["dagster/data_version"]


def test_only_units_whose_view_has_moved_are_made_anew(drained):
    drained.provision(configuration(namespace="other"))
    drained.drain(Unit("other", 0))
    assert execute(drained, looked_twice(drained)) == ["main|p0", "other|p0"]
    drained.append(B)
    drained.drain()
    assert execute(drained, looked_twice(drained)) == ["main|p0"]


def test_a_file_that_is_gone_is_made_anew_with_the_next_one(drained):
    drained.provision(configuration(namespace="other"))
    drained.drain(Unit("other", 0))
    execute(drained, looked_twice(drained))
    path_of(MAIN, None).unlink()
    drained.append(B)
    drained.drain(Unit("other", 0))
    assert execute(drained, looked_twice(drained)) == ["main|p0", "other|p0"]


def test_what_a_person_made_is_not_made_again(drained):
    request = looked_twice(drained)
    execute(drained, request)
    assert execute(drained, request) == []


def test_one_run_at_a_time_makes_files(drained):
    looked_twice(drained)
    [run_id] = drained.launch(moved_views)
    assert drained.reason(moved_views) == (
        f"open_reorders: run {run_id[:8]} (STARTED) is not finished."
    )


def test_a_failed_run_is_tried_again_later(drained):
    assert drained.reason(moved_views) == CHANGING
    [run_id] = drained.launch(moved_views, error="disk full")
    ended = int(drained.instance.get_run_record_by_id(run_id).end_time)
    drained.now = ended + 4
    assert "the last one ended with: disk full; tried again" in drained.reason(moved_views)
    drained.now = ended + 5
    [request] = drained.tick(moved_views).run_requests
    assert request.run_key.endswith("#1")


def test_rows_that_never_stand_still_are_taken_once_a_minute(drained):
    asked = []
    for number in range(30):
        drained.append(f"T{number} r1 NEW day 1 -1")
        drained.drain()
        asked += [drained.now] * len(drained.tick(moved_views).run_requests)
        drained.now += 10
    assert [int(later - asked[0]) for later in asked] == [0, 60, 120, 180]


def test_namespaces_that_do_not_follow_have_no_files(drained):
    drained.ledger.operations.follow("main", follows=False)
    assert drained.reason(moved_views) == "No namespace follows its source."


@pytest.mark.parametrize("cursor", ["nonsense", "7", '{"waiting_since": []}'])
def test_a_lost_cursor_costs_a_look_and_no_run(drained, cursor):
    execute(drained, looked_twice(drained))
    assert json.loads(drained.cursors["moved_views"] or "{}")
    drained.cursors["moved_views"] = cursor
    assert drained.reason(moved_views) == CHANGING
    assert drained.reason(moved_views) == UP_TO_DATE
