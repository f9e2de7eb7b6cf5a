"""The same facts the slow way: the whole history at once, in another engine.

The oracle reads raw source records, the declared set-asides and the configuration, and nothing
else. It knows no slice, no earlier result and no version. With the path that it judges it shares
what a configuration means and how bytes decode (`config`, `revision_columns`, the kernel).
Rejection codes, authority, days, closes and crossings are decided again here, in SQL. A test and an
import contract hold that boundary.

How numbers stay exact: columns go in as arrays of 64-bit integers, sums of them are DuckDB's
128-bit integers, and what comes out was cast back to 64 bits and is checked to be so, because
DuckDB hands 128-bit integers to numpy as floats. Instants are day numbers and nanoseconds; no
column has a time type, so that no session zone decides a day. Texts compare by their UTF-8 bytes.

The result is about the end of the history only. A key whose authority is in conflict has its status
and reasons and no rows: which rows it froze with depends on the order of arrival.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import duckdb
import numpy as np
import numpy.typing as npt

from amends_pipeline.inventory.config import NamespaceConfig
from amends_pipeline.inventory.oracle_input import Chunk, History, OracleError, RawBatch, chunks
from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.instants import MAX_DAY, MIN_DAY, day_text
from amends_pipeline.kernel.integers import MAX_INT64, MIN_INT64

__all__ = [
    "Conflict",
    "DayRows",
    "History",
    "OracleError",
    "OracleResult",
    "RawBatch",
    "Rejected",
    "compute",
]

IntegerColumn = npt.NDArray[np.int64]
Reasons = tuple[tuple[str, int], ...]
"""Conflicts at highest revisions, (txn_id, revision), by the bytes of txn_id, then revision."""

_BAND = 4_000_000  # records of the keys that are worked out together; bounds what grouping needs

_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    # Nothing outside the process is read or written, the folder for overflowing memory included.
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
    "temp_directory": "",
}

_TABLES = """
CREATE TABLE configured (
    key BIGINT, item VARCHAR, location VARCHAR, opening BIGINT, threshold BIGINT, partition BIGINT
);
CREATE TABLE expected_keys (key BIGINT, raw_key BLOB);
CREATE TABLE found_keys (position BIGINT, raw_key BLOB);
CREATE TABLE accepted (
    key BIGINT, txn_id VARCHAR, revision BIGINT, kind ENUM ('NEW', 'AMEND', 'CANCEL'),
    day BIGINT, nanosecond BIGINT, qty BIGINT
);
CREATE TABLE conflicts (key BIGINT, txn_id VARCHAR, revision BIGINT, in_force BOOLEAN);
CREATE TABLE closes (key BIGINT, day BIGINT, threshold BIGINT, opening BIGINT, close HUGEINT)
"""

# The order of the conditions is the contract's.
_CLASSIFIED = """
(SELECT chunk.*, configured.key, CASE
    WHEN chunk.set_aside THEN 'SET_ASIDE'
    WHEN NOT chunk.decoded THEN 'MALFORMED'
    WHEN chunk.txn_id = '' OR chunk.item = '' OR chunk.location = '' THEN 'IDENTITY'
    WHEN chunk.revision < 1 THEN 'REVISION'
    WHEN chunk.kind NOT IN ('NEW', 'AMEND', 'CANCEL') THEN 'KIND'
    WHEN chunk.kind = 'CANCEL' AND chunk.qty <> 0 THEN 'CANCEL_QUANTITY'
    WHEN chunk.valid_day NOT BETWEEN $first_day AND $last_day THEN 'VALID_TIME'
    WHEN chunk.valid_day < $origin_day THEN 'VALID_TIME'
    WHEN chunk.valid_day = $origin_day
        AND chunk.valid_nanosecond < $origin_nanosecond THEN 'VALID_TIME'
    WHEN configured.key IS NULL THEN 'UNKNOWN_KEY'
    WHEN found_keys.raw_key <> expected_keys.raw_key THEN 'KEY_MISMATCH'
    WHEN configured.partition <> $partition THEN 'ROUTING'
END AS code
FROM chunk
LEFT JOIN configured USING (item, location)
LEFT JOIN expected_keys USING (key)
LEFT JOIN found_keys USING (position))
"""
_ACCEPT = f"""
INSERT INTO accepted
SELECT key, txn_id, revision, kind, valid_day, valid_nanosecond, qty
FROM {_CLASSIFIED} WHERE code IS NULL
"""  # noqa: S608 - a constant
_REJECTED = f"""
SELECT position, code FROM {_CLASSIFIED} WHERE code IS NOT NULL ORDER BY position
"""  # noqa: S608 - a constant

# A transaction of which one record tells is that record, without comparing.
_REPEATED = """
CREATE OR REPLACE TEMP TABLE repeated AS
SELECT key, txn_id FROM accepted
WHERE key % $bands = $band
GROUP BY key, txn_id HAVING count(*) > 1
"""
# Tuples are all equal exactly when each of their members is.
_REVISIONS = """
CREATE OR REPLACE TEMP TABLE revisions AS
SELECT key, txn_id, revision, min(kind) AS kind, min(day) AS day, min(qty) AS qty,
    min(kind) <> max(kind) OR min(day) <> max(day)
        OR min(nanosecond) <> max(nanosecond) OR min(qty) <> max(qty) AS in_conflict
