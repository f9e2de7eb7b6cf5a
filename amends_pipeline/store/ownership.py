"""Who may write for a unit and role: the lock, the epoch, and the guard of every commit.

The advisory lock keeps owners apart who ask for it. The epoch keeps out those who do not know that
they were replaced: it is read under a row lock in the transaction that it guards, so either the
old owner's commit stands before the replacement, or it does not stand at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Lock
from time import monotonic
from typing import Any, Final, NamedTuple, TypeVar

import psycopg
from psycopg.errors import LockNotAvailable

from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import DatabaseUnavailable, Fenced, FrontierMoved, Held
from amends_pipeline.ports import Progress, Role, Token, Unit
from amends_pipeline.store.namespaces import Namespaces
from amends_pipeline.store.postgres import LOCK_CLASS, Connection, Database, Transaction

Answer = TypeVar("Answer")

_NUMBERS: Final = {Role.WORKER: 1, Role.RELAY: 2, Role.VIEW: 3}
_ROLES: Final = 4

TRY_LOCK: Final = "SELECT pg_try_advisory_lock(%s::int4, %s::int4)"
WAIT_FOR_LOCK: Final = "SELECT pg_advisory_lock(%s::int4, %s::int4)"
UNLOCK: Final = "SELECT pg_advisory_unlock(%s::int4, %s::int4)"
SET_LOCK_TIMEOUT: Final = "SELECT set_config('lock_timeout', %s, false)"
LONGEST_WAIT_SECONDS: Final = 1.0
"""Then the holder is asked for anew: it may be another one by now."""

CLAIM: Final = {
    Role.WORKER: """
UPDATE amends.worker_progress SET epoch = epoch + 1, holder = %s WHERE unit_id = %s RETURNING epoch
""",
    Role.RELAY: """
UPDATE amends.relay_progress SET epoch = epoch + 1, holder = %s WHERE unit_id = %s RETURNING epoch
""",
    Role.VIEW: """
UPDATE amends.view_progress SET epoch = epoch + 1, holder = %s WHERE unit_id = %s RETURNING epoch
""",
}
SELECT_HOLDER: Final = {
    Role.WORKER: "SELECT holder FROM amends.worker_progress WHERE unit_id = %s",
    Role.RELAY: "SELECT holder FROM amends.relay_progress WHERE unit_id = %s",
    Role.VIEW: "SELECT holder FROM amends.view_progress WHERE unit_id = %s",
}
LOCK_WORKER: Final = """
SELECT epoch, holder, next_offset, next_sequence FROM amends.worker_progress
WHERE unit_id = %s FOR UPDATE
"""
LOCK_RELAY: Final = """
SELECT epoch, holder, acknowledged FROM amends.relay_progress WHERE unit_id = %s FOR UPDATE
"""
LOCK_VIEW: Final = """
SELECT epoch, holder, view_next, view_stop FROM amends.view_progress WHERE unit_id = %s FOR UPDATE
"""
SELECT_PROGRESS: Final = """
SELECT w.next_offset, w.next_sequence, r.acknowledged, v.view_next, v.view_stop,
    w.epoch, r.epoch, v.epoch
