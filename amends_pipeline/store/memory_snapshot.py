"""One moment of a namespace in memory: copies of its tables and of the logs on both sides."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

import numpy as np

from amends_pipeline.inventory.authority import Candidate
from amends_pipeline.inventory.config import NamespaceConfig
from amends_pipeline.inventory.envelope import VISIBLE, Envelope, Type
from amends_pipeline.inventory.slice import Records
from amends_pipeline.ports import (
    OF_DAYS,
    ConflictRef,
    DayColumns,
    Extent,
    NamespaceInfo,
    Progress,
    Quarantined,
    Role,
    SetAside,
    Unit,
    UnitStanding,
)
from amends_pipeline.store.memory_tables import MemoryTables, SourcePartition, UnitTable

RUN_RECORDS = 1_000
"""Source records handed out together."""


class MemorySnapshot:
    """A `Snapshot`: everything is copied when it is made."""

    def __init__(self, tables: MemoryTables, namespace: str) -> None:
        with tables.lock:
            table = tables.namespace(namespace)
            self._info, self._config = table.info, table.config
            source = tables.source(table.info.source).copy()
            self._incarnation, self._source = source.incarnation, source.partitions
            self._output_ends = [
                len(tables.output(Unit(namespace, partition)).rows)
                for partition in range(table.info.partitions)
            ]
            self._progress = [unit.progress for unit in table.units]
            self._set_asides = [unit.listed_set_asides() for unit in table.units]
            self._view = [list(unit.view.items()) for unit in table.units]
            self._rejections = [unit.rejections.copy() for unit in table.units]
            self._candidates = [_candidates(unit) for unit in table.units]

    def info(self) -> NamespaceInfo:
        """What was provisioned."""
        return self._info

    def config(self) -> NamespaceConfig:
        """The configuration that was provisioned."""
        return self._config

    def config_as_stored(self) -> NamespaceConfig:
        """The same: nobody can change it."""
        return self._config

    def source_incarnation(self) -> str:
        """The id of the source log that is there now."""
        return self._incarnation

    def source_extents(self) -> Sequence[Extent]:
        """What the source retains, by partition."""
        return [partition.extent for partition in self._source]

    def output_ends(self) -> Sequence[int]:
        """The output log's ends, by partition."""
        return self._output_ends.copy()

    def progress(self) -> Sequence[Progress]:
        """Where the roles stand, by partition."""
        return [each._replace(epochs=dict(each.epochs)) for each in self._progress]

    def records(self, partition: int, start: int, until: int) -> Iterator[Records]:
        """Raw source records in runs."""
        while True:
            run = read(self._source[partition], start, until, RUN_RECORDS)
            yield run
            start = run.until
            if start >= until:
                return

    def set_asides(self, partition: int) -> Sequence[SetAside]:
        """Declared records by offset."""
        return self._set_asides[partition].copy()

    def visible(self, types: Iterable[Type] = VISIBLE) -> Iterator[Envelope]:
        """Rows that readers see, in the order of their encoded ids."""
        # Families are numbered by name and keys by encoded key, so ids sort as their texts do.
        rows = sorted(chain.from_iterable(self._view))
        kinds = VISIBLE.intersection(types)
        return (envelope for _, envelope in rows if envelope.type in kinds)

    def visible_days(self) -> Mapping[Type, DayColumns]:
        """Alerts and balances that readers see, as columns."""
        return {kind: _day_columns(self.visible([kind])) for kind in OF_DAYS}

    def quarantine(self) -> Iterator[Quarantined]:
        """Rejected records by partition and offset."""
        for partition, rejections in enumerate(self._rejections):
            for rejection in sorted(rejections, key=lambda each: each.offset):
                yield Quarantined(partition, rejection)

    def conflicts(self) -> Iterator[ConflictRef]:
        """Revisions with more than one candidate, in key and identity order."""
        said: dict[tuple[int, str, int], set[Candidate]] = {}
        for key, txn_id, candidate in chain.from_iterable(self._candidates):
            said.setdefault((key, txn_id, candidate.revision), set()).add(candidate)
        for (key, txn_id, revision), candidates in sorted(said.items(), key=lambda each: each[0]):
            if len(candidates) > 1:
                item, location = self._config.keys[key].stock_key
                yield ConflictRef(item, location, txn_id, revision)


def _day_columns(envelopes: Iterable[Envelope]) -> DayColumns:
    rows = [(each.key, each.day, each.close) for each in envelopes]
    return DayColumns(*np.array(rows, np.int64).reshape(-1, 3).T)


def read(table: SourcePartition, start: int, until: int, limit: int) -> Records:
    """At most `limit` records of a partition, as `SourceLog.read` promises them."""
    first = bisect_left(table.offsets, start)
    last = bisect_left(table.offsets, until)
    stop = min(first + limit, last)
    covered = table.offsets[stop] if stop < last else until
    span = slice(first, stop)
    return Records(start, covered, table.offsets[span], table.keys[span], table.values[span])


def standings(tables: MemoryTables) -> list[UnitStanding]:
    """Where every unit stands, by namespace and partition."""
    with tables.lock:
        return [
            _standing(tables, Unit(name, partition))
            for name, table in sorted(tables.namespaces.items())
            for partition in range(table.info.partitions)
        ]


def _standing(tables: MemoryTables, unit: Unit) -> UnitStanding:
    info = tables.namespace(unit.namespace).info
    log = tables.sources.get(info.source)
    there = log is not None and unit.partition < len(log.partitions)
    return UnitStanding(
        unit,
        info.source,
        info.follows,
        bound=log is not None and log.incarnation == info.incarnation,
        extent=log.partitions[unit.partition].extent if log is not None and there else None,
        first_offset=info.first_offsets[unit.partition],
        progress=tables.unit(unit).progress,
        output_end=len(tables.output(unit).rows),
        holder=next(
            (tables.holders[unit, role] for role in Role if (unit, role) in tables.holders), None
        ),
    )


def _candidates(unit: UnitTable) -> list[tuple[int, str, Candidate]]:
    in_force = [
        (key, txn_id, authority.candidate)
        for key, authorities in unit.authorities.items()
        for txn_id, authority in authorities.items()
    ]
    others = [
        (each.key, each.txn_id, each.candidate)
        for observations in unit.observations.values()
        for each in observations
    ]
    return in_force + others
