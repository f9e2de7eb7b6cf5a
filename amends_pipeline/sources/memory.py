"""A source log in memory, for tests and simulation."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence

from amends_pipeline.inventory.slice import Records
from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import ConfigurationError
from amends_pipeline.ports import Extent, Landed, SourceRecord
from amends_pipeline.store.memory_snapshot import read
from amends_pipeline.store.memory_tables import (
    MemoryTables,
    SourcePartition,
    SourceTable,
    no_such_partition,
)
from amends_pipeline.store.refusals import already_landed, storable


class MemorySource:
    """A `SourceLog` over `MemoryTables`. Offsets are given one by one, from 0 on."""

    def __init__(self, tables: MemoryTables, source: str) -> None:
        self._tables = tables
        self.source = source

    def create(self, partitions: int) -> None:
        """Make the log, unless it is there."""
        tables = self._tables
        with tables.lock:
            there = tables.sources.get(self.source)
            if there is None:
                empty = [SourcePartition() for _ in range(partitions)]
                tables.sources[self.source] = SourceTable(tables.new_id(), empty)
            elif len(there.partitions) != partitions:
                raise ConfigurationError(
                    f"source {self.source}",
                    expected=f"{len(there.partitions)} partitions, as it was created with",
                    found=str(partitions),
                )

    def incarnation(self) -> str:
        """The random id that this log was created with."""
        with self._tables.lock:
            return self._tables.source(self.source).incarnation

    def extents(self) -> Sequence[Extent]:
        """What is retained, by partition."""
        with self._tables.lock:
            return [each.extent for each in self._tables.source(self.source).partitions]

    def append(
        self,
        records: Iterable[SourceRecord],
        *,
        landing: Landed | None = None,
        waiting: Callable[[], None] | None = None,  # noqa: ARG002 - nothing here takes long
    ) -> Sequence[int]:
        """Append all records or none."""
        with self._tables.lock:
            partitions = self._tables.source(self.source).partitions
            landed = self._tables.landed.setdefault(self.source, [])
            if landing is not None:
                self._check_landing(landing, landed)
            whole = list(records)
            for record in whole:
                if not 0 <= record.partition < len(partitions):
                    where = f"source {shown(self.source)}"
                    raise no_such_partition(where, len(partitions), record.partition)
            for partition, raw_key, value in whole:
                table = partitions[partition]
                table.offsets.append(table.end)
                table.keys.append(raw_key)
                table.values.append(value)
                table.end += 1
            if landing is not None:
                name, count = storable(landing.name), len(whole)
                landed.append(
                    landing._replace(source=self.source, name=name, records=count, error=None)
                )
            return [each.end for each in partitions]

    def _check_landing(self, landing: Landed, landed: Iterable[Landed]) -> None:
        for before in landed:
            if before.error is None and before.digest == landing.digest:
                raise already_landed(
                    landing._replace(source=self.source), before.name, before.landed_at
                )

    def read(self, partition: int, start: int, until: int, limit: int) -> Records:
        """At most `limit` records from `start` on, before `until`."""
        with self._tables.lock:
            return read(self._tables.source_partition(self.source, partition), start, until, limit)

    # What other logs do to their readers

    def skip(self, partition: int, count: int) -> None:
        """Give the next `count` offsets to nobody, as an aborted transaction would."""
        with self._tables.lock:
            self._tables.source_partition(self.source, partition).end += count

    def forget(self, partition: int, before: int) -> None:
        """Stop retaining records before an offset."""
        with self._tables.lock:
            table = self._tables.source_partition(self.source, partition)
            at = bisect_left(table.offsets, before)
            del table.offsets[:at], table.keys[:at], table.values[:at]
            table.start = max(table.start, min(before, table.end))

    def recreate(self) -> None:
        """Lose the log and make it anew, empty, under another incarnation."""
        with self._tables.lock:
            partitions = len(self._tables.source(self.source).partitions)
            del self._tables.sources[self.source]
            self.create(partitions)
