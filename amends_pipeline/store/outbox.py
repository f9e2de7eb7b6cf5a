"""The outbox of a unit: segments of envelopes in the order of their sequences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from amends_pipeline.inventory.decision import Decision
from amends_pipeline.inventory.envelope_columns import together
from amends_pipeline.ports import Segment, Unit
from amends_pipeline.store import segments
from amends_pipeline.store.at_once import Executes
from amends_pipeline.store.postgres import Connection, Cursor

INSERT: Final = segments.Insertion("amends.outbox_segment")
# Sequences are consecutive, so a limit of rows is a range of bases.
SELECT_PENDING: Final = f"""
SELECT base, count, {segments.COLUMNS}, r.acknowledged
FROM amends.relay_progress r JOIN amends.outbox_segment s ON s.unit_id = r.unit_id
    AND s.base < r.acknowledged + %s AND s.base >= coalesce((
        SELECT max(f.base) FROM amends.outbox_segment f
        WHERE f.unit_id = r.unit_id AND f.base <= r.acknowledged), 0)
    AND s.base + s.count > r.acknowledged
WHERE r.unit_id = %s ORDER BY s.base
"""  # noqa: S608 - columns of a constant
SELECT_FROM: Final = f"""
SELECT base, count, {segments.COLUMNS} FROM amends.outbox_segment
WHERE unit_id = %s AND base >= %s ORDER BY base LIMIT %s
"""  # noqa: S608 - columns of a constant
SELECT_EXTENTS: Final = """
SELECT base, count FROM amends.outbox_segment WHERE unit_id = %s ORDER BY base
"""

SEGMENTS_AT_ONCE: Final = 100
"""Segments that `read` asks for at a time."""


def save(to: Executes, unit_id: int, decisions: Sequence[Decision]) -> None:
    """Write what consecutive decisions publish."""
    base = decisions[0].base_sequence
    envelopes = together([decision.envelopes for decision in decisions])
    for at, part in segments.split(envelopes):
        to.execute(*INSERT.of(unit_id, base + at, part))


def pending(connection: Connection, unit: Unit, unit_id: int, limit: int) -> list[Segment]:
    """Pending rows from the acknowledgement frontier on, at most `limit` of them, or one."""
    limit = max(limit, 1)
    cursor = connection.execute(SELECT_PENDING, (limit, unit_id), binary=True)
    acknowledged = segments.number(cursor, segments.WIDTH)
    # Sequences are consecutive, and what begins before the limit may go with the rest.
    stop = acknowledged + limit + segments.SEGMENT_ROWS
    return [segments.cut(segment, acknowledged, stop) for segment in _found(unit, cursor)]


def read(connection: Connection, unit: Unit, unit_id: int) -> Iterator[Segment]:
    """Every segment in order. Raises ProtocolStop at one that cannot be understood."""
    position = 0
    while True:
        wanted = (unit_id, position, SEGMENTS_AT_ONCE)
        before = position
        for segment in _found(unit, connection.execute(SELECT_FROM, wanted, binary=True)):
            position = segment.end
            yield segment
        if position == before:
            return


def extents(connection: Connection, unit_id: int) -> list[tuple[int, int]]:
    """(base sequence, count) of every stored segment."""
    rows = connection.execute(SELECT_EXTENTS, (unit_id,), binary=True).fetchall()
    return [(base, count) for base, count in rows]


def _found(unit: Unit, cursor: Cursor) -> Iterator[Segment]:
    for segment, stop in segments.fetch(f"outbox of {unit}", cursor):
        if stop is not None:
            raise stop
        yield segment