FROM amends.worker_progress w
JOIN amends.relay_progress r ON r.unit_id = w.unit_id
JOIN amends.view_progress v ON v.unit_id = w.unit_id
JOIN amends.unit u ON u.id = w.unit_id
WHERE w.unit_id = ANY(%s) ORDER BY u.partition
"""
_LOCKS: Final = {Role.WORKER: LOCK_WORKER, Role.RELAY: LOCK_RELAY, Role.VIEW: LOCK_VIEW}


class _Place(NamedTuple):
    """A unit and role, and the number of their advisory lock."""

    unit: Unit
    role: Role
    unit_id: int

    @property
    def lock(self) -> tuple[int, int]:
        return LOCK_CLASS, self.unit_id * _ROLES + _NUMBERS[self.role]


class _Held(NamedTuple):
    """The connection that holds a lock, and who of this process may speak on it."""

    connection: Connection
    turn: Lock


class Ownership:
    """Locks and epochs of units and roles."""

    def __init__(self, database: Database, namespaces: Namespaces) -> None:
        self._database = database
        self._namespaces = namespaces
        self._held: dict[Token, _Held] = {}
        self._workers: dict[Unit, _Held] = {}
        """Of those, the ones that workers hold."""

    @contextmanager
    def hold(
        self,
        unit: Unit,
        role: Role,
        *,
        holder: str,
        wait_seconds: float | None,
        waiting: Callable[[str], None] | None,
    ) -> Iterator[Token]:
        """As `LedgerStore.hold`, over a connection of its own: if that is lost, so is the lock."""
        self._namespaces.fresh(unit.namespace)
        place = _Place(unit, role, self._namespaces.unit_id(unit))
        connection = self._database.connect()
        try:
            with self._database.translated(connection):
                _take_lock(connection, place, wait_seconds, waiting)
            token = self._claimed(unit, role, holder, connection)
            held = self._held[token] = _Held(connection, Lock())
            if role is Role.WORKER:
                self._workers[unit] = held
            try:
                yield token
            finally:
                del self._held[token]
                if role is Role.WORKER:
                    del self._workers[unit]
                # The server lets go as it notices the end of the connection; this is sooner.
                with suppress(psycopg.Error):
                    connection.execute(UNLOCK, place.lock)
        finally:
            connection.close()

    def claim(self, unit: Unit, role: Role, *, holder: str) -> Token:
        """Take the next epoch without the lock."""
        self._namespaces.fresh(unit.namespace)
        return self._claimed(unit, role, holder, None)

    def _claimed(self, unit: Unit, role: Role, holder: str, on: Connection | None) -> Token:
        unit_id = self._namespaces.unit_id(unit)
        digest = self._namespaces.home(unit.namespace).info.digest
        with self._database.writing_once(on) as connection:
            epoch = _value(connection, CLAIM[role], _storable(holder), unit_id)
        if epoch is None:
            raise self._namespaces.missing(f"{role} of {unit}", unit, unit_id)
        return Token(unit, role, epoch, digest)

    @contextmanager
    def owning(self, token: Token, role: Role) -> Iterator[tuple[Transaction, int, list[Any]]]:
        """A transaction that holds the row of the token's unit and role.

        Yields it with the unit's surrogate key and what the row says after epoch and holder.
        Raises Fenced when the token is worth nothing any more.
        """
        unit_id = self._namespaces.unit_id(token.unit)
        self._check_kind(token, role)
        with (
            self._speaking(token) as connection,
            self._database.write(_LOCKS[role], (unit_id,), on=connection) as transaction,
        ):
            yield transaction, unit_id, self._guarded(token, unit_id, transaction)

    @contextmanager
    def speaking(self, token: Token, role: Role) -> Iterator[tuple[Connection, int]]:
        """A connection for one statement that commits by itself, and guards itself too."""
        unit_id = self._namespaces.unit_id(token.unit)
        self._check_kind(token, role)
        with (
            self._speaking(token) as held,
            self._database.writing_once(held) as connection,
        ):
            yield connection, unit_id

    def read(self, unit: Unit, ask: Callable[[Connection], Answer]) -> Answer:
        """What `ask` reads by a small statement that the unit's worker waits for.

        Where this process is that worker, it is asked on the connection that holds the lock, unless
        another thread speaks on it: the server's process behind it is the one that the commit will
        meet, and has at hand what both need. If that one is lost, any other tells the same.
        """
        held = self._workers.get(unit)
        if held is not None and held.turn.acquire(blocking=False):
            try:
                with self._database.read(held.connection) as connection:
                    return ask(connection)
            except DatabaseUnavailable:
                if not held.connection.closed:
                    raise
            finally:
                held.turn.release()
        with self._database.read() as connection:
            return ask(connection)

    @contextmanager
    def _speaking(self, token: Token) -> Iterator[Connection | None]:
        """The connection that holds the token's lock, if there is one: if it is lost, so are we."""
        held = self._held.get(token)
        if held is None:
            yield None
            return
        with held.turn:
            if held.connection.closed:
                raise DatabaseUnavailable(
                    f"{token.role} of {token.unit}",
                    expected="the connection that holds its lock",
                    found="that connection lost, and the lock with it",
                )
            yield held.connection

    def _check_kind(self, token: Token, role: Role) -> None:
        where = f"{role} of {token.unit}"
        if token.role is not role:
            raise Fenced(where, expected=f"a token of the {role}", found=f"one of the {token.role}")
        digest = self._namespaces.home(token.unit.namespace).info.digest
        if token.digest != digest:
            raise Fenced(where, expected=f"configuration {token.digest}", found=digest)

    def _guarded(self, token: Token, unit_id: int, transaction: Transaction) -> list[Any]:
        where = f"{token.role} of {token.unit}"
        if not transaction.first:
            raise self._namespaces.missing(where, token.unit, unit_id)
        epoch, holder, *rest = transaction.first[0]
        if epoch != token.epoch:
            found = f"{epoch} of {shown(holder or 'nobody')}"
            raise Fenced(where, expected=f"epoch {token.epoch}", found=found)
        return rest

    def progress(self, unit: Unit) -> Progress:
        """Where the roles of a unit stand."""
        for _ in range(2):
            unit_id = self._namespaces.unit_id(unit)
            with self._database.read() as connection:
                for progress in read_progress(connection, [unit_id]):
                    return progress
            self._namespaces.fresh(unit.namespace)
        raise DatabaseUnavailable(f"unit {unit}", expected="its progress", found="none")


