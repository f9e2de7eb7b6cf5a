"""One consistent look at a namespace: every statement sees what one moment had committed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from amends_pipeline.inventory.classify import Code
from amends_pipeline.inventory.config import NamespaceConfig, StockKey
from amends_pipeline.inventory.envelope import FAMILY_OF, VISIBLE, Envelope, Type
from amends_pipeline.inventory.slice import Records, Rejection
from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import DatabaseUnavailable, InputError, UnknownNamespace
from amends_pipeline.ports import (
    OF_DAYS,
    ConflictRef,
    DayColumns,
    Extent,
    NamespaceInfo,
    Progress,
    Quarantined,
    SetAside,
    Unit,
)
from amends_pipeline.store import source_segments, view_rows
from amends_pipeline.store.configurations import as_stored, believed
from amends_pipeline.store.namespaces import Home
from amends_pipeline.store.ownership import read_progress
from amends_pipeline.store.postgres import Connection, Cursor

_Each = TypeVar("_Each")

RUN_RECORDS: Final = 10_000
"""Source records handed out together."""
ROWS_AT_ONCE: Final = 10_000
"""Rows that a server-side cursor sends at a time."""
REJECTIONS_AT_ONCE: Final = 20
"""They hold values, which are long where a value is wrong on purpose."""

SELECT_INFO: Final = "SELECT follows FROM amends.namespace WHERE id = %s"
SELECT_OUTPUT_ENDS: Final = """
SELECT e.end_offset FROM amends.output_end e JOIN amends.unit u ON u.id = e.unit_id
WHERE u.namespace_id = %s ORDER BY u.partition
"""
SELECT_SET_ASIDES: Final = """
SELECT source_offset, reason FROM amends.set_aside WHERE unit_id = %s ORDER BY source_offset
"""
# Families are numbered by name and keys by encoded key, so ids sort as their texts do. The families
# say nothing that the types do not say, but there is an index of them.
SELECT_VISIBLE: Final = f"""
SELECT v.unit_id, v.family, {view_rows.COLUMNS} FROM amends.view_row v
WHERE v.unit_id = ANY(%s) AND v.family = ANY(%s) AND v.type = ANY(%s)
ORDER BY v.family, v.key, v.day
"""  # noqa: S608 - columns of a constant
SELECT_QUARANTINE: Final = """
SELECT u.partition, q.source_offset, q.code, q.raw_key, q.value
FROM amends.quarantine q JOIN amends.unit u ON u.id = q.unit_id
WHERE q.unit_id = ANY(%s) ORDER BY u.partition, q.source_offset
"""
# Three integers a row, those of 256 keys side by side in one byte string: a row of its own costs
# more than what it holds. Each is as long as its column, the highest byte first.
SELECT_DAYS: Final = f"""
SELECT v.type, v.unit_id,
    string_agg(int4send(v.key) || int4send(v.day) || int8send(v.close), ''::bytea)
FROM amends.view_row v
WHERE v.unit_id = ANY(%s)
    AND (v.family, v.type) IN ({", ".join(f"({FAMILY_OF[kind]:d}, {kind:d})" for kind in OF_DAYS)})
