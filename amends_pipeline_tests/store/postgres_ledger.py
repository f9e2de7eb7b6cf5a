"""A ledger in PostgreSQL, and what only a test does to it."""

from __future__ import annotations

import psycopg
from psycopg import sql

from amends_pipeline.assembly import PostgresLedger, open_ledger
from amends_pipeline.ports import Unit
from amends_pipeline.store.postgres import Database

TABLES = """
SELECT tablename FROM pg_tables
WHERE schemaname = 'amends' AND tablename <> 'alembic_version' ORDER BY tablename
"""
# Few rows are deleted in a hundredth of the time in which all tables are truncated. As truncating
# does, this waits for whoever is still writing.
DELETIONS = """
SELECT 'LOCK TABLE ' || string_agg(name, ', ') || string_agg('; DELETE FROM ' || name, '')
FROM (SELECT format('%%I.%%I', schemaname, tablename) AS name FROM pg_tables
    WHERE schemaname = %s AND tablename <> 'alembic_version') t
"""
RESTART = """
SELECT setval(format('%%I.%%I', schemaname, sequencename)::regclass, start_value, false)
FROM pg_sequences WHERE schemaname = %s
"""
ROWS = sql.SQL("SELECT t::text FROM amends.{} t")
UNIT_ID = """
SELECT u.id FROM amends.unit u JOIN amends.namespace n ON n.id = u.namespace_id
WHERE n.name = %s AND u.partition = %s
"""
SKIP = """
UPDATE amends.source_partition p SET end_offset = end_offset + %s FROM amends.source_log l
WHERE l.id = p.log_id AND l.name = %s AND p.partition = %s
"""
FORGET = """
UPDATE amends.source_partition p
SET start_offset = greatest(start_offset, least(%s, end_offset)) FROM amends.source_log l
WHERE l.id = p.log_id AND l.name = %s AND p.partition = %s
"""
DROP_FORGOTTEN = """
DELETE FROM amends.source_segment s USING amends.source_partition p
WHERE p.id = s.source_partition_id AND s.base + s.count <= p.start_offset
"""
DROP_LOG = """
WITH log AS (DELETE FROM amends.source_log WHERE name = %s RETURNING id),
partition AS (
    DELETE FROM amends.source_partition p USING log WHERE p.log_id = log.id RETURNING p.id
)
DELETE FROM amends.source_segment s USING partition WHERE s.source_partition_id = partition.id
"""
SPOIL = """
WITH moved AS (
    UPDATE amends.output_end SET end_offset = end_offset + 1 WHERE unit_id = %s
    RETURNING unit_id, end_offset - 1 AS base
)
INSERT INTO amends.output_segment (unit_id, base, count, encoder_version, key, type, day,
    cause_index, cause_offset, cause_txn_id)
SELECT unit_id, base, 1, 99, '{}', '{}', '{}', '{}', '{}', '{}' FROM moved
"""


def empty(url: str, schema: str) -> None:
    """Delete every row of a schema of ours, in whatever order its tables refer to each other."""
    with psycopg.connect(url) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute(connection.execute(DELETIONS, [schema]).fetchone()[0])
        connection.execute(RESTART, [schema])


class TestedLedger(PostgresLedger):
    """A ledger over tables, with a connection of the test's own beside it."""

    __test__ = False  # to pytest, its name looks like that of a group of tests

    def __init__(self, url: str):
        open_ledger(url).close()
        super().__init__(Database(url))
        self.url = url

    def sql(self, statement: str | sql.Composed, *parameters: object) -> list[tuple]:
        """Run a statement as a person would, with psql."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else []

    def unit_id(self, unit: Unit) -> int:
        return self.sql(UNIT_ID, *unit)[0][0]

    def tables(self) -> list[str]:
        """Our tables by name, without Alembic's."""
        return [name for (name,) in self.sql(TABLES)]

    def empty(self) -> None:
        """Forget everything."""
        empty(self.url, "amends")

    def dump(self) -> dict[str, list[str]]:
        """Every row of every table as text."""
        return {
            name: sorted(row for (row,) in self.sql(ROWS.format(sql.Identifier(name))))
            for name in self.tables()
        }

    # What every tested ledger can do

    def reopened(self) -> TestedLedger:
        """The same ledger as another process finds it."""
        return TestedLedger(self.url)

    def skip(self, source: str, partition: int, count: int) -> None:
        """Give the next `count` source offsets to nobody."""
        self.sql(SKIP, count, source, partition)

    def forget(self, source: str, partition: int, before: int) -> None:
        """Stop retaining source records before an offset."""
        self.sql(FORGET, before, source, partition)
        self.sql(DROP_FORGOTTEN)

    def recreate(self, source: str) -> None:
        """Lose a source log and make it anew under another incarnation."""
        partitions = len(self.source(source).extents())
        self.sql(DROP_LOG, source)
        self.source(source).create(partitions)

    def spoil(self, unit: Unit) -> None:
        """Put a row into the output log that is no envelope."""
        self.sql(SPOIL, self.unit_id(unit))
