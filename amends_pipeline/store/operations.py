"""What people and automation keep about namespaces, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from amends_pipeline.ports import Counted, Landed, Unit, Verdict
from amends_pipeline.store.counting import read_counts
from amends_pipeline.store.namespaces import FIRST_IS_CURRENT, LOCK, Namespaces
from amends_pipeline.store.postgres import (
    LOCK_CLASS,
    PROVISIONING,
    Connection,
    Database,
    Parameters,
    Transaction,
)
from amends_pipeline.store.refusals import already_landed, held, is_current, storable

# Names, not the numbers that a process remembers: a namespace may have been removed meanwhile.
RECORD_VERDICT: Final = """
INSERT INTO amends.verdict (unit_id, status, accepted, source_end, output_end, differences,
    judged_at, judged_by, report)
SELECT u.id, %s, %s, %s, %s, %s, %s, %s, %s
FROM amends.unit u JOIN amends.namespace n ON n.id = u.namespace_id
WHERE n.name = %s AND u.partition = %s
ON CONFLICT (unit_id) DO UPDATE SET status = excluded.status, accepted = excluded.accepted,
    source_end = excluded.source_end, output_end = excluded.output_end,
    differences = excluded.differences, judged_at = excluded.judged_at,
    judged_by = excluded.judged_by, report = excluded.report
RETURNING unit_id
"""
SELECT_VERDICTS: Final = """
SELECT n.name, u.partition, v.status, v.accepted, v.source_end, v.output_end, v.differences,
    v.judged_at, v.judged_by, CASE WHEN %s THEN v.report ELSE '' END
FROM amends.verdict v
JOIN amends.unit u ON u.id = v.unit_id
JOIN amends.namespace n ON n.id = u.namespace_id
"""
SELECT_VERDICT: Final = SELECT_VERDICTS + "WHERE n.name = %s AND u.partition = %s"
SELECT_ALL_VERDICTS: Final = SELECT_VERDICTS + "ORDER BY n.name, u.partition"

STORE_MANIFEST: Final = """
INSERT INTO amends.manifest (namespace_id, document)
SELECT id, %s FROM amends.namespace WHERE name = %s
ON CONFLICT (namespace_id) DO UPDATE SET document = excluded.document RETURNING namespace_id
"""
SELECT_MANIFEST: Final = """
SELECT m.document FROM amends.manifest m JOIN amends.namespace n ON n.id = m.namespace_id
WHERE n.name = %s
"""

FOLLOW: Final = "UPDATE amends.namespace SET follows = %s WHERE name = %s RETURNING id, source_id"
SELECT_CURRENT: Final = """
SELECT n.name FROM amends.current_namespace c
JOIN amends.namespace n ON n.id = c.namespace_id
JOIN amends.source s ON s.id = c.source_id WHERE s.name = %s
"""

SELECT_TO_REMOVE: Final = """
SELECT n.id, s.name, EXISTS (
    SELECT FROM amends.current_namespace c WHERE c.namespace_id = n.id)
FROM amends.namespace n JOIN amends.source s ON s.id = n.source_id WHERE n.name = %s FOR UPDATE OF n
"""
# The number of a lock is that of the unit, times four, and its role's: see ownership.py.
TRY_LOCKS: Final = """
SELECT u.partition, r.name, coalesce(CASE r.number WHEN 1 THEN w.holder WHEN 2 THEN l.holder
    ELSE v.holder END, 'nobody yet')
