"""The sensor of the bank ledger: which streams get a run, and what it says where none does."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager

import dagster as dg
import pytest
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)

from amends_pipeline.bank.heads import Stream
from amends_pipeline.defs.bank.sensors import moved_heads
from amends_pipeline.defs.inventory import looking
from amends_pipeline.defs.resources import BankResource
from amends_pipeline.kernel.errors import DatabaseUnavailable
from amends_pipeline_tests.contracts.bank_bench import account
from amends_pipeline_tests.defs.bank.conftest import HERE, on_both

ORIGIN = RemoteJobOrigin(
    RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("amends"), "repository"), "fold_bank"
)


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """What the sensor takes for now; a test moves it."""
    now = [time.time()]
    monkeypatch.setattr(looking, "seconds_now", lambda: int(now[0]))
    return now


def tick(office, resource=None):
    """One tick, as the daemon does it."""
    context = dg.build_sensor_context(
        instance=office.instance,
        cursor=office.cursor,
        resources={"bank": resource or office.resource},
    )
    result = moved_heads(context)
    if isinstance(result, dg.SkipReason):
        return dg.SensorResult(skip_reason=result)
    office.cursor = result.cursor
    for request in result.dynamic_partitions_requests or ():
        office.instance.add_dynamic_partitions(
            request.partitions_def_name, list(request.partition_keys)
        )
    return result


def asked(office):
    return [each.run_key for each in tick(office).run_requests or ()]


def reason(office):
    result = tick(office)
    assert not result.run_requests
    return result.skip_reason.skip_message


def launch(office, *, error=None):
    """Make the run that a tick asks for, started; it fails with the error, if there is one."""
    [request] = tick(office).run_requests
    run = office.instance.create_run_for_job(
        office.definitions.resolve_job_def("fold_bank"),
        tags={**request.tags, "dagster/partition": request.partition_key},
        status=dg.DagsterRunStatus.STARTED,
        remote_job_origin=ORIGIN,
    )
    if error is not None:
        office.instance.report_run_failed(run, error)
    return run


def test_without_a_stream_there_is_nothing_to_do(nowhere):
    assert reason(nowhere) == "There is no ledger stream."


@on_both
def test_a_new_stream_is_a_partition_and_gets_a_run_in_the_same_tick(nowhere):
    nowhere.open()
    nowhere.instance.delete_dynamic_partition("ledger_stream", HERE)
    result = tick(nowhere)
    [request] = result.run_requests
    assert (request.run_key, request.partition_key) == (f"{HERE}@nothing->0#0", HERE)
    assert nowhere.instance.get_dynamic_partitions("ledger_stream") == [HERE]
    assert not tick(nowhere).dynamic_partitions_requests


@on_both
def test_a_stream_gets_a_run_when_its_head_moved_and_not_before(office):
    office.post("1", "CASH ADA 1")
    assert asked(office) == [f"{HERE}@nothing->1#0"]
    office.fold()
    assert reason(office) == "The balances of every ledger stream are of its head."
    office.post("2", "CASH ADA 1")
    assert asked(office) == [f"{HERE}@1->2#0"]
    office.fold()
    assert asked(office) == []


def test_the_run_that_is_asked_for_makes_the_balances(office):
    office.tell_the_story()
    [request] = tick(office).run_requests
    assert request.tags["dagster/priority"] == "1"
    run = office.fold(stream=request.partition_key)
    assert run.success
    assert json.loads(office.cursor)["made_through"] == {}
    reason(office)
    assert json.loads(office.cursor)["made_through"] == {HERE: 5}


def test_one_run_of_a_stream_at_a_time(office):
    office.post("1", "CASH ADA 1")
    run = launch(office)
    assert reason(office) == f"{HERE}: run {run.run_id[:8]} (STARTED) is not finished."


def test_a_failed_run_is_tried_again_with_pauses_whatever_is_posted_meanwhile(office, clock):
    office.post("1", "CASH ADA 1")
    for attempt, wait in enumerate([5, 10, 20, 40, 80, 160, 300, 300]):
        run = launch(office, error="no luck")
        ended = int(office.instance.get_run_record_by_id(run.run_id).end_time)
        clock[0] = ended + wait - 1
        office.post(f"more-{attempt}", "CASH ADA 1")
        assert "the last one ended with: no luck; tried again at" in reason(office)
        clock[0] = ended + wait
        assert asked(office) == [f"{HERE}@nothing->{attempt + 2}#{attempt + 1}"]


def test_a_rejected_export_is_told_in_the_words_of_its_check(office, clock):
    office.tell_the_story()
    office.fold()
    office.post("late", "CASH ADA 1")
    [request] = tick(office).run_requests
    export = office.offer()
    export.lines.pop(1)
    job = office.definitions.resolve_job_def("fold_bank")
    job.execute_in_process(
        partition_key=HERE,
        instance=office.instance,
        tags=request.tags,
        run_config={
            "ops": {"exporter": {"config": export.config}},
            "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
        },
        raise_on_error=False,
    )
    said = "bank_export_is_complete: SEQUENCE_GAP at group 2, sequence 3: expected"
    assert f"ended with: {said}" in reason(office)


def test_balances_of_an_offered_export_stand_until_the_journal_is_further(office):
    office.post("1", "CASH ADA 1")
    office.fold()
    office.fold(exporter=office.offer().config)
    assert asked(office) == []
    office.post("2", "CASH ADA 1")
    assert asked(office) == [f"{HERE}@1->2#0"]


def test_balances_at_other_cutoffs_are_of_the_head_too(office):
    office.post("1", "CASH ADA 1")
    office.fold(balances={"effective_cutoff": "2025-10-20T23:59:59.999Z"})
    assert asked(office) == []


@pytest.mark.parametrize(
    "cursor", ["", "{", "[]", '{"made_through": 7}', '{"made_through": {"X": "y"}}']
)
def test_a_cursor_that_somebody_spoiled_costs_one_look(office, cursor):
    office.post("1", "CASH ADA 1")
    office.fold()
    office.cursor = cursor
    assert asked(office) == []


def test_dagster_is_asked_about_streams_that_moved_alone(office, monkeypatch):
    other = Stream("CB-OTHER", "CB-GENERAL", "CB-A")
    office.open([account("CASH", "asset"), account("ADA", "liability")], other)
    office.fold(stream="CB-OTHER")
    office.fold()
    tick(office)
    office.post("1", "CASH ADA 1")
    about = []
    storage = office.instance.event_log_storage
    real = storage.get_latest_tags_by_partition

    def spied(*arguments, asset_partitions):
        about.append(asset_partitions)
        return real(*arguments, asset_partitions=asset_partitions)

    monkeypatch.setattr(storage, "get_latest_tags_by_partition", spied)
    assert asked(office) == [f"{HERE}@0->1#0"]
    assert about == [[HERE]]


class Broken(BankResource):
    """A journal that nobody can open."""

    @contextmanager
    def open(self):
        raise DatabaseUnavailable("bank", expected="a server", found="postgresql://x:secret@host/")
        yield


def test_without_a_database_it_says_so_without_a_password(office):
    result = tick(office, Broken())
    assert result.skip_reason.skip_message == (
        "bank: expected a server, found postgresql://x:***@host/"
    )
