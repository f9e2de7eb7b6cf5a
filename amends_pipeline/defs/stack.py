"""The stack that `amends up` runs: which runs are its own, and whether it is alive.

A stack is a webserver, a daemon and a code server. Its id stands in the environment of all its
processes, AMENDS_STACK, and is a tag of every run that its daemon launches, amends/stack. While it
lives, it holds two advisory locks of the ledgers' database, for a session, so that they are free
as soon as it is killed, and there is no table to clean up:

    of the database   Two daemons would launch the same runs twice and tick the same sensors, so a
                      database has one stack at a time. The second one is told who is there.
    of its id         Whoever can take it knows that the stack is no more. Nobody works on a run
                      with such a tag any longer; it would keep its unit's place in the queue.

A run without the tag belongs to somebody else, `dagster dev` or a command, and is left alone.
"""

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, Self

import dagster as dg
import psycopg
from dagster._core.launcher import DefaultRunLauncher, LaunchRunContext
from psycopg.rows import TupleRow

from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import Held
from amends_pipeline.store.server import Server

STACK_VARIABLE: Final = "AMENDS_STACK"
STACK_TAG: Final = "amends/stack"
IN_PROGRESS: Final = (
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
)
"""A run that is only queued waits for the next stack and loses nothing."""

OF_THE_DATABASE: Final = "amends stack"
OF_AN_ID: Final = "amends stack {}"
TRY_LOCK: Final = "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))"
IS_FREE: Final = "SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 0))"
HOLDER: Final = """
SELECT a.application_name, to_char(a.backend_start AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')
FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND (l.classid::int8 << 32) | l.objid::int8 = hashtextextended(%s, 0)
"""
# A machine that is gone says no goodbye; on a Unix socket these settings mean nothing.
NOTICE_THE_DEAD: Final = (
    "SELECT set_config('tcp_keepalives_idle', '20', false),"
    " set_config('tcp_keepalives_interval', '5', false),"
    " set_config('tcp_keepalives_count', '4', false)"
)

CONNECT_SECONDS: Final = 10
BEAT_SECONDS: Final = 1.0
RETAKE_SECONDS: Final = 30.0
"""A server that comes back may for a while take our own former session for alive."""


class StackRunLauncher(DefaultRunLauncher):
    """Launches runs as Dagster does by default, and says first whose they are.

    Sensors, backfills, people and commands all queue their runs, and the daemon launches whatever
    is queued: it is the one place that no run passes by. Named in dagster.yaml.
    """

    def launch_run(self, context: LaunchRunContext) -> None:
        """Tag the run, then start its process. A run executed again has the tag of the first."""
        stack = os.environ.get(STACK_VARIABLE, "")
        run = context.dagster_run
        if stack or STACK_TAG in run.tags:
            self._instance.add_run_tags(run.run_id, {STACK_TAG: stack})
        super().launch_run(context)


class StackLocks:
    """The two locks of one stack, held for a block; lost and taken again with the server."""

    def __init__(self, server: Server, stack: str, holder: str) -> None:
        """Describe them: the stack's id, and `holder`, what others are told of who holds them."""
        self._server = server
        self._stack = stack
        self._holder = holder
        self._connection: psycopg.Connection[TupleRow] | None = None
        self._released = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="amends-stack", daemon=True)
        self.lost: Held | None = None
        """Why they are lost for good: another stack took the database in the meantime."""

    def __enter__(self) -> Self:
        """Take the locks. Raises Held, DatabaseUnavailable."""
        try:
            self._take()
        except psycopg.Error as error:
            raise self._server.unavailable(error) from None
        self._keeper.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Let go."""
        self._released.set()
        self._keeper.join(timeout=BEAT_SECONDS)
        if self._connection is not None:
            self._connection.close()

    def lives(self, stack: str) -> bool:
        """Whether somebody holds the lock of that stack's id. Raises DatabaseUnavailable."""
        try:
            # Another session than ours, to which our own lock would look free.
            with psycopg.connect(self._server.ledger_url, autocommit=True) as connection:
                return not _value(connection, IS_FREE, OF_AN_ID.format(stack))
        except psycopg.Error as error:
            raise self._server.unavailable(error) from None

    def _take(self) -> None:
        connection = psycopg.connect(
            self._server.ledger_url,
            autocommit=True,
            application_name=self._holder,
            connect_timeout=CONNECT_SECONDS,
        )
        try:
            connection.execute(NOTICE_THE_DEAD)
            for name in (OF_THE_DATABASE, OF_AN_ID.format(self._stack)):
                self._lock(connection, name)
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    def _lock(self, connection: psycopg.Connection[TupleRow], name: str) -> None:
        if not _value(connection, TRY_LOCK, name):
            row = connection.execute(HOLDER, (name,)).fetchone()
            found = "another one" if row is None else f"{shown(row[0])}, there since {row[1]} UTC"
            raise Held(self._server.where, expected="no other stack on it", found=found)

    def _keep(self) -> None:
        """See every second that the session lives; after the server was away, take them again."""
        away_since = None
        while not self._released.wait(BEAT_SECONDS):
            try:
                if self._connection is None:
                    self._take()
                else:
                    self._connection.execute("SELECT 1")
                away_since = None
            except psycopg.Error:
                if self._connection is not None:
                    self._connection.close()
                self._connection = None
            except Held as held:
                away_since = away_since or time.monotonic()
                if time.monotonic() - away_since > RETAKE_SECONDS:
                    self.lost = held
                    return


def running(instance: dg.DagsterInstance, stack: str) -> Sequence[dg.DagsterRun]:
    """Return the runs of a stack that are in progress."""
    return instance.get_runs(dg.RunsFilter(statuses=[*IN_PROGRESS], tags={STACK_TAG: stack}))


def reap(instance: dg.DagsterInstance, lives: Callable[[str], bool]) -> Sequence[dg.DagsterRun]:
    """Mark as failed what dead stacks left in progress, and return it.

    lives: says of a stack's id whether that stack is alive. Runs of living ones and runs without
    the tag are not touched.
    """
    runs = instance.get_runs(dg.RunsFilter(statuses=[*IN_PROGRESS]))
    dead = {
        stack for stack in {run.tags.get(STACK_TAG) for run in runs} if stack and not lives(stack)
    }
    left = [run for run in runs if run.tags.get(STACK_TAG) in dead]
    return fail(instance, left, "Its stack was killed while this run was in progress")


def fail(
    instance: dg.DagsterInstance, runs: Sequence[dg.DagsterRun], why: str
) -> Sequence[dg.DagsterRun]:
    """Mark runs as failed that nobody works on any more; return those that had not ended yet."""
    failed = []
    for run in runs:
        now = instance.get_run_by_id(run.run_id)
        if now is not None and not now.is_finished:
            instance.report_run_failed(
                now, f"{why}. What it committed stands; the unit's next run goes on from there."
            )
            failed.append(now)
    return failed


def _value(connection: psycopg.Connection[TupleRow], statement: str, name: str) -> bool:
    row = connection.execute(statement, (name,)).fetchone()
    return row is not None and bool(row[0])
