"""A source log in PostgreSQL tables.

An append reserves offsets by updating the end of its partitions in the transaction that writes the
records. The row lock makes offset order commit order, so no reader can pass a record that is not
yet visible to it. Partitions are locked in ascending order, so two appends cannot wait for each
other.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from threading import Timer
from typing import Final

from amends_pipeline.inventory.slice import Records
from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import ConfigurationError, InputError
from amends_pipeline.ports import Extent, Landed, SourceRecord
from amends_pipeline.store import arrays, source_segments
from amends_pipeline.store.operations import begin_landing, end_landing
from amends_pipeline.store.postgres import Database, Transaction

SEGMENT_RECORDS: Final = 4_096
SEGMENT_BYTES: Final = 4 * 1024 * 1024
"""A segment ends with the record that reaches one of these."""
BUFFERED_BYTES: Final = 32 * 1024 * 1024
"""Up to that much an append is read before it locks, so that it locks only what it writes to."""
TOLD_AFTER_SECONDS: Final = 1.0
"""Then whoever waits for another append is told so."""
RECORD_BYTES: Final = 100
"""What a record takes in memory beside its value."""

INSERT_LOG: Final = """
INSERT INTO amends.source_log (name, incarnation, partitions) VALUES (%s, %s, %s)
ON CONFLICT (name) DO NOTHING RETURNING id
"""
INSERT_PARTITIONS: Final = """
INSERT INTO amends.source_partition (log_id, partition)
SELECT %s, p - 1 FROM generate_series(1, %s) p
"""
SELECT_PARTITIONS: Final = "SELECT partitions FROM amends.source_log WHERE name = %s"
LOCK_PARTITIONS: Final = """
SELECT p.partition, p.id, p.end_offset
FROM amends.source_partition p
WHERE p.log_id = (SELECT id FROM amends.source_log WHERE name = %s) AND p.partition = ANY(%s)
ORDER BY p.partition FOR UPDATE
"""
INSERT_SEGMENT: Final = """
INSERT INTO amends.source_segment (source_partition_id, base, count, ends, record_values, raw_keys)
VALUES (%s, %s, %s, %s, %s, %s)
"""
UPDATE_END: Final = "UPDATE amends.source_partition SET end_offset = %s WHERE id = %s"
SELECT_ENDS: Final = """
SELECT p.end_offset FROM amends.source_partition p JOIN amends.source_log l ON l.id = p.log_id
WHERE l.name = %s ORDER BY p.partition
"""


class TableSource:
    """A `SourceLog` in schema `amends`."""

    def __init__(self, database: Database, source: str) -> None:
        self._database = database
        self.source = source

    def create(self, partitions: int) -> None:
        """Make the log, unless it is there."""
        incarnation = secrets.token_hex(16)
        parameters = (self.source, incarnation, partitions)
        with self._database.write(INSERT_LOG, parameters) as transaction:
            if transaction.first:
                ((log_id,),) = transaction.first
                transaction.execute(INSERT_PARTITIONS, (log_id, partitions))
                return
            there = transaction.execute(SELECT_PARTITIONS, (self.source,)).fetchone()
            if there is None or there[0] != partitions:
                raise ConfigurationError(
                    f"source {self.source}",
                    expected=f"{there and there[0]} partitions, as it was created with",
                    found=str(partitions),
                )

    def incarnation(self) -> str:
        """The random id that this log was created with."""
        return self._log().incarnation

    def extents(self) -> Sequence[Extent]:
        """What is retained, by partition."""
        return self._log().extents

    def _log(self) -> source_segments.Log:
        with self._database.read() as connection:
            return source_segments.find(connection, self.source)

    def append(
        self,
        records: Iterable[SourceRecord],
        *,
        landing: Landed | None = None,
        waiting: Callable[[], None] | None = None,
    ) -> Sequence[int]:
        """Append all records or none."""
        partitions = len(self._log().extents)
        batches = _batches(self._checked(records, partitions))
        first = next(batches, [])
        second = next(batches, None)
        touched = range(partitions) if second is not None else {r.partition for r in first}
        lock = (self.source, sorted(touched))
        with (
            _telling(waiting) as locked,
            self._database.write(LOCK_PARTITIONS, lock) as transaction,
        ):
            locked()
            writers = {
                partition: _Writer(transaction, partition_id, end)
                for partition, partition_id, end in transaction.first
            }
            landing_id = None
            if landing is not None:
                landing_id = begin_landing(transaction, landing._replace(source=self.source))
            with transaction.connection.pipeline():
                batch: list[SourceRecord] | None = first
                while batch is not None:
                    for partition, raw_key, value in batch:
                        writers[partition].add(raw_key, value)
                    batch, second = second, next(batches, None) if second is not None else None
                count = sum(writer.finish() for writer in writers.values())
                if landing_id is not None:
                    end_landing(transaction, landing_id, count)
                ends = transaction.execute(SELECT_ENDS, (self.source,))
                transaction.commit()
        return [end for (end,) in ends.fetchall()]

    def _checked(self, records: Iterable[SourceRecord], partitions: int) -> Iterator[SourceRecord]:
        for record in records:
            if not 0 <= record.partition < partitions:
                where = f"source {shown(self.source)}"
                expected = f"a partition from 0 to {partitions - 1}"
                raise InputError(where, expected=expected, found=str(record.partition))
            yield record

    def read(self, partition: int, start: int, until: int, limit: int) -> Records:
        """At most `limit` records from `start` on, before `until`."""
        wanted = source_segments.Range(partition, start, until)
        with self._database.read() as connection:
            return source_segments.read(connection, self.source, wanted, limit)


@contextmanager
def _telling(waiting: Callable[[], None] | None) -> Iterator[Callable[[], None]]:
    """Call `waiting` when what is yielded was not called for so long, nor the block left."""
    if waiting is None:
        yield lambda: None
        return
    timer = Timer(TOLD_AFTER_SECONDS, waiting)
    timer.start()
    try:
        yield timer.cancel
    finally:
        timer.cancel()


def _batches(records: Iterable[SourceRecord]) -> Iterator[list[SourceRecord]]:
    batch: list[SourceRecord] = []
    size = 0
    for record in records:
        batch.append(record)
        size += len(record.value) + RECORD_BYTES
        if size >= BUFFERED_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class _Writer:
    """The records of one partition on their way into segments."""

    def __init__(self, transaction: Transaction, partition_id: int, end: int) -> None:
        self._transaction = transaction
        self._partition_id = partition_id
        self._begin = self._written = end
        self._keys: list[bytes | None] = []
        self._values: list[bytes] = []
        self._size = 0

    def add(self, raw_key: bytes | None, value: bytes) -> None:
        """Give the record the next offset."""
        self._keys.append(raw_key)
        self._values.append(value)
        self._size += len(value)
        if len(self._values) >= SEGMENT_RECORDS or self._size >= SEGMENT_BYTES:
            self._write()

    def finish(self) -> int:
        """Write what is left, and the new end. Returns how many records there were."""
        if self._values:
            self._write()
        count = self._written - self._begin
        if count:
            self._transaction.execute(UPDATE_END, (self._written, self._partition_id))
        return count

    def _write(self) -> None:
        keyed = any(key is not None for key in self._keys)
        self._transaction.execute(
            INSERT_SEGMENT,
            (
                self._partition_id,
                self._written,
                len(self._values),
                arrays.int4s(list(accumulate(map(len, self._values)))),
                b"".join(self._values),
                arrays.blobs(self._keys) if keyed else None,
            ),
        )
        self._written += len(self._values)
        self._keys, self._values, self._size = [], [], 0
