"""A ledger in PostgreSQL, and what only a test does to it."""

from __future__ import annotations

import psycopg

from amends_pipeline.assembly import PostgresLedger, open_ledger
from amends_pipeline.ports import Unit
from amends_pipeline.store.postgres import Database

UNIT_ID = """
SELECT u.id FROM amends.unit u JOIN amends.namespace n ON n.id = u.namespace_id
WHERE n.name = %s AND u.partition = %s
"""
SOURCE_PARTITION = """
SELECT p.id FROM amends.source_partition p JOIN amends.source_log l ON l.id = p.log_id
WHERE l.name = %s AND p.partition = %s
"""


class TestedLedger(PostgresLedger):
    """A ledger over tables, with a connection of the test's own beside it."""

    def __init__(self, url: str):
        open_ledger(url).close()
        super().__init__(Database(url))
        self.url = url

    def sql(self, statement: str, *parameters: object) -> list[tuple]:
        """Run a statement as a person would, with psql."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else []

    def unit_id(self, unit: Unit) -> int:
        return self.sql(UNIT_ID, *unit)[0][0]

    # What every tested ledger can do

    def reopened(self) -> TestedLedger:
        """The same ledger as another process finds it."""
        return TestedLedger(self.url)

    def skip(self, source: str, partition: int, count: int) -> None:
        """Give the next `count` source offsets to nobody."""
        self.sql(
            f"UPDATE amends.source_partition SET end_offset = end_offset + %s"
            f" WHERE id = ({SOURCE_PARTITION})",
            count,
            source,
            partition,
        )

    def forget(self, source: str, partition: int, before: int) -> None:
        """Stop retaining source records before an offset."""
        self.sql(
            f"UPDATE amends.source_partition"
            f" SET start_offset = greatest(start_offset, least(%s, end_offset))"
            f" WHERE id = ({SOURCE_PARTITION})",
            before,
            source,
            partition,
        )
        self.sql(
            f"DELETE FROM amends.source_segment WHERE base + count <= %s"
            f" AND source_partition_id = ({SOURCE_PARTITION})",
            before,
            source,
            partition,
        )

    def recreate(self, source: str) -> None:
        """Lose a source log and make it anew under another incarnation."""
        partitions = len(self.source(source).extents())
        log = "(SELECT id FROM amends.source_log WHERE name = %s)"
        ids = f"(SELECT id FROM amends.source_partition WHERE log_id = {log})"
        self.sql(f"DELETE FROM amends.source_segment WHERE source_partition_id IN {ids}", source)
        self.sql(f"DELETE FROM amends.source_partition WHERE log_id = {log}", source)
        self.sql("DELETE FROM amends.source_log WHERE name = %s", source)
        self.source(source).create(partitions)

    def spoil(self, unit: Unit) -> None:
        """Put a row into the output log that is no envelope."""
        self.sql(
            "WITH moved AS (UPDATE amends.output_end SET end_offset = end_offset + 1"
            " WHERE unit_id = %s RETURNING unit_id, end_offset - 1 AS base)"
            " INSERT INTO amends.output_segment (unit_id, base, count, encoder_version, key, type,"
            " day, cause_index, cause_offset, cause_txn_id)"
            " SELECT unit_id, base, 1, 99, '{}', '{}', '{}', '{}', '{}', '{}' FROM moved",
            self.unit_id(unit),
        )
