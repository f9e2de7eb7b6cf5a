"""Whose a run is, and what becomes of it when its stack is dead."""

from __future__ import annotations

from types import SimpleNamespace

import dagster as dg
import pytest
from dagster._core.launcher import DefaultRunLauncher
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.storage.dagster_run import DagsterRun

from amends_pipeline.cli import stack_guard
from amends_pipeline.defs import stack
from amends_pipeline.defs.stack import STACK_TAG, STACK_VARIABLE, StackRunLauncher, reap, running

ALIVE, DEAD = "a11fe", "dead0"
OTHER_TAGS = {"dagster/partition": "main|p0"}
ORIGIN = RemoteJobOrigin(
    RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("amends"), "__repository__"), "refold"
)


def add_run(instance, status, tags):
    run = DagsterRun(
        job_name="refold", status=status, tags={**OTHER_TAGS, **tags}, remote_job_origin=ORIGIN
    )
    instance.add_run(run)
    return run.run_id


def status(instance, run_id):
    return instance.get_run_by_id(run_id).status.value


@pytest.mark.parametrize(
    ("was", "whose", "now"),
    [
        ("STARTED", DEAD, "FAILURE"),
        ("STARTING", DEAD, "FAILURE"),
        ("CANCELING", DEAD, "FAILURE"),
        ("QUEUED", DEAD, "QUEUED"),  # the next daemon launches it
        ("SUCCESS", DEAD, "SUCCESS"),
        ("CANCELED", DEAD, "CANCELED"),
        ("STARTED", ALIVE, "STARTED"),
        ("STARTING", ALIVE, "STARTING"),
        ("STARTED", None, "STARTED"),  # of `dagster dev`, or of a command
        ("STARTED", "", "STARTED"),  # executed again outside a stack
    ],
)
def test_only_what_a_dead_stack_left_in_progress_is_marked_as_failed(instance, was, whose, now):
    tags = {} if whose is None else {STACK_TAG: whose}
    run_id = add_run(instance, dg.DagsterRunStatus(was), tags)
    reaped = reap(instance, lambda stack: stack == ALIVE)
    assert status(instance, run_id) == now
    assert [run.run_id for run in reaped] == ([run_id] if was != now else [])


def test_a_reaped_run_says_why(instance):
    run_id = add_run(instance, dg.DagsterRunStatus.STARTED, {STACK_TAG: DEAD})
    reap(instance, lambda _: False)
    [event] = instance.all_logs(run_id, of_type=dg.DagsterEventType.RUN_FAILURE)
    assert event.dagster_event.message == (
        "Its stack was killed while it was in progress. What it committed stands, and the next run"
        " of its unit goes on there."
    )


def test_each_stack_is_asked_after_once(instance):
    for whose in (DEAD, DEAD, ALIVE, ALIVE):
        add_run(instance, dg.DagsterRunStatus.STARTED, {STACK_TAG: whose})
    asked = []
    reaped = reap(instance, lambda stack: asked.append(stack) or stack == ALIVE)
    assert sorted(asked) == [ALIVE, DEAD]
    assert len(reaped) == 2


def test_a_run_that_ends_meanwhile_keeps_its_own_end(instance):
    run_id = add_run(instance, dg.DagsterRunStatus.STARTED, {STACK_TAG: DEAD})

    def lives(_):
        instance.report_run_canceled(instance.get_run_by_id(run_id))
        return False

    assert reap(instance, lives) == []
    assert status(instance, run_id) == "CANCELED"


def test_running_are_those_of_one_stack_that_are_in_progress(instance):
    started = dg.DagsterRunStatus.STARTED
    mine = add_run(instance, started, {STACK_TAG: ALIVE})
    add_run(instance, started, {STACK_TAG: DEAD})
    add_run(instance, started, {})
    add_run(instance, dg.DagsterRunStatus.QUEUED, {STACK_TAG: ALIVE})
    assert [run.run_id for run in running(instance, ALIVE)] == [mine]


@pytest.mark.parametrize(
    ("environment", "before", "after"),
    [
        (ALIVE, {}, ALIVE),
        (ALIVE, {STACK_TAG: DEAD}, ALIVE),  # executed again: the tag came along
        (None, {STACK_TAG: DEAD}, ""),
        (None, {}, None),
    ],
)
def test_a_run_is_tagged_before_its_process_starts(
    instance, monkeypatch, environment, before, after
):
    run_id = add_run(instance, dg.DagsterRunStatus.STARTING, before)
    seen = []

    def launch_run(_launcher, context):
        seen.append(instance.get_run_by_id(context.dagster_run.run_id).tags)

    monkeypatch.setattr(DefaultRunLauncher, "launch_run", launch_run)
    monkeypatch.delenv(STACK_VARIABLE, raising=False)
    if environment is not None:
        monkeypatch.setenv(STACK_VARIABLE, environment)
    launcher = StackRunLauncher()
    launcher.register_instance(instance)
    launcher.launch_run(SimpleNamespace(dagster_run=instance.get_run_by_id(run_id)))
    assert [tags.get(STACK_TAG) for tags in seen] == [after]
    assert seen[0]["dagster/partition"] == "main|p0"


def test_the_guard_looks_for_the_variable_that_the_launcher_reads():
    assert stack_guard.STACK_VARIABLE == stack.STACK_VARIABLE
