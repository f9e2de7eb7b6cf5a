"""An output log in PostgreSQL tables: segments of envelopes, as the outbox has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from amends_pipeline.inventory.envelope_columns import Envelopes
from amends_pipeline.kernel.errors import ProtocolStop
from amends_pipeline.ports import Segment, Unit
from amends_pipeline.store import segments
from amends_pipeline.store.namespaces import Namespaces
from amends_pipeline.store.postgres import Database

# The row lock gives each append its place, so that offset order is commit order.
MOVE_END: Final = """
UPDATE amends.output_end SET end_offset = end_offset + %s WHERE unit_id = %s
RETURNING end_offset - %s
"""
INSERT_SEGMENT: Final = f"""
INSERT INTO amends.output_segment (unit_id, base, count, {segments.COLUMNS})
VALUES (%s, %s, %s, {segments.PLACES})
"""  # noqa: S608 - columns of a constant
SELECT_END: Final = "SELECT end_offset FROM amends.output_end WHERE unit_id = %s"
SELECT_SEGMENTS: Final = f"""
SELECT base, count, {segments.COLUMNS} FROM amends.output_segment
WHERE unit_id = %s AND base < %s AND base >= coalesce((
    SELECT max(base) FROM amends.output_segment WHERE unit_id = %s AND base <= %s), 0)
    AND base + count > %s
ORDER BY base
"""  # noqa: S608 - columns of a constant


class TableOutputLog:
    """An `OutputLog` in schema `amends`. What was appended together is one segment."""

    def __init__(self, database: Database, namespaces: Namespaces) -> None:
        self._database = database
        self._namespaces = namespaces

    def append(self, unit: Unit, envelopes: Envelopes) -> int:
        """Append in order, all or none. Returns the offset of the first."""
        unit_id = self._namespaces.unit_id(unit)
        count = len(envelopes)
        with self._database.write(MOVE_END, (count, unit_id, count)) as transaction:
            if not transaction.first:
                raise self._namespaces.missing(f"output log of {unit}", unit, unit_id)
            base: int = transaction.first[0][0]
            for at, part in segments.split(envelopes):
                row = (unit_id, base + at, len(part), *segments.parameters(part))
                transaction.execute(INSERT_SEGMENT, row)
        return base

    def end(self, unit: Unit) -> int:
        """The offset after the last row."""
        unit_id = self._namespaces.unit_id(unit)
        with self._database.read() as connection:
            row = connection.execute(SELECT_END, (unit_id,), binary=True).fetchone()
        if row is None:
            raise self._namespaces.missing(f"output log of {unit}", unit, unit_id)
        return int(row[0])

    def read(self, unit: Unit, start: int, limit: int) -> Iterator[Segment]:
        """Segments from offset `start` on, up to about `limit` rows, up to one that is none."""
        unit_id = self._namespaces.unit_id(unit)
        wanted = (unit_id, start + limit, unit_id, start, start)
        with self._database.read() as connection:
            cursor = connection.execute(SELECT_SEGMENTS, wanted, binary=True)
        expected = start
        for decoded, stop in segments.fetch(f"output log of {unit}", cursor):
            segment = segments.cut(decoded, start)
            if segment.base != expected:
                where = f"output log of {unit}"
                found = f"{segment.base}"
                raise ProtocolStop(where, expected=f"offset {expected}", found=found)
            if segment.envelopes:
                yield segment
            if stop is not None:
                raise stop
            expected = segment.end
