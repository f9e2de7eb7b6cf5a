"""Rows that readers see, written as columns, each only over what it moves on from.

An output whose lowest version in the batch is 1 is new: its row is inserted, and if there is one
already, the table's key says so. Any other has a row, and is updated if its version is lower: if
fewer rows than expected are found, something is in the way. So nothing is looked up before.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from psycopg.errors import UniqueViolation

from amends_pipeline.inventory.envelope_columns import Integers
from amends_pipeline.inventory.view_batch import Moves
from amends_pipeline.store import arrays, packing
from amends_pipeline.store.bulk import COPY_ROWS
from amends_pipeline.store.postgres import Connection, Cursor, Unmet
from amends_pipeline.store.view_rows import ROWS, SAVE_REASONS

LONGEST_TEXT: Final = 600
"""Characters of a transaction id. Where a longer one is among them, this way is not taken."""

INSERT_ROWS: Final = """
INSERT INTO amends.view_row (unit_id, family, key, day, type, version, close, cause_offset,
    cause_txn_id, cause_revision)
SELECT %s, * FROM unnest(%s::int2[], %s::int4[], %s::int4[], %s::int2[], %s::int8[], %s::int8[],
    %s::int8[], %s::text[], %s::int8[])
"""
# Arrays that are taken apart in a list of columns need no room for their rows on the way.
UPDATE_ROWS: Final = """
UPDATE amends.view_row v SET type = w.type, version = w.version, close = w.close,
    cause_offset = w.cause_offset, cause_txn_id = w.cause_txn_id,
    cause_revision = w.cause_revision, reason_txn_ids = NULL, reason_revisions = NULL
FROM (
    SELECT unnest(%s::int2[]) AS family, unnest(%s::int4[]) AS key, unnest(%s::int4[]) AS day,
        unnest(%s::int2[]) AS type, unnest(%s::int8[]) AS version, unnest(%s::int8[]) AS close,
        unnest(%s::int8[]) AS cause_offset, unnest(%s::text[]) AS cause_txn_id,
        unnest(%s::int8[]) AS cause_revision, unnest(%s::int8[]) AS above
) w
WHERE v.unit_id = %s AND v.family = w.family AND v.key = w.key AND v.day = w.day
    AND v.version < w.above
"""


def save(connection: Connection, unit_id: int, moves: Moves) -> None:
    """Store rows, their reasons apart. Raises Unmet when one of them may have to stay out."""
    if max(map(len, moves.cause_txn_ids), default=0) > LONGEST_TEXT:
        raise Unmet
    new = moves.above == 1
    inserted, updated = np.flatnonzero(new), np.flatnonzero(~new)
    found: Cursor | None = None
    try:
        if len(inserted) >= COPY_ROWS:
            _copy(connection, unit_id, moves, inserted)
            inserted = inserted[:0]
        with connection.pipeline():
            if len(inserted):
                connection.execute(INSERT_ROWS, (unit_id, *_columns(moves, inserted)))
            if len(updated):
                above = arrays.int8s(moves.above[updated])
                found = connection.execute(UPDATE_ROWS, (*_columns(moves, updated), above, unit_id))
    except UniqueViolation:
        raise Unmet from None
    if found is not None and found.rowcount != len(updated):
        raise Unmet


def save_reasons(connection: Connection, unit_id: int, moves: Moves) -> None:
    """Store the reasons of rows that are stored."""
    for at, reasons in moves.reasons.items():
        txn_ids, revisions = zip(*reasons, strict=True)
        output = int(moves.families[at]), int(moves.keys[at]), int(moves.days[at])
        told = arrays.texts(txn_ids), arrays.int8s(revisions)
        connection.execute(SAVE_REASONS, (*told, unit_id, *output))


def _copy(connection: Connection, unit_id: int, moves: Moves, at: Integers) -> None:
    causes = moves.cause_index[at]
    numbers = [
        moves.versions[at],
        moves.closes[at],
        moves.cause_offsets[causes],
        moves.cause_revisions[causes],
        np.full(len(at), unit_id),
        moves.keys[at],
        moves.days[at],
        moves.families[at],
        moves.types[at],
    ]
    ROWS.copy_arrays(
        connection, numbers, packing.Texts.of_strings(moves.cause_txn_ids).take(causes)
    )


def _columns(moves: Moves, at: Integers) -> tuple[arrays.Array, ...]:
    causes = moves.cause_index[at]
    return (
        arrays.int2s(moves.families[at]),
        arrays.int4s(moves.keys[at]),
        arrays.int4s(moves.days[at]),
        arrays.int2s(moves.types[at]),
        arrays.int8s(moves.versions[at]),
        arrays.int8s(moves.closes[at]),
        arrays.int8s(moves.cause_offsets[causes]),
        arrays.texts_at(moves.cause_txn_ids, causes),
        arrays.int8s(moves.cause_revisions[causes]),
    )