FROM amends.unit u
JOIN amends.worker_progress w ON w.unit_id = u.id
JOIN amends.relay_progress l ON l.unit_id = u.id
JOIN amends.view_progress v ON v.unit_id = u.id
CROSS JOIN (VALUES (1, 'worker'), (2, 'relay'), (3, 'view')) r (number, name)
WHERE u.namespace_id = %s AND NOT pg_try_advisory_xact_lock(%s::int4, u.id * 4 + r.number)
ORDER BY u.partition, r.number
"""
SELECT_UNITS: Final = "SELECT id FROM amends.unit WHERE namespace_id = %s"
# Progress first: whoever commits at this moment holds one of these rows, and is waited for.
UNIT_TABLES: Final = (
    "worker_progress",
    "relay_progress",
    "view_progress",
    "output_end",
    "set_aside",
    "authority",
    "observation",
    "quarantine",
    "key_head",
    "key_page",
    "outbox_segment",
    "output_segment",
    "view_row",
    "verdict",
)
NAMESPACE_TABLES: Final = ("unit", "stock_key", "manifest")
DELETE_NAMESPACE: Final = "DELETE FROM amends.namespace WHERE id = %s"

INSERT_LANDED: Final = """
INSERT INTO amends.landed_file (source, digest, name, records, error, landed_at)
VALUES (%s, %s, %s, %s, %s, %s)
"""
APPEND_LANDED: Final = INSERT_LANDED + (
    "ON CONFLICT (source, digest) WHERE error IS NULL DO NOTHING RETURNING id"
)
SELECT_APPENDED: Final = """
SELECT name, landed_at FROM amends.landed_file WHERE source = %s AND digest = %s AND error IS NULL
"""
COUNT_LANDED: Final = "UPDATE amends.landed_file SET records = %s WHERE id = %s"
SELECT_LANDED: Final = """
SELECT source, digest, name, records, error, landed_at
FROM amends.landed_file WHERE source = %s ORDER BY id
"""


class PostgresOperations:
    """`Operations` in schema `amends`. Safe to use from several threads."""

    def __init__(self, database: Database, namespaces: Namespaces) -> None:
        self._database = database
        self._namespaces = namespaces

    # Verdicts

    def record_verdict(self, verdict: Verdict) -> None:
        """Keep a verdict in place of the unit's last one."""
        unit = verdict.unit
        self._namespaces.unit_id(unit)
        row = (
            verdict.status,
            verdict.accepted,
            verdict.source_end,
            verdict.output_end,
            verdict.differences,
            verdict.judged_at,
            storable(verdict.judged_by),
            storable(verdict.report),
        )
        with self._database.write(RECORD_VERDICT, (*row, *unit)) as transaction:
            there = bool(transaction.first)
        if not there:
            self._removed_meanwhile(unit.namespace)

    def verdicts(self, *, reports: bool = True) -> Sequence[Verdict]:
        """The standing verdict of every unit that was ever judged."""
        with self._database.read() as connection:
            rows = _rows(connection, SELECT_ALL_VERDICTS, (reports,))
        return [_verdict(row) for row in rows]

    def verdict(self, unit: Unit) -> Verdict | None:
        """The standing verdict of one unit."""
        self._namespaces.unit_id(unit)
        with self._database.read() as connection:
            rows = _rows(connection, SELECT_VERDICT, (True, *unit))
        return _verdict(rows[0]) if rows else None

    # Manifests

    def store_manifest(self, namespace: str, document: str) -> None:
        """Accept exactly these exclusions from now on."""
        self._namespaces.home(namespace)
        with self._database.write(STORE_MANIFEST, (storable(document), namespace)) as transaction:
            there = bool(transaction.first)
        if not there:
            self._removed_meanwhile(namespace)

    def manifest(self, namespace: str) -> str | None:
        """The accepted exclusions as JSON."""
        self._namespaces.home(namespace)
        with self._database.read() as connection:
            rows = _rows(connection, SELECT_MANIFEST, (namespace,))
        return str(rows[0][0]) if rows else None

    # The life of namespaces

    def follow(self, namespace: str, *, follows: bool) -> None:
        """Let the sensor ask for runs of the namespace's units, or not."""
        self._namespaces.home(namespace)
        with self._database.write(FOLLOW, (follows, namespace)) as transaction:
            there = transaction.first
            if there and follows:
                transaction.execute(FIRST_IS_CURRENT, there[0])
        if not there:
            self._removed_meanwhile(namespace)

    def current(self, source: str) -> str | None:
        """The namespace that readers of a source see."""
        with self._database.read() as connection:
            rows = _rows(connection, SELECT_CURRENT, (source,))
        return str(rows[0][0]) if rows else None

    def remove(self, namespace: str) -> None:
        """Forget a namespace and everything made for it; the source log stays."""
        self._namespaces.home(namespace)
        with self._database.write(LOCK, (LOCK_CLASS, PROVISIONING)) as transaction:
            row = transaction.execute(SELECT_TO_REMOVE, (namespace,)).fetchone()
            if row is not None:
                namespace_id, source, current = row
                if current:
                    raise is_current(namespace, source)
                _check_free(transaction, namespace, namespace_id)
                _delete(transaction, namespace_id)
        if row is None:
            self._removed_meanwhile(namespace)
        self._namespaces.forget(namespace)

    def _removed_meanwhile(self, namespace: str) -> None:
        """Raise UnknownNamespace; without a trace of it this process would believe it is there."""
        self._namespaces.forget(namespace)
        self._namespaces.home(namespace)

    # Landed files

    def record_landed(self, landed: Landed) -> None:
        """Keep that a file was set aside."""
        with self._database.write(INSERT_LANDED, _landed_row(landed)):
            pass

    def landed(self, source: str) -> Sequence[Landed]:
        """Files that were picked up for a source, in order."""
        with self._database.read() as connection:
            return [Landed(*row) for row in _rows(connection, SELECT_LANDED, (source,))]

    # Counts

    def row_counts(self, unit: Unit, counted: Collection[Counted]) -> Mapping[Counted, int]:
        """How many rows a unit has of each kind."""
        unit_id = self._namespaces.unit_id(unit)
        with self._database.snapshot() as connection:
            return read_counts(connection, unit_id, counted)


