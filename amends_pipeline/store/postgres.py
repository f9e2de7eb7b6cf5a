"""Connections, transactions and their errors: the only commits of the ledgers.

Every statement runs in one of three blocks of `Database`, and each of them turns whatever psycopg
raises into an `AmendsError` that holds no password:

    read()      one statement, or several that need no common moment
    snapshot()  any number of statements, all from one moment
    write()     one transaction; when no reply to its COMMIT came, OutcomeUnknown is raised
"""

from __future__ import annotations

import logging
import os
import select
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from threading import Lock
from typing import Any, Final

import psycopg
from psycopg import conninfo
from psycopg.pq import ConnStatus, TransactionStatus
from psycopg.rows import TupleRow

from amends_pipeline.kernel.errors import (
    AmendsError,
    DatabaseUnavailable,
    InputError,
    OutcomeUnknown,
)
from amends_pipeline.store import arrays
from amends_pipeline.store.server import SECRETS, redact

Connection = psycopg.Connection[TupleRow]
Cursor = psycopg.Cursor[TupleRow]
Parameters = Sequence[Any]

# Advisory locks take two int4: this class, "amen", and a number.
LOCK_CLASS: Final = 0x616D656E
PROVISIONING: Final = -1
MIGRATION: Final = 0
"""Above it are the locks of units and roles."""

KEPT_CONNECTIONS: Final = 4
"""Idle connections that a process keeps for its next reads and commits."""

# Our statements look rows up by key, however little the planner knows of the tables yet, so that
# the plan of one execution is that of all. A session that holds a lock may be idle for as long as a
# decision takes.
SETTINGS: Final = (
    "-c plan_cache_mode=force_generic_plan -c jit=off -c enable_seqscan=off"
    " -c enable_hashjoin=off -c enable_mergejoin=off -c enable_memoize=off"
    " -c idle_session_timeout=0"
)
# A server that is gone without a word is noticed within a minute, not when TCP gives up.
NOTICING: Final = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
# Whatever a role's defaults are: who waited for a row lock must see the row as it is then.
BEGIN: Final = "BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE"
# A reader of whole tables is better served by the planner's own judgement.
BEGIN_SNAPSHOT: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
PLAN_FREELY: Final = (
    "SET LOCAL enable_seqscan = on; SET LOCAL enable_hashjoin = on; SET LOCAL enable_mergejoin = on"
)

_LOST = ("08", "57P", "25P03", "25P04")
"""SQLSTATEs of a connection that is gone, or about to be."""
_NOT_MIGRATED = ("3F000", "42P01", "42703")


# psycopg warns of what it raises in the same moment; we tell it once, in our words.
logging.getLogger("psycopg").setLevel(logging.ERROR)


class Unmet(Exception):  # noqa: N818 - an answer, not an error
    """A condition in a statement did not hold, and nothing of its transaction was done."""


class Transaction:
    """A transaction that has begun. `first` holds the rows of the statement it began with."""

    def __init__(self, connection: Connection, first: list[TupleRow]) -> None:
        self.connection = connection
        self.first = first
        self._commit: Cursor | None = None
        self.committing = False

    def execute(self, statement: str, parameters: Parameters = ()) -> Cursor:
        """Run a statement; its rows arrive in binary format."""
        return self.connection.execute(statement, parameters, binary=True)

    def made(self, statement: str, *parameters: Any) -> int:  # noqa: ANN401 - any column's
        """Run an INSERT that returns the key of its one row, and return that."""
        row = self.execute(statement, parameters).fetchone()
        if row is None:
            raise DatabaseUnavailable("INSERT", expected="a row returned", found="none")
        return int(row[0])

    def commit(self) -> None:
        """Commit now rather than at the end of the block, so that a pipeline takes it along."""
        if not self.committing:
            self.committing = True
            self._commit = self.connection.execute("COMMIT")

    def confirm(self) -> None:
        """Make sure that what the server did was a commit."""
        if self._commit is None or self._commit.statusmessage != "COMMIT":
            raise DatabaseUnavailable("COMMIT", expected="a commit", found="a rollback")


