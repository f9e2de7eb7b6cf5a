"""Whether a stack of `amends up` is alive, told by two advisory locks that it holds for a session.

    of the database   Two daemons would launch the same runs twice and tick the same sensors, so a
                      database has one stack at a time. The second one is told who is there.
    of its id         Whoever can take it knows that the stack is no more.

Both are free as soon as the stack is killed, and there is no table to clean up.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Final, Self

import psycopg
from psycopg.rows import TupleRow

from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import Held
from amends_pipeline.store.server import Server

Connection = psycopg.Connection[TupleRow]

OF_THE_DATABASE: Final = "amends stack"
OF_AN_ID: Final = "amends stack {}"
TRY_LOCK: Final = "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))"
UNLOCK_ALL: Final = "SELECT pg_advisory_unlock_all()"
IS_FREE: Final = "SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 0))"
HOLDER: Final = """
SELECT a.application_name, to_char(a.backend_start AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')
FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND (l.classid::int8 << 32) | l.objid::int8 = hashtextextended(%s, 0)
"""
# A machine that is gone says no goodbye. On a Unix socket these settings mean nothing.
NOTICE_THE_DEAD: Final = (
    "SELECT set_config('tcp_keepalives_idle', '20', false),"
    " set_config('tcp_keepalives_interval', '5', false),"
    " set_config('tcp_keepalives_count', '4', false)"
)
CONNECT_SECONDS: Final = 10
BEAT_SECONDS: Final = 1.0
POLL_SECONDS: Final = 0.1
LEAVING_SECONDS: Final = 2.0
"""For so long the server may not have seen that a killed stack is gone."""
RETAKE_SECONDS: Final = 60.0
"""For so long a server may take our own former session for alive."""


class StackLocks:
    """The two locks of one stack, held for a block; taken again when the server was away."""

    def __init__(self, server: Server, stack: str, holder: str) -> None:
        """Describe them. stack: its id; holder: what others are told of us, up to 63 bytes."""
        self._server = server
        self._stack = stack
        self._holder = holder
        self._connection: Connection | None = None
        self._released = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="amends-stack", daemon=True)
        self.lost: Held | None = None
        """Why they are lost for good: another stack took the database while the server was away."""

    def __enter__(self) -> Self:
        """Take the locks. Raises Held, DatabaseUnavailable."""
        until = time.monotonic() + LEAVING_SECONDS
        while self._connection is None:
            try:
                self._connection = self._taken()
            except psycopg.Error as error:
                raise self._server.unavailable(error) from None
            except Held:
                if time.monotonic() > until:
                    raise
                time.sleep(POLL_SECONDS)
        self._keeper.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Let go."""
        self._released.set()
        self._keeper.join(timeout=BEAT_SECONDS)
        if self._connection is not None:
            with suppress(psycopg.Error):  # its end does the same, as soon as the server sees it
                self._connection.execute(UNLOCK_ALL)
            self._connection.close()

    def lives(self, stack: str) -> bool:
        """Whether somebody holds the lock of that stack's id. Raises DatabaseUnavailable."""
        try:
            # Another session than ours, to which our own lock would look free.
            with psycopg.connect(self._server.ledger_url, autocommit=True) as connection:
                return not _value(connection, IS_FREE, OF_AN_ID.format(stack))
        except psycopg.Error as error:
            raise self._server.unavailable(error) from None

    def _taken(self) -> Connection:
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
        return connection

    def _lock(self, connection: Connection, name: str) -> None:
        if not _value(connection, TRY_LOCK, name):
            row = connection.execute(HOLDER, (name,)).fetchone()
            found = "another one" if row is None else f"{shown(row[0])}, since {row[1]} UTC"
            raise Held(self._server.where, expected="no other stack on it", found=found)

    def _keep(self) -> None:
        """See every second that the session lives, and begin another when it does not."""
        taken_by_another_since = None
        while not self._released.wait(BEAT_SECONDS):
            try:
                if self._connection is None:
                    self._connection = self._taken()
                self._connection.execute("SELECT 1")
                taken_by_another_since = None
            except psycopg.Error:
                if self._connection is not None:
                    self._connection.close()
                self._connection = None
            except Held as held:
                now = time.monotonic()
                taken_by_another_since = taken_by_another_since or now
                if now - taken_by_another_since > RETAKE_SECONDS:
                    self.lost = held
                    return


def _value(connection: Connection, statement: str, name: str) -> bool:
    row = connection.execute(statement, (name,)).fetchone()
    return row is not None and bool(row[0])