FROM accepted SEMI JOIN repeated USING (key, txn_id)
GROUP BY key, txn_id, revision
"""
_AUTHORITIES = """
CREATE OR REPLACE TEMP TABLE authorities AS
SELECT key, txn_id, max(revision) AS revision,
    arg_max(kind, revision) AS kind, arg_max(day, revision) AS day,
    arg_max(qty, revision) AS qty, arg_max(in_conflict, revision) AS in_conflict
FROM revisions
GROUP BY key, txn_id
"""
_CONFLICTS = """
INSERT INTO conflicts
SELECT key, txn_id, revisions.revision, revisions.revision = authorities.revision
FROM revisions JOIN authorities USING (key, txn_id)
WHERE revisions.in_conflict
"""
_CLOSES = """
INSERT INTO closes
WITH said AS (
    SELECT key, day, kind, qty FROM authorities
    UNION ALL
    SELECT key, day, kind, qty FROM accepted ANTI JOIN repeated USING (key, txn_id)
    WHERE key % $bands = $band
), totals AS (
    SELECT key, day, sum(qty) AS total
    FROM said
    WHERE kind <> 'CANCEL' AND key NOT IN (SELECT key FROM authorities WHERE in_conflict)
    GROUP BY key, day
)
SELECT key, day, threshold, opening, opening::HUGEINT
    + sum(total) OVER (PARTITION BY key ORDER BY day ROWS UNBOUNDED PRECEDING)
