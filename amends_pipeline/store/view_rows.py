"""The rows that readers see, and the withdrawn ones that keep older statements out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from amends_pipeline.inventory.envelope import Cause, Envelope, OutputId, Reasons
from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import DatabaseUnavailable
from amends_pipeline.store import arrays
from amends_pipeline.store.bulk import COPY_ROWS, INT2, INT4, INT8, TEXT, Table, runs
from amends_pipeline.store.postgres import Connection

COLUMNS: Final = (
    "v.key, v.type, v.day, v.version, v.close, v.cause_offset, v.cause_txn_id, v.cause_revision,"
    " v.reason_txn_ids, v.reason_revisions"
)
"""Columns of `amends.view_row` in the order of `envelope`."""

# OFFSET 0 keeps the planner from turning the loop inside out while it knows nothing of the table.
SELECT_ROWS: Final = f"""
SELECT w.family, r.* FROM unnest(%s::int2[], %s::int4[], %s::int4[]) AS w (family, key, day)
CROSS JOIN LATERAL (
    SELECT {COLUMNS} FROM amends.view_row v
    WHERE v.unit_id = %s AND v.family = w.family AND v.key = w.key AND v.day = w.day OFFSET 0
) r
"""  # noqa: S608 - columns of this file
SAVE_ROWS: Final = """
INSERT INTO amends.view_row (unit_id, family, key, day, type, version, close, cause_offset,
    cause_txn_id, cause_revision)
SELECT %s, * FROM unnest(%s::int2[], %s::int4[], %s::int4[], %s::int2[], %s::int8[], %s::int8[],
    %s::int8[], %s::text[], %s::int8[])
ON CONFLICT (unit_id, family, key, day) DO UPDATE SET type = excluded.type,
    version = excluded.version, close = excluded.close, cause_offset = excluded.cause_offset,
    cause_txn_id = excluded.cause_txn_id, cause_revision = excluded.cause_revision,
    reason_txn_ids = NULL, reason_revisions = NULL
"""
SAVE_REASONS: Final = """
UPDATE amends.view_row SET reason_txn_ids = %s::text[], reason_revisions = %s::int8[]
WHERE unit_id = %s AND family = %s AND key = %s AND day = %s
"""
ROWS: Final = Table(
    "amends.view_row",
    {
        "version": INT8,
        "close": INT8,
        "cause_offset": INT8,
        "cause_revision": INT8,
        "unit_id": INT4,
        "key": INT4,
        "day": INT4,
        "family": INT2,
        "type": INT2,
        "cause_txn_id": TEXT,
    },
)
DELETE_ROWS: Final = "DELETE FROM amends.view_row WHERE unit_id = %s"


def load_rows(
    connection: Connection, unit_id: int, outputs: Iterable[OutputId]
) -> Mapping[OutputId, Envelope]:
    """Rows of the given ids that are stored."""
    asked = list(outputs)
    if not asked:
        return {}
    wanted = _ids(asked)
    rows = connection.execute(SELECT_ROWS, (*wanted, unit_id), binary=True)
    return {OutputId(family, row[0], row[2]): envelope(row) for family, *row in rows.fetchall()}


def envelope(row: Sequence[Any]) -> Envelope:
    """Read `COLUMNS`."""
    key, kind, day, version, close, offset, txn_id, revision, txn_ids, revisions = row
    reasons = _paired(key, day, txn_ids, revisions) if txn_ids or revisions else ()
    return Envelope(key, kind, day, version, close, Cause(offset, txn_id, revision), reasons)


def _paired(key: int, day: int, txn_ids: Any, revisions: Any) -> Reasons:  # noqa: ANN401 - as they are stored
    """Reasons from their columns. Raises DatabaseUnavailable when those do not belong together."""
    told = [list(each or ()) for each in (txn_ids, revisions)]
    if len(told[0]) != len(told[1]) or None in told[0] + told[1]:
        raise DatabaseUnavailable(
            f"stored view row of key {key}, day {day}",
            expected="a transaction and a revision for each reason",
            found=shown(f"{told[0]} and {told[1]}"),
        )
    return tuple(zip(*told, strict=True))


class ViewWrites:
    """Rows to be stored in place of what is stored of their ids.

    A row of version 1 takes nobody's place, because no version is lower; where there are many of
    them they are copied, which no pipeline can take along.
    """

    def __init__(self, rows: Mapping[OutputId, Envelope]) -> None:
        self._rows = rows
        fresh = {output: row for output, row in rows.items() if row.version == 1}
        self._copied = fresh if len(fresh) >= COPY_ROWS else {}

    def copy(self, connection: Connection, unit_id: int) -> None:
        """Copy what is copied, outside a pipeline."""
        if not self._copied:
            return
        outputs, envelopes = list(self._copied), list(self._copied.values())
        causes = [each.cause for each in envelopes]
        columns: list[Sequence[Any]] = [
            [each.version for each in envelopes],
            [each.close for each in envelopes],
            [cause.offset for cause in causes],
            [cause.revision for cause in causes],
            [unit_id] * len(outputs),
            [output.key for output in outputs],
            [output.day for output in outputs],
            [output.family for output in outputs],
            [each.type for each in envelopes],
            [cause.txn_id for cause in causes],
        ]
        ROWS.copy(connection, columns)

    def save(self, connection: Connection, unit_id: int) -> None:
        """Store the others, and all reasons."""
        rows = self._rows
        if self._copied:
            rows = {each: row for each, row in rows.items() if each not in self._copied}
        outputs, envelopes = list(rows), list(rows.values())
        for part in runs([4 * len(each.cause.txn_id) for each in envelopes]):
            if envelopes:
                columns = _columns(outputs[part], envelopes[part])
                connection.execute(SAVE_ROWS, (unit_id, *columns))
        for output, *reasons in _reasons(self._rows):
            connection.execute(SAVE_REASONS, (*reasons, unit_id, *output))


def _columns(
    outputs: Sequence[OutputId], envelopes: Sequence[Envelope]
) -> tuple[arrays.Array, ...]:
    causes = [each.cause for each in envelopes]
    return (
        *_ids(outputs),
        arrays.int2s([each.type for each in envelopes]),
        arrays.int8s([each.version for each in envelopes]),
        arrays.int8s([each.close for each in envelopes]),
        arrays.int8s([cause.offset for cause in causes]),
        arrays.texts([cause.txn_id for cause in causes]),
        arrays.int8s([cause.revision for cause in causes]),
    )


def _ids(outputs: Sequence[OutputId]) -> tuple[arrays.Int2s, arrays.Int4s, arrays.Int4s]:
    return (
        arrays.int2s([output.family for output in outputs]),
        arrays.int4s([output.key for output in outputs]),
        arrays.int4s([output.day for output in outputs]),
    )


def _reasons(
    rows: Mapping[OutputId, Envelope],
) -> Iterator[tuple[OutputId, arrays.Texts, arrays.Int8s]]:
    for output, row in rows.items():
        if row.reasons:
            txn_ids, revisions = zip(*row.reasons, strict=True)
            yield output, arrays.texts(txn_ids), arrays.int8s(revisions)