GROUP BY v.type, v.unit_id, v.key / 256
"""  # noqa: S608 - numbers of constants
DAY_ROW: Final = np.dtype([("key", ">i4"), ("day", ">i4"), ("close", ">i8")])
# Two records make a conflict, so at least one of them is an observation: either two observations
# differ, or one of them differs from what is in force.
# Of tables without statistics the planner thinks that a loop over all rows of a key is cheap.
NESTED_LOOPS: Final = {
    "off": "SET LOCAL enable_nestloop = off",
    "on": "SET LOCAL enable_nestloop = on",
}
SELECT_CONFLICTS: Final = """
SELECT unit_id, key, txn_id, revision
FROM (
    SELECT unit_id, key, txn_id, revision
    FROM amends.observation WHERE unit_id = ANY(%s)
    GROUP BY unit_id, key, txn_id, revision
    HAVING min(kind) <> max(kind) OR min(day) <> max(day)
        OR min(nanosecond) <> max(nanosecond) OR min(qty) <> max(qty)
    UNION
    SELECT o.unit_id, o.key, o.txn_id, o.revision
    FROM amends.observation o JOIN amends.authority a ON a.unit_id = o.unit_id AND a.key = o.key
        AND coalesce(a.long_txn_id, a.txn_id) = o.txn_id AND a.revision = o.revision
    WHERE o.unit_id = ANY(%s)
        AND (o.kind, o.day, o.nanosecond, o.qty) <> (a.kind, a.day, a.nanosecond, a.qty)
) c
ORDER BY key, txn_id COLLATE "C", revision
"""


def _code(partition: int, offset: int, told: str) -> Code:
    """A stored code. Raises DatabaseUnavailable when it is none."""
    try:
        return Code(told)
    except ValueError:
        raise DatabaseUnavailable(
            f"stored quarantine of partition {partition}, offset {offset}",
            expected="a code",
            found=shown(told),
        ) from None


class PostgresSnapshot:
    """A `Snapshot` over a connection whose transaction has one view of the database."""

    def __init__(self, connection: Connection, home: Home) -> None:
        self._connection = connection
        self._home = home
        self._cursors = 0
        # The first statement fixes the moment.
        row = self._rows(SELECT_INFO, home.id).fetchone()
        if row is None:  # it was removed since it was looked up
            raise UnknownNamespace(home.info.namespace)
        self._info = home.info._replace(follows=row[0])

    def info(self) -> NamespaceInfo:
        """What was provisioned."""
        return self._info

    def config(self) -> NamespaceConfig:
        """The configuration that was provisioned, if it is the one that is there."""
        return believed(self._config, self._info)

    def config_as_stored(self) -> NamespaceConfig:
        """The configuration that is there now."""
        return self._config

    def source_incarnation(self) -> str:
        """The id of the source log that is there now. Raises InputError when there is none."""
        return source_segments.find(self._connection, self._info.source).incarnation

    def source_extents(self) -> Sequence[Extent]:
        """What the source retains, by partition."""
        return source_segments.find(self._connection, self._info.source).extents

    def output_ends(self) -> Sequence[int]:
        """The output log's ends, by partition."""
        ends = [end for (end,) in self._rows(SELECT_OUTPUT_ENDS, self._home.id)]
        return self._of_all(ends, "ends of the output log")

    def progress(self) -> Sequence[Progress]:
        """Where the roles stand, by partition."""
        return self._of_all(read_progress(self._connection, self._home.units), "progress")

    def records(self, partition: int, start: int, until: int) -> Iterator[Records]:
        """Raw source records in runs."""
        source = self._info.source
        while True:
            wanted = source_segments.Range(partition, start, until)
            run = source_segments.read(self._connection, source, wanted, RUN_RECORDS)
            yield run
            start = run.until
            if start >= until:
                return

    def set_asides(self, partition: int) -> Sequence[SetAside]:
        """Declared records by offset."""
        return read_set_asides(self._connection, self._unit(partition))

    def visible(self, types: Iterable[Type] = VISIBLE) -> Iterator[Envelope]:
        """Rows that readers see, in the order of their encoded ids."""
        kinds = sorted(types)
        families = sorted({FAMILY_OF[kind] for kind in kinds})
        wanted = ([*map(int, families)], [*map(int, kinds)])
        rows = self._stream(SELECT_VISIBLE, list(self._home.units), *wanted)
        homes = dict(enumerate(self._unit_ids[:-1].tolist()))
        return (
            view_rows.envelope(row)
            for unit_id, family, *row in rows
            if homes.get(row[0]) == unit_id and FAMILY_OF[row[1]] == family
        )

    def visible_days(self) -> Mapping[Type, DayColumns]:
        """Alerts and balances that readers see, as columns."""
        parts: dict[Type, list[NDArray[Any]]] = {kind: [] for kind in OF_DAYS}
        for kind, unit_id, joined in self._rows(SELECT_DAYS, list(self._home.units)):
            rows = np.frombuffer(joined, DAY_ROW)
            parts[Type(kind)].append(rows[self._at_home(unit_id, rows["key"])])
        return {kind: _day_columns(found) for kind, found in parts.items()}

    def quarantine(self) -> Iterator[Quarantined]:
        """Rejected records by partition and offset."""
        units = list(self._home.units)
        rows = self._stream(SELECT_QUARANTINE, units, at_once=REJECTIONS_AT_ONCE)
        return (
            Quarantined(
                partition, Rejection(offset, _code(partition, offset, code), raw_key, value)
            )
            for partition, offset, code, raw_key, value in rows
        )

    def conflicts(self) -> Iterator[ConflictRef]:
        """Revisions with more than one candidate, in key and identity order."""
        units = list(self._home.units)
        self._connection.execute(NESTED_LOOPS["off"])
        # No cursor: what is declared as one is worked out by one process, and few rows come out.
        rows = self._rows(SELECT_CONFLICTS, units, units)
        self._connection.execute(NESTED_LOOPS["on"])
        return (
            ConflictRef(*self._stock_key(unit_id, key), txn_id, revision)
            for unit_id, key, txn_id, revision in rows
        )

    def _stock_key(self, unit_id: int, key: int) -> StockKey:
        """The stock key of a number, if it is one of a unit. Raises DatabaseUnavailable."""
        if not self._at_home(unit_id, np.array([key]))[0]:
            partition = self._home.units.index(unit_id)
            where = f"stored evidence of {Unit(self._info.namespace, partition)}"
            found = f"key number {key}"
            raise DatabaseUnavailable(where, expected="keys of that partition", found=found)
        return self._config.keys[key].stock_key

    @cached_property
    def _config(self) -> NamespaceConfig:
        return as_stored(self._connection, self._home.id, self._info)

    def _of_all(self, rows: list[_Each], what: str) -> list[_Each]:
        """Rows of each unit, if none is missing. Raises DatabaseUnavailable."""
        units = len(self._home.units)
        if len(rows) != units:
            where = f"stored {what} of namespace {self._info.namespace}"
            expected = f"that of {units} partitions"
            raise DatabaseUnavailable(where, expected=expected, found=f"that of {len(rows)}")
        return rows

    @cached_property
    def _unit_ids(self) -> NDArray[np.int64]:
        """The unit of each key by number, and none behind them."""
        units = [self._home.units[partition] for partition in self._config.placements]
        return np.array([*units, 0], dtype=np.int64)

    def _at_home(self, unit_id: int, keys: NDArray[Any]) -> NDArray[np.bool_]:
        """Tell which key numbers are of a unit. Readers see a key's rows in its own unit only."""
        # Whatever is no number of a key, one below 0 too, is the last of all here.
        numbers = np.minimum(keys.astype(np.uint64), len(self._unit_ids) - 1)
        at_home: NDArray[np.bool_] = self._unit_ids[numbers] == unit_id
        return at_home

    def _unit(self, partition: int) -> int:
        units = self._home.units
        if not 0 <= partition < len(units):
            expected = f"a partition from 0 to {len(units) - 1}"
            where = f"namespace {self._info.namespace}"
            raise InputError(where, expected=expected, found=str(partition))
        return units[partition]

    def _rows(self, statement: str, *parameters: object) -> Cursor:
        return self._connection.execute(statement, parameters, binary=True)

    def _stream(
        self, statement: str, *parameters: object, at_once: int = ROWS_AT_ONCE
    ) -> Iterator[tuple[Any, ...]]:
        self._cursors += 1
        with self._connection.cursor(f"rows{self._cursors}") as cursor:
            cursor.itersize = at_once
            cursor.execute(statement, parameters, binary=True)
            yield from cursor


def _day_columns(parts: Sequence[NDArray[Any]]) -> DayColumns:
    rows = np.concatenate([np.empty(0, DAY_ROW), *parts])
    return DayColumns(*(rows[name].astype(np.int64) for name in ("key", "day", "close")))


def read_set_asides(connection: Connection, unit_id: int) -> list[SetAside]:
    """Declared records of a unit by offset."""
    rows = connection.execute(SELECT_SET_ASIDES, (unit_id,), binary=True)
    return [SetAside(*row) for row in rows]