def _take_lock(
    connection: Connection,
    place: _Place,
    wait_seconds: float | None,
    waiting: Callable[[str], None] | None,
) -> None:
    if _value(connection, TRY_LOCK, *place.lock):
        return
    deadline = None if wait_seconds is None else monotonic() + wait_seconds
    told = None
    while True:
        by = _value(connection, SELECT_HOLDER[place.role], place.unit_id) or "nobody yet"
        left = LONGEST_WAIT_SECONDS if deadline is None else deadline - monotonic()
        if left <= 0:
            where = f"{place.role} of {place.unit}"
            raise Held(where, expected="its lock to be free", found=f"it held by {shown(by)}")
        if waiting is not None and told != by:
            waiting(by)
            told = by
        milliseconds = max(1, int(1000 * min(left, LONGEST_WAIT_SECONDS)))
        connection.execute(SET_LOCK_TIMEOUT, (f"{milliseconds}ms",))
        with suppress(LockNotAvailable):
            connection.execute(WAIT_FOR_LOCK, place.lock)
            connection.execute(SET_LOCK_TIMEOUT, ("0",))
            return


def read_progress(connection: Connection, unit_ids: Sequence[int]) -> list[Progress]:
    """Where the roles of units of a namespace stand, by partition."""
    rows = connection.execute(SELECT_PROGRESS, (list(unit_ids),), binary=True)
    return [progress_of(row) for row in rows]


def progress_of(row: Sequence[Any]) -> Progress:
    """Put together what was read: the members of Progress in turn, the epochs one by one."""
    offset, sequence, acknowledged, view_next, view_stop, *epochs = row
    by_role = dict(zip(Role, epochs, strict=True))
    return Progress(offset, sequence, acknowledged, view_next, view_stop, by_role)


def expect_at(where: str, *, expected: int, found: int) -> None:
    """Raise FrontierMoved unless a frontier is where a commit expects it."""
    if expected != found:
        raise FrontierMoved(where, expected=str(expected), found=str(found))


def _value(connection: Connection, statement: str, *parameters: object) -> Any:  # noqa: ANN401 - any column's
    row = connection.execute(statement, parameters, binary=True).fetchone()
    return row and row[0]


def _storable(holder: str) -> str:
    """A holder's name is for people; what PostgreSQL cannot store of it is replaced."""
    return holder.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