class Database:
    """A database and a few kept connections to it. Safe to use from several threads."""

    def __init__(self, url: str) -> None:
        try:
            given: dict[str, Any] = conninfo.conninfo_to_dict(url)
        except psycopg.Error:
            # The message of libpq would show a part of the URL.
            raise InputError(
                "database URL", expected="one that libpq understands", found="another text"
            ) from None
        self._secrets = [str(given[name]) for name in SECRETS if name in given]
        options = f"{given.get('options') or ''} {SETTINGS}".strip()
        ours = {"application_name": "amends", **NOTICING}
        self._parameters: dict[str, Any] = (
            ours | given | {"options": options, "client_encoding": "UTF8"}
        )
        self.where = f"database {self._parameters.get('dbname', 'of this user')}"
        self._idle: deque[Connection] = deque()
        self._lock = Lock()
        self._process = os.getpid()

    def __repr__(self) -> str:
        return f"Database({self.where!r})"

    def connect(self) -> Connection:
        """Open a connection that is the caller's to close. Raises DatabaseUnavailable."""
        try:
            connection = psycopg.connect(**self._parameters, autocommit=True)
        except (psycopg.Error, OSError) as error:
            raise self._unavailable(error) from None
        arrays.register(connection)
        return connection

    def close(self) -> None:
        """Close the kept connections. The database stays usable and opens new ones."""
        with self._lock:
            idle, self._idle = self._idle, deque()
        if os.getpid() == self._process:
            for connection in idle:
                connection.close()

    # Blocks

    @contextmanager
    def read(self, on: Connection | None = None) -> Iterator[Connection]:
        """Statements that change nothing.

        on: the connection to use, else a kept one.
        """
        block: AbstractContextManager[Connection] = self._kept() if on is None else nullcontext(on)
        with block as connection, self.translated(connection):
            try:
                yield connection
            except UnicodeError as error:
                raise self.translation(error) from None

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Statements that all see what was committed when the first of them began."""
        with self._kept() as connection, self.translated(connection):
            connection.execute(BEGIN_SNAPSHOT)
            connection.execute(PLAN_FREELY)
            try:
                yield connection
            finally:
                _roll_back(connection)

    @contextmanager
    def write(
        self, statement: str, parameters: Parameters = (), on: Connection | None = None
    ) -> Iterator[Transaction]:
        """One transaction that begins with `statement`; it commits when the block ends well.

        on: the connection to use, else a kept one.
        """
        block: AbstractContextManager[Connection] = self._kept() if on is None else nullcontext(on)
        with block as connection:
            transaction = Transaction(connection, [])
            try:
                with connection.pipeline():
                    connection.execute(BEGIN)
                    cursor = connection.execute(statement, parameters, binary=True)
                transaction.first = cursor.fetchall() if cursor.description else []
                yield transaction
                transaction.commit()
                transaction.confirm()
            except BaseException as error:
                self._abandon(transaction, error)
                raise

    @contextmanager
    def write_at_once(self, on: Connection | None = None) -> Iterator[Transaction]:
        """One transaction whose statements, COMMIT included, travel together and are read after.

        Raises Unmet when a statement of it divided by zero, which is how one statement can stop
        those that were sent behind it.
        """
        block: AbstractContextManager[Connection] = self._kept() if on is None else nullcontext(on)
        with block as connection:
            transaction = Transaction(connection, [])
            try:
                with connection.pipeline():
                    connection.execute(BEGIN)
                    yield transaction
                    transaction.commit()
                transaction.confirm()
            except psycopg.errors.DivisionByZero:
                _roll_back(connection)
                raise Unmet from None
            except BaseException as error:
                self._abandon(transaction, error)
                raise

    def _abandon(self, transaction: Transaction, error: BaseException) -> None:
        """Roll back; raise what happened in our words if it was the database's doing."""
        lost = _is_lost(transaction.connection, error)
        _roll_back(transaction.connection)
        if not isinstance(error, (psycopg.Error, UnicodeError)):
            return
        if lost and transaction.committing:
            raise self._unknown(error) from None
        raise self.translation(error) from None

    @contextmanager
    def writing_once(self, on: Connection | None = None) -> Iterator[Connection]:
        """Run a single statement that commits by itself."""
        block: AbstractContextManager[Connection] = self._kept() if on is None else nullcontext(on)
        with block as connection:
            try:
                yield connection
            except (psycopg.Error, UnicodeError) as error:
                if _is_lost(connection, error):
                    raise self._unknown(error) from None
                raise self.translation(error) from None

    @contextmanager
    def translated(self, connection: Connection) -> Iterator[None]:
        """Statements that change nothing, on a connection of the caller's."""
        try:
            yield
        except psycopg.Error as error:
            if _is_lost(connection, error):
                connection.close()
            raise self.translation(error) from None

    # Errors

    def translation(self, error: Exception) -> AmendsError:
        """Say what happened in our words, without a password."""
        if isinstance(error, (psycopg.DataError, UnicodeError)):
            expected = "values that PostgreSQL can store"
            return InputError(self.where, expected=expected, found=self._told(error))
        state = getattr(error, "sqlstate", None)
        if state in _NOT_MIGRATED:
            expected = "the tables of schema amends as this version makes them"
            return DatabaseUnavailable(self.where, expected=expected, found=self._told(error))
        return self._unavailable(error)

    def _unavailable(self, error: Exception) -> DatabaseUnavailable:
        expected = "a PostgreSQL server that serves us"
        return DatabaseUnavailable(self.where, expected=expected, found=self._told(error))

    def _unknown(self, error: Exception) -> OutcomeUnknown:
        return OutcomeUnknown(self.where, expected="a reply to a commit", found=self._told(error))

    def _told(self, error: Exception) -> str:
        if isinstance(error, UnicodeError):
            return "text with a lone surrogate"
        primary = error.diag.message_primary if isinstance(error, psycopg.Error) else None
        text = " ".join((primary or str(error) or type(error).__name__).split())
        for secret in filter(None, self._secrets):
            text = text.replace(secret, "***")
        state = getattr(error, "sqlstate", None)
        return redact(text) + (f" (SQLSTATE {state})" if state else "")

    # Kept connections

    @contextmanager
    def _kept(self) -> Iterator[Connection]:
        connection = self._take() or self.connect()
        try:
            yield connection
        except BaseException:
            # Whatever went wrong, nothing of it must meet the next user.
            if connection.info.transaction_status != TransactionStatus.IDLE:
                connection.close()
            raise
        finally:
            self._give(connection)

    def _take(self) -> Connection | None:
        with self._lock:
            if os.getpid() != self._process:
                # A fork: these sockets are the parent's, who alone may speak on them or close them.
                self._idle, self._process = deque(), os.getpid()
            while self._idle:
                connection = self._idle.pop()
                if not _has_news(connection):
                    return connection
                connection.close()
        return None

    def _give(self, connection: Connection) -> None:
        if connection.closed:
            return
        idle = connection.info.transaction_status == TransactionStatus.IDLE
        with self._lock:
            if idle and len(self._idle) < KEPT_CONNECTIONS and os.getpid() == self._process:
                self._idle.append(connection)
                return
        connection.close()


def _has_news(connection: Connection) -> bool:
    """Whether an idle connection has something to read: nearly always that it was closed."""
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _is_lost(connection: Connection, error: BaseException) -> bool:
    state = getattr(error, "sqlstate", None) or ""
    return connection.pgconn.status != ConnStatus.OK or state.startswith(_LOST)


def _roll_back(connection: Connection) -> None:
    """End what is open; a connection that cannot do that is closed, which ends it as well."""
    status = connection.info.transaction_status
    if status == TransactionStatus.IDLE:
        return
    if status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
        with suppress(psycopg.Error):
            connection.execute("ROLLBACK")
            return
    connection.close()
