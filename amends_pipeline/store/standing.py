"""Where all units stand: the one look that automation takes, every few seconds."""

from __future__ import annotations

from typing import Final

from psycopg.rows import TupleRow

from amends_pipeline.ports import Extent, Unit, UnitStanding
from amends_pipeline.store.ownership import progress_of
from amends_pipeline.store.postgres import LOCK_CLASS, Connection

SET_TIMEOUT: Final = "SET LOCAL statement_timeout = '5s'"
"""Who asks again in a moment must not wait for long, least of all behind a migration."""

# The number of a lock is that of the unit, times four, and its role's: see ownership.py.
SELECT_STANDING: Final = """
WITH held AS MATERIALIZED (
    SELECT objid::int8 / 4 AS unit_id, min(objid::int8 %% 4) AS role
    FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND classid = %s::int4::oid AND objsubid = 2
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    GROUP BY 1
)
SELECT n.name, u.partition, s.name, n.follows, n.incarnation = l.incarnation,
    p.start_offset, p.end_offset, n.first_offsets[u.partition + 1], o.end_offset,
    CASE h.role WHEN 1 THEN coalesce(w.holder, '') WHEN 2 THEN coalesce(r.holder, '')
        WHEN 3 THEN coalesce(v.holder, '') END,
    w.next_offset, w.next_sequence, r.acknowledged, v.view_next, v.view_stop,
    w.epoch, r.epoch, v.epoch
FROM amends.unit u
JOIN amends.namespace n ON n.id = u.namespace_id
JOIN amends.source s ON s.id = n.source_id
JOIN amends.worker_progress w ON w.unit_id = u.id
JOIN amends.relay_progress r ON r.unit_id = u.id
JOIN amends.view_progress v ON v.unit_id = u.id
JOIN amends.output_end o ON o.unit_id = u.id
LEFT JOIN amends.source_log l ON l.name = s.name
LEFT JOIN amends.source_partition p ON p.log_id = l.id AND p.partition = u.partition
LEFT JOIN held h ON h.unit_id = u.id
ORDER BY n.name, u.partition
"""


def read_standing(connection: Connection) -> list[UnitStanding]:
    """Where every unit stands. The connection has a transaction open."""
    connection.execute(SET_TIMEOUT)
    rows = connection.execute(SELECT_STANDING, (LOCK_CLASS,), binary=True)
    return [_standing(row) for row in rows]


def _standing(row: TupleRow) -> UnitStanding:
    namespace, partition, source, follows, bound, start, end, *more = row
    first_offset, output_end, holder, *progress = more
    return UnitStanding(
        Unit(namespace, partition),
        source,
        follows,
        bool(bound),  # NULL where there is no log
        None if start is None or end is None else Extent(start, end),
        first_offset,
        progress_of(progress),
        output_end,
        "nobody yet" if holder == "" else holder,
    )
