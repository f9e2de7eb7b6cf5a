"""The logs on both sides of the store: records come from one, envelopes go to the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from amends_pipeline.inventory.envelope_columns import Envelopes
from amends_pipeline.inventory.slice import Records
from amends_pipeline.ports.operations import Landed
from amends_pipeline.ports.values import Extent, Segment, SourceRecord, Unit


class SourceLog(Protocol):
    """The append-only log of raw records of one source, partitioned; offsets only grow.

    Every method but `create` raises InputError when the log was not created or has no such
    partition.
    """

    source: str

    def create(self, partitions: int) -> None:
        """Make the log, empty, with a random incarnation; a no-op when it is there already.

        Raises ConfigurationError when it is there with another number of partitions.
        """
        ...

    def incarnation(self) -> str:
        """The random id that this log was created with."""
        ...

    def extents(self) -> Sequence[Extent]:
        """For each partition, what is retained."""
        ...

    def append(
        self,
        records: Iterable[SourceRecord],
        *,
        landing: Landed | None = None,
        waiting: Callable[[], None] | None = None,
    ) -> Sequence[int]:
        """Append all records or none. Returns the new end of every partition.

        Offset order is commit order: a reader never passes a record that is not yet visible.
        `landing` records the file that they come from in the same transaction (its `records` are
        counted here); raises AlreadyLanded when a file of that digest was appended before.
        `waiting` is told, by another thread, that another append has been waited for a while.
        """
        ...

    def read(self, partition: int, start: int, until: int, limit: int) -> Records:
        """At most `limit` records from `start` on, before `until`.

        The result covers `[start, its until)`: its `until` is the given one when no record is
        left before it, else the offset of the first record that did not fit the limit.
        """
        ...


class OutputLog(Protocol):
    """The log that downstream consumers read; one partition per unit, offsets from 0 on."""

    def append(self, unit: Unit, envelopes: Envelopes) -> int:
        """Append in order, all or none. Returns the offset of the first.

        May raise OutcomeUnknown: then the rows may stand in the log, and go again all the same.
        """
        ...

    def end(self, unit: Unit) -> int:
        """The offset after the last row."""
        ...

    def read(self, unit: Unit, start: int, limit: int) -> Iterator[Segment]:
        """Segments from offset `start` on, up to about `limit` rows, in order.

        The first one starts exactly at `start`. An envelope that cannot be decoded ends the run:
        what precedes it is yielded, then ProtocolStop is raised.
        """
        ...
