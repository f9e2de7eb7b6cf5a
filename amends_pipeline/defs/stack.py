"""Runs of a stack of `amends up`: whose they are, and what becomes of them when it is killed.

Every run that a stack's daemon launches has a tag with the stack's id. A run in progress whose
stack is dead has nobody to work on it any more, and would keep the place of its unit in the queue:
the next stack marks it as failed. A run without the tag belongs to somebody else, such as `dagster
dev` or a command, and is left alone.
"""

import os
from collections.abc import Callable, Sequence
from typing import Final

import dagster as dg
from dagster._core.launcher import DefaultRunLauncher, LaunchRunContext

STACK_VARIABLE: Final = "AMENDS_STACK"
"""In the environment of every process of a stack: its id."""
STACK_TAG: Final = ".dagster/amends_stack"
"""Dagster keeps tags with this prefix from people: each row of a list of runs would tell it."""
IN_PROGRESS: Final = (
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
)
"""A run that is only queued waits for the next stack, and nothing of it is lost."""


class StackRunLauncher(DefaultRunLauncher):
    """Launches runs as Dagster does by default, and says first whose they are.

    Sensors, backfills, people and commands all queue their runs, and the daemon launches whatever
    is queued: no run passes by this place. Named in dagster.yaml.
    """

    def launch_run(self, context: LaunchRunContext) -> None:
        """Tag the run, then start its process.

        A run that is executed again comes with the tag of the first one, which may be dead: outside
        a stack the tag is emptied.
        """
        stack = os.environ.get(STACK_VARIABLE, "")
        run = context.dagster_run
        if stack or STACK_TAG in run.tags:
            self._instance.add_run_tags(run.run_id, {STACK_TAG: stack})
        super().launch_run(context)


def running(instance: dg.DagsterInstance, stack: str) -> Sequence[dg.DagsterRun]:
    """Return the runs of a stack that are in progress."""
    return instance.get_runs(dg.RunsFilter(statuses=[*IN_PROGRESS], tags={STACK_TAG: stack}))


def reap(instance: dg.DagsterInstance, lives: Callable[[str], bool]) -> Sequence[dg.DagsterRun]:
    """Mark as failed what dead stacks left in progress, and return it.

    lives: says of a stack's id whether that stack is alive. Runs of living ones and runs without
    the tag are not touched.
    """
    runs = instance.get_runs(dg.RunsFilter(statuses=[*IN_PROGRESS]))
    stacks = {run.tags.get(STACK_TAG) for run in runs}
    dead = {stack for stack in stacks if stack and not lives(stack)}
    left = [run for run in runs if run.tags.get(STACK_TAG) in dead]
    return fail(instance, left, "Its stack was killed while it was in progress")


def fail(
    instance: dg.DagsterInstance, runs: Sequence[dg.DagsterRun], why: str
) -> Sequence[dg.DagsterRun]:
    """Mark runs as failed that nobody works on any more; return those that had not ended yet."""
    failed = []
    for run in runs:
        now = instance.get_run_by_id(run.run_id)
        if now is not None and not now.is_finished:
            told = f"{why}. What it committed stands, and the next run of its unit goes on there."
            instance.report_run_failed(now, told)
            failed.append(now)
    return failed
