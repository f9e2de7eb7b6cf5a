"""Evidence of many records, read and written as columns: what `evidence.py` does one by one.

Rows that are copied go in the order of their keys, so that neighbours in the table's index are
written together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from amends_pipeline.inventory.assertions import (
    Assertions,
    AuthorityColumns,
    Integers,
    ObservationColumns,
    Texts,
    lengths,
)
from amends_pipeline.inventory.decision import Decision
from amends_pipeline.inventory.identities import Found
from amends_pipeline.inventory.slice import Rejection
from amends_pipeline.kernel import arrow
from amends_pipeline.store import arrays, packing
from amends_pipeline.store.at_once import Executes
from amends_pipeline.store.evidence import (
    AUTHORITIES,
    LONGEST_INDEXED,
    OBSERVATIONS,
    QUARANTINE,
    SAVE_AUTHORITIES,
    WANTED,
    EvidenceWrites,
    indexed,
    rejection_columns,
)
from amends_pipeline.store.postgres import Connection

# One row comes back, whose columns are arrays in binary form.
SELECT_STANDING: Final = f"""
SELECT array_send(array_agg(w.position)), array_send(array_agg(a.source_offset)),
    array_send(array_agg(a.revision)), array_send(array_agg(a.kind::int8)),
    array_send(array_agg(a.day::int8)), array_send(array_agg(a.nanosecond)),
    array_send(array_agg(a.qty)), array_send(array_agg(a.conflicted::int4::int8))
{WANTED}"""

_ARRAY_HEADER: Final = 20
_ELEMENT: Final = np.dtype([("size", ">i4"), ("value", ">i8")])


def find(connection: Connection, unit_id: int, keys: Integers, txn_ids: Texts) -> Found:
    """Authorities of those identities that are stored, with their positions."""
    asked = txn_ids.to_pylist()
    if _some_long(txn_ids):
        asked = list(map(indexed, asked))
    parameters = (arrays.int4s(keys.tolist()), arrays.texts(asked), unit_id)
    row = connection.execute(SELECT_STANDING, parameters, binary=True).fetchone()
    sent = row or (None,)
    if sent[0] is None:
        at, *numbers, conflicted = [np.zeros(0, dtype=np.int64)] * 8
    else:
        at, *numbers, conflicted = (
            np.frombuffer(each, _ELEMENT, offset=_ARRAY_HEADER)["value"].astype(np.int64)
            for each in sent
        )
        at -= 1
    rows = Assertions(keys[at], arrow.taken(txn_ids, at), *numbers)
    stood = np.ones(len(at), dtype=np.bool_)
    return Found(at, AuthorityColumns(rows, conflicted > 0, stood))


def _save_changed(to: Executes, unit_id: int, authorities: AuthorityColumns) -> None:
    rows = authorities.rows
    txn_ids = rows.txn_ids.to_pylist()
    parameters = (
        arrays.int8s(rows.revisions.tolist()),
        arrays.int8s(rows.offsets.tolist()),
        arrays.int8s(rows.qtys.tolist()),
        arrays.int8s(rows.nanoseconds.tolist()),
        arrays.int4s(rows.keys.tolist()),
        arrays.int4s(rows.days.tolist()),
        arrays.int2s(rows.kinds.tolist()),
        arrays.bools(authorities.conflicted.tolist()),
        arrays.texts(list(map(indexed, txn_ids))),
        arrays.texts([each if len(each) > LONGEST_INDEXED else None for each in txn_ids]),
    )
    to.execute(SAVE_AUTHORITIES, (unit_id, *parameters))


class ColumnWrites:
    """What a decision adds to the evidence of a unit, as `evidence.EvidenceWrites` says it."""

    many: Final = True
    """It is always copied."""

    def __init__(
        self,
        authorities: AuthorityColumns,
        observations: ObservationColumns,
        rejections: Sequence[Rejection],
    ) -> None:
        self._authorities = authorities
        self._observations = observations
        self._rejections = rejections

    def copy(self, connection: Connection, unit_id: int) -> None:
        """Write everything, outside a pipeline."""
        stood = self._authorities.stood
        changed, new = np.flatnonzero(stood), np.flatnonzero(~stood)
        if len(changed):
            _save_changed(connection, unit_id, self._authorities.take(changed))
        if len(new):
            _copy_authorities(connection, unit_id, self._authorities, new)
        if len(self._observations):
            _copy_observations(connection, unit_id, self._observations)
        if self._rejections:
            QUARANTINE.copy(connection, rejection_columns(unit_id, self._rejections))

    def save(self, to: Executes, unit_id: int) -> None:
        """Write nothing: all of it is copied."""


def writes(decisions: Sequence[Decision]) -> EvidenceWrites | ColumnWrites:
    """What consecutive decisions add to the evidence of a unit."""
    if len(decisions) == 1:
        (decision,) = decisions
        authorities, observations = decision.authorities, decision.observations
        if (
            isinstance(authorities, AuthorityColumns)
            and isinstance(observations, ObservationColumns)
            # A text that stands for a longer one is put together elsewhere.
            and not _some_long(authorities.rows.txn_ids)
        ):
            return ColumnWrites(authorities, observations, decision.rejections)
    return EvidenceWrites(decisions)


def _copy_authorities(
    connection: Connection, unit_id: int, authorities: AuthorityColumns, at: Integers
) -> None:
    rows = authorities.rows
    numbers = [*_numbers(unit_id, rows), authorities.conflicted]
    order = at[np.argsort(rows.keys[at], kind="stable")]
    AUTHORITIES.copy_arrays(connection, numbers, packing.Texts.of(rows.txn_ids), order)


def _copy_observations(
    connection: Connection, unit_id: int, observations: ObservationColumns
) -> None:
    rows = observations.rows
    order = np.lexsort((rows.offsets, rows.keys))
    texts = packing.Texts.of(rows.txn_ids)
    OBSERVATIONS.copy_arrays(connection, _numbers(unit_id, rows), texts, order)


def _numbers(unit_id: int, rows: Assertions) -> list[Any]:
    """The columns that both tables begin with."""
    return [
        rows.revisions,
        rows.offsets,
        rows.qtys,
        rows.nanoseconds,
        np.full(len(rows), unit_id),
        rows.keys,
        rows.days,
        rows.kinds,
    ]


def _some_long(txn_ids: Texts) -> bool:
    # Characters are what counts, and there are no more of them than bytes.
    return int(lengths(txn_ids).max(initial=0)) > LONGEST_INDEXED