FROM totals JOIN configured USING (key)
"""
_EXCESS = """
SELECT key, day, close FROM closes
WHERE close NOT BETWEEN $lowest AND $highest
ORDER BY key, day LIMIT 1
"""
_BALANCES = "SELECT key, day, close::BIGINT AS close FROM closes ORDER BY key, day"
_ALERTS = """
SELECT key, day, close::BIGINT AS close FROM (
    SELECT key, day, threshold, close,
        lag(close, 1, opening::HUGEINT) OVER (PARTITION BY key ORDER BY day) AS before
    FROM closes
)
WHERE before >= threshold AND close < threshold
ORDER BY key, day
"""
_TOUCHED = "SELECT DISTINCT key FROM accepted ORDER BY key"
_ALL_CONFLICTS = "FROM conflicts ORDER BY key, txn_id, revision"


@dataclass(frozen=True, slots=True)
class DayRows:
    """Facts by key and day, as columns of equal length."""

    keys: IntegerColumn
    """Key numbers of the configuration."""
    days: IntegerColumn
    """Days since 1970-01-01."""
    closes: IntegerColumn

    def rows(self) -> Iterator[tuple[int, int, int]]:
        """Each (key number, day, close), as Python integers."""
        return zip(self.keys.tolist(), self.days.tolist(), self.closes.tolist(), strict=True)


class Rejected(NamedTuple):
    """A record that must stand in quarantine, byte for byte."""

    partition: int
    offset: int
    code: str
    raw_key: bytes | None
    value: bytes


class Conflict(NamedTuple):
    """A revision that says two things."""

    key: int
    txn_id: str
    revision: int


@dataclass(frozen=True, slots=True)
class OracleResult:
    """What must be true after the whole history. Keys are key numbers; all rows are in order."""

    balances: DayRows
    """Of keys that are not blocked, as the alerts are."""
    alerts: DayRows
    statuses: Mapping[int, Reasons]
    """Of the keys that an accepted record touched, in order; no reasons means READY."""
    rejections: Sequence[Rejected]
    """In the order of the histories, then of offsets."""
    conflicts: Sequence[Conflict]
    """All of them, superseded ones too, by key, bytes of txn_id, and revision."""

    def blocked(self) -> list[int]:
        """The numbers of the keys that have no rows because they are BLOCKED."""
        return [key for key, reasons in self.statuses.items() if reasons]


def compute(config: NamespaceConfig, histories: Iterable[History]) -> OracleResult:
    """Compute what readers must see once all records of `histories` are processed.

    Raises `OracleError` when a close of a READY key does not fit a signed 64-bit integer, when the
    offsets of a partition do not grow, or when the engine gives up. What reading a history raises
    passes.
    """
    try:
        with duckdb.connect(config=_SETTINGS) as engine:
            _load_keys(engine, config)
            rejections = [each for history in histories for each in _load(engine, config, history)]
            return _result(engine, config, rejections)
    except duckdb.Error as error:
        raise OracleError("oracle", expected="an answer", found=shown(str(error))) from error


def _load_keys(engine: duckdb.DuckDBPyConnection, config: NamespaceConfig) -> None:
    engine.execute(_TABLES)
    stock_keys, openings, thresholds, partitions = zip(*config.keys, strict=True)
    items, locations = zip(*stock_keys, strict=True)
    columns = {
        "key": np.arange(len(config.keys), dtype=np.int64),
        "item": _column(items, np.object_),
        "location": _column(locations, np.object_),
        "opening": _column(openings, np.int64),
        "threshold": _column(thresholds, np.int64),
        "partition": _column(partitions, np.int64),
    }
    _insert(engine, "configured", columns)


def _load(
    engine: duckdb.DuckDBPyConnection, config: NamespaceConfig, history: History
) -> Iterator[Rejected]:
    """Put the accepted records of a partition into the engine; yield the others."""
    parameters = {
        "first_day": MIN_DAY,
        "last_day": MAX_DAY,
        "origin_day": config.origin.day,
        "origin_nanosecond": config.origin.nanosecond,
        "partition": history.partition,
    }
    for chunk in chunks(history):
        _load_raw_keys(engine, config, chunk)
        engine.register("chunk", chunk.columns(history.set_asides))
        ((accepted,),) = engine.execute(_ACCEPT, parameters).fetchall()
        rejected = []
        if accepted < len(chunk):
            rejected = engine.execute(_REJECTED, parameters).fetchall()
        engine.unregister("chunk")
        for position, code in rejected:
            offset, raw_key, value = chunk.record(position)
            yield Rejected(history.partition, offset, code, raw_key, value)


def _load_raw_keys(
    engine: duckdb.DuckDBPyConnection, config: NamespaceConfig, chunk: Chunk
) -> None:
    """Load the transport keys that a chunk has, and once those that it should have."""
    engine.execute("DELETE FROM found_keys")
    found = chunk.raw_keys()
    if not found:
        return
    _insert(engine, "found_keys", _raw_key_columns("position", found))
    if not engine.execute("FROM expected_keys LIMIT 1").fetchall():
        expected = {at: key.stock_key.encoded.encode() for at, key in enumerate(config.keys)}
        _insert(engine, "expected_keys", _raw_key_columns("key", expected))


def _raw_key_columns(name: str, raw_keys: Mapping[int, bytes]) -> dict[str, npt.NDArray[Any]]:
    numbers = np.fromiter(raw_keys, np.int64, len(raw_keys))
    return {name: numbers, "raw_key": _column([*raw_keys.values()], np.object_)}


def _insert(
    engine: duckdb.DuckDBPyConnection, table: str, columns: Mapping[str, npt.NDArray[Any]]
) -> None:
    engine.register("chunk", columns)
    engine.execute(f"INSERT INTO {table} BY NAME SELECT * FROM chunk")  # noqa: S608 - our own names
    engine.unregister("chunk")


def _column(values: Sequence[object], kind: type[np.int64 | np.object_]) -> npt.NDArray[Any]:
    return np.fromiter(values, kind, len(values))


def _result(
    engine: duckdb.DuckDBPyConnection, config: NamespaceConfig, rejections: list[Rejected]
) -> OracleResult:
    ((accepted,),) = engine.execute("SELECT count(*) FROM accepted").fetchall()
    bands = accepted // _BAND + 1
    for band in range(bands):
        part = {"bands": bands, "band": band}
        engine.execute(_REPEATED, part)
        for statement in (_REVISIONS, _AUTHORITIES, _CONFLICTS):
            engine.execute(statement)
        engine.execute(_CLOSES, part)
    _refuse_excess(engine, config)
    conflicts = engine.execute(_ALL_CONFLICTS).fetchall()
    touched = engine.execute(_TOUCHED).fetchall()
    reasons: dict[int, list[tuple[str, int]]] = {key: [] for (key,) in touched}
    for key, txn_id, revision, in_force in conflicts:
        if in_force:
            reasons[key].append((txn_id, revision))
    return OracleResult(
        balances=_day_rows(engine, _BALANCES),
        alerts=_day_rows(engine, _ALERTS),
        statuses={key: tuple(each) for key, each in reasons.items()},
        rejections=rejections,
        conflicts=[Conflict(*row) for *row, _ in conflicts],
    )


def _refuse_excess(engine: duckdb.DuckDBPyConnection, config: NamespaceConfig) -> None:
    bounds = {"lowest": MIN_INT64, "highest": MAX_INT64}
    for key, day, close in engine.execute(_EXCESS, bounds).fetchall():
        item, location = config.keys[key].stock_key
        raise OracleError(
            f"oracle, item {shown(item)} at location {shown(location)} on {day_text(day)}",
            expected="a close that fits a signed 64-bit integer",
            found=str(close),
        )


def _day_rows(engine: duckdb.DuckDBPyConnection, query: str) -> DayRows:
    columns = engine.execute(query).fetchnumpy()
    return DayRows(*(_exact(columns, name) for name in ("key", "day", "close")))


def _exact(columns: Mapping[str, object], name: str) -> IntegerColumn:
    column = columns[name]
    if isinstance(column, np.ndarray) and column.dtype == np.int64 and not np.ma.is_masked(column):
        return column
    found = f"{name} as {getattr(column, 'dtype', type(column))}"
    raise OracleError("oracle", expected="columns of 64-bit integers", found=found)
