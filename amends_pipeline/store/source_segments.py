"""The source log in tables: how it is found and read.

`amends.source_segment` holds records that were appended together, one value after the other in one
byte string, with the position where each ends. The view `amends.source_record` shows them one by
one. Here is what a snapshot needs of it; `sources/table.py` is the log itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from amends_pipeline.inventory.slice import Records
from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import DatabaseUnavailable, InputError
from amends_pipeline.kernel.joined import Joined
from amends_pipeline.ports import Extent
from amends_pipeline.store.postgres import Connection

SELECT_LOG: Final = """
SELECT l.incarnation, p.start_offset, p.end_offset
FROM amends.source_log l JOIN amends.source_partition p ON p.log_id = l.id
WHERE l.name = %s ORDER BY p.partition
"""
SELECT_PARTITION: Final = """
SELECT p.id, p.start_offset
FROM amends.source_log l JOIN amends.source_partition p ON p.log_id = l.id
WHERE l.name = %s AND p.partition = %s
"""
# Cut on the server: a segment may be long, and one record of it may be wanted.
SELECT_SEGMENTS: Final = """
SELECT s.base + c.low, s.ends[c.low + 1 : c.high], coalesce(s.ends[c.low], 0) AS skipped,
    substring(s.record_values FROM coalesce(s.ends[c.low], 0) + 1
        FOR s.ends[c.high] - coalesce(s.ends[c.low], 0)),
    s.raw_keys[c.low + 1 : c.high]
FROM amends.source_segment s
CROSS JOIN LATERAL (
    SELECT least(greatest(%(start)s::int8 - s.base, 0), s.count)::int4 AS low,
        least(%(until)s::int8 - s.base, s.count)::int4 AS high
) c
WHERE s.source_partition_id = %(partition)s AND s.base < %(until)s AND s.base >= coalesce((
    SELECT max(f.base) FROM amends.source_segment f
    WHERE f.source_partition_id = %(partition)s AND f.base <= %(start)s), %(start)s)
    AND c.low < c.high
ORDER BY s.base LIMIT 16
"""
SELECT_NEXT_RECORD: Final = """
SELECT coalesce((
    SELECT %(stop)s::int8 FROM (
        SELECT base, count FROM amends.source_segment
        WHERE source_partition_id = %(partition)s AND base <= %(stop)s
        ORDER BY base DESC LIMIT 1
    ) last WHERE last.base + last.count > %(stop)s
), (
    SELECT min(base) FROM amends.source_segment
    WHERE source_partition_id = %(partition)s AND base > %(stop)s AND base < %(until)s
))
"""


class Range(NamedTuple):
    """Offsets of a partition, from `start` up to and without `until`."""

    partition: int
    start: int
    until: int


class Log(NamedTuple):
    """A source log as it is now."""

    incarnation: str
    extents: Sequence[Extent]
    """By partition."""


def find(connection: Connection, source: str) -> Log:
    """The log of a source. Raises InputError when it was not created."""
    rows = connection.execute(SELECT_LOG, (source,), binary=True).fetchall()
    if not rows:
        where = f"source {shown(source)}"
        raise InputError(where, expected="a source that was created", found="none")
    return Log(rows[0][0], [Extent(start, end) for _, start, end in rows])


def read(connection: Connection, source: str, wanted: Range, limit: int) -> Records:
    """At most `limit` records of a range, as `SourceLog.read` promises them."""
    partition, start, until = wanted
    partition_id, position = _partition(connection, source, partition)
    position = max(start, position)
    offsets: list[int] = []
    keys: list[bytes | None] = []
    parts: list[bytes] = []
    ends: list[NDArray[np.int64]] = []
    size = 0
    while position < until:
        stop = end = min(until, position + limit - len(offsets))
        part = {"partition": partition_id, "start": position, "until": stop}
        rows = connection.execute(SELECT_SEGMENTS, part, binary=True).fetchall()
        for base, bounds, skipped, joined, raw_keys in rows:
            if joined is None or None in bounds:
                raise DatabaseUnavailable(
                    f"source {shown(source)}, partition {partition}, offset {base}",
                    expected="a segment that says where each of its records ends",
                    found="one that does not",
                )
            end = base + len(bounds)
            offsets += range(base, end)
            keys += raw_keys or [None] * len(bounds)
            parts.append(joined)
            ends.append(np.array(bounds, np.int64) + (size - skipped))
            size += len(joined)
        position = _next_record(connection, partition_id, end, until)
        if len(offsets) >= limit:
            break
    values = Joined(b"".join(parts), np.concatenate(ends or [np.empty(0, np.int64)]))
    return Records(start, min(position, until), offsets, keys, values)


def _partition(connection: Connection, source: str, partition: int) -> tuple[int, int]:
    """Surrogate key and start of a partition. Raises InputError."""
    row = connection.execute(SELECT_PARTITION, (source, partition), binary=True).fetchone()
    if row is None:
        partitions = len(find(connection, source).extents)
        expected = f"a partition from 0 to {partitions - 1}"
        raise InputError(f"source {shown(source)}", expected=expected, found=str(partition))
    return row[0], row[1]


def _next_record(connection: Connection, partition_id: int, stop: int, until: int) -> int:
    """The first offset from `stop` on that holds a record, or `until` when none before it does."""
    if stop >= until:
        return until
    wanted = {"partition": partition_id, "stop": stop, "until": until}
    row = connection.execute(SELECT_NEXT_RECORD, wanted, binary=True).fetchone()
    return until if row is None or row[0] is None else int(row[0])