# What an append does with the file that its records come from


def begin_landing(transaction: Transaction, landing: Landed) -> int:
    """Note the file, before its records are counted. Raises AlreadyLanded."""
    noted = _landed_row(landing._replace(records=0, error=None))
    row = transaction.execute(APPEND_LANDED, noted).fetchone()
    if row is None:
        before = transaction.execute(SELECT_APPENDED, (landing.source, landing.digest)).fetchone()
        raise already_landed(landing, *(before or ("another file", "the same time")))
    return int(row[0])


def end_landing(transaction: Transaction, landing_id: int, records: int) -> None:
    """Note how many records the file had."""
    transaction.execute(COUNT_LANDED, (records, landing_id))


def _check_free(transaction: Transaction, namespace: str, namespace_id: int) -> None:
    """Take the locks of all units and roles, to the end of the transaction. Raises Held."""
    row = transaction.execute(TRY_LOCKS, (namespace_id, LOCK_CLASS)).fetchone()
    if row is not None:
        partition, role, holder = row
        raise held(Unit(namespace, partition), role, holder)


def _delete(transaction: Transaction, namespace_id: int) -> None:
    units = [unit_id for (unit_id,) in transaction.execute(SELECT_UNITS, (namespace_id,))]
    for table in UNIT_TABLES:
        transaction.execute(
            f"DELETE FROM amends.{table} WHERE unit_id = ANY(%s)",  # noqa: S608 - our own names
            (units,),
        )
    for table in NAMESPACE_TABLES:
        transaction.execute(
            f"DELETE FROM amends.{table} WHERE namespace_id = %s",  # noqa: S608 - our own names
            (namespace_id,),
        )
    transaction.execute(DELETE_NAMESPACE, (namespace_id,))


def _rows(connection: Connection, statement: str, parameters: Parameters) -> list[tuple[Any, ...]]:
    return connection.execute(statement, parameters, binary=True).fetchall()


def _verdict(row: tuple[Any, ...]) -> Verdict:
    namespace, partition, *rest = row
    return Verdict(Unit(namespace, partition), *rest)


def _landed_row(landed: Landed) -> tuple[object, ...]:
    return (
        landed.source,
        landed.digest,
        storable(landed.name),
        landed.records,
        None if landed.error is None else storable(landed.error),
        landed.landed_at,
    )
