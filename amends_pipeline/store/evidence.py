"""Evidence: one row per identity in force, one per other accepted record, one per rejected one.

Every accepted record stands in exactly one of `amends.authority` and `amends.observation`. From
that follows, without a look at the table, which identities of a commit are new to it: those of
which nothing at an offset before the commit is mentioned.

A transaction id may be as long as a record, an entry of an index may not. A longer one than
`LONGEST_INDEXED` is represented in the index by its beginning and its hash, which no shorter text
equals, and stands in full in a column of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from amends_pipeline.inventory.authority import KINDS, Authority, Candidate, Observation
from amends_pipeline.inventory.decision import Decision, Identity
from amends_pipeline.inventory.slice import Rejection
from amends_pipeline.kernel.canonical import sha256_hex
from amends_pipeline.ports import Evidence
from amends_pipeline.store import arrays
from amends_pipeline.store.at_once import Executes
from amends_pipeline.store.bulk import (
    BLOB,
    BOOL,
    COPY_ROWS,
    INT2,
    INT4,
    INT8,
    LARGEST_BYTES,
    TEXT,
    Table,
)
from amends_pipeline.store.postgres import Connection, Parameters

LONGEST_INDEXED: Final = 600
"""Characters, of four bytes at most. PostgreSQL's index entries end at 2,704 bytes."""
_KIND_NUMBERS: Final = {kind: number for number, kind in enumerate(KINDS)}

# OFFSET 0 keeps the planner from turning the loop inside out while it knows nothing of the table.
WANTED: Final = """
FROM unnest(%s::int4[], %s::text[]) WITH ORDINALITY AS w (key, txn_id, position)
CROSS JOIN LATERAL (
    SELECT revision, kind, day, nanosecond, qty, source_offset, conflicted
    FROM amends.authority
    WHERE unit_id = %s AND key = w.key AND txn_id = w.txn_id COLLATE "C" OFFSET 0
) a
"""
"""Authorities `a` of the identities `w`, each with its position, from 1 on."""
SELECT_AUTHORITIES: Final = f"SELECT w.position, a.* {WANTED}"
SELECT_AUTHORITY: Final = """
SELECT 1, revision, kind, day, nanosecond, qty, source_offset, conflicted FROM amends.authority
WHERE unit_id = %s AND key = %s AND txn_id = %s COLLATE "C"
"""
_SAVE: Final = """
INSERT INTO amends.authority (unit_id, revision, source_offset, qty, nanosecond, key, day, kind,
    conflicted, txn_id, long_txn_id)
{rows}
ON CONFLICT (unit_id, key, txn_id) DO UPDATE SET revision = excluded.revision,
    source_offset = excluded.source_offset, qty = excluded.qty, nanosecond = excluded.nanosecond,
    day = excluded.day, kind = excluded.kind, conflicted = excluded.conflicted
"""
SAVE_AUTHORITIES: Final = _SAVE.format(
    rows="""
SELECT %s, * FROM unnest(%s::int8[], %s::int8[], %s::int8[], %s::int8[], %s::int4[], %s::int4[],
    %s::int2[], %s::boolean[], %s::text[], %s::text[])"""
)
SAVE_AUTHORITY: Final = _SAVE.format(
    rows="""
VALUES (%s::int4, %s::int8, %s::int8, %s::int8, %s::int8, %s::int4, %s::int4, %s::int2,
    %s::boolean, %s::text, %s::text)"""
)
SELECT_KEY_AUTHORITIES: Final = """
SELECT coalesce(long_txn_id, txn_id), revision, kind, day, nanosecond, qty, source_offset,
    conflicted
FROM amends.authority WHERE unit_id = %s AND key = %s ORDER BY coalesce(long_txn_id, txn_id)
"""
SELECT_KEY_OBSERVATIONS: Final = """
SELECT txn_id, source_offset, revision, kind, day, nanosecond, qty
FROM amends.observation WHERE unit_id = %s AND key = %s ORDER BY source_offset
"""

_AUTHORITY: Final = {
    "revision": INT8,
    "source_offset": INT8,
    "qty": INT8,
    "nanosecond": INT8,
    "unit_id": INT4,
    "key": INT4,
    "day": INT4,
    "kind": INT2,
    "conflicted": BOOL,
    "txn_id": TEXT,
    "long_txn_id": TEXT,
}
AUTHORITIES: Final = Table("amends.authority", _AUTHORITY)
OBSERVATIONS: Final = Table(
    "amends.observation",
    {
        "revision": INT8,
        "source_offset": INT8,
        "qty": INT8,
        "nanosecond": INT8,
        "unit_id": INT4,
        "key": INT4,
        "day": INT4,
        "kind": INT2,
        "txn_id": TEXT,
    },
)
QUARANTINE: Final = Table(
    "amends.quarantine",
    {"source_offset": INT8, "unit_id": INT4, "code": TEXT, "raw_key": BLOB, "value": BLOB},
)


def indexed(txn_id: str) -> str:
    """The form of a transaction id that is looked up."""
    if len(txn_id) <= LONGEST_INDEXED:
        return txn_id
    return txn_id[: LONGEST_INDEXED + 1] + sha256_hex(txn_id.encode())


# --- reading


def load_authorities(
    connection: Connection, unit_id: int, identities: Iterable[Identity]
) -> Mapping[Identity, Authority]:
    """Authorities of those identities that are stored."""
    asked = list(identities)
    if not asked:
        return {}
    if len(asked) == 1:
        ((key, txn_id),) = asked
        parameters: Parameters = (unit_id, key, indexed(txn_id))
        rows = connection.execute(SELECT_AUTHORITY, parameters, binary=True)
    else:
        keys = arrays.int4s([key for key, _ in asked])
        txn_ids = arrays.texts([indexed(txn_id) for _, txn_id in asked])
        rows = connection.execute(SELECT_AUTHORITIES, (keys, txn_ids, unit_id), binary=True)
    return {
        asked[position - 1]: Authority(
            Candidate(revision, KINDS[kind], day, nanosecond, qty), offset, conflicted
        )
        for position, revision, kind, day, nanosecond, qty, offset, conflicted in rows.fetchall()
    }


def load_evidence(connection: Connection, unit_id: int, key: int) -> Evidence:
    """All accepted records of one key: authorities by transaction id, the others by offset."""
    authorities = [
        (txn_id, Authority(Candidate(revision, KINDS[kind], *rest), offset, conflicted))
        for txn_id, revision, kind, *rest, offset, conflicted in connection.execute(
            SELECT_KEY_AUTHORITIES, (unit_id, key), binary=True
        )
    ]
    observations = [
        Observation(key, txn_id, offset, Candidate(revision, KINDS[kind], *rest))
        for txn_id, offset, revision, kind, *rest in connection.execute(
            SELECT_KEY_OBSERVATIONS, (unit_id, key), binary=True
        )
    ]
    return Evidence(authorities, observations)


# --- writing


class EvidenceWrites:
    """What consecutive decisions add to the evidence of a unit."""

    def __init__(self, decisions: Sequence[Decision]) -> None:
        start = decisions[0].start if decisions else 0
        self._observations = [seen for each in decisions for seen in each.observations]
        self._rejections = [entry for each in decisions for entry in each.rejections]
        known = {(seen.key, seen.txn_id) for seen in self._observations if seen.offset < start}
        authorities: dict[Identity, Authority] = {}
        for decision in decisions:
            authorities.update(decision.authorities.items())
        self._changed = {
            identity: authority
            for identity, authority in authorities.items()
            if authority.offset < start or identity in known
        }
        for identity in self._changed:
            del authorities[identity]
        self._new = authorities

    @property
    def many(self) -> bool:
        """Whether they are copied, which no pipeline can take along: they are many, or large."""
        rows = max(len(self._new), len(self._observations), len(self._rejections))
        return (
            rows >= COPY_ROWS or sum(len(each.value) for each in self._rejections) > LARGEST_BYTES
        )

    def copy(self, connection: Connection, unit_id: int) -> None:
        """Write many, outside a pipeline."""
        self._save_changed(connection, unit_id)
        for table, columns in self._added(unit_id):
            table.copy(connection, columns)

    def save(self, to: Executes, unit_id: int) -> None:
        """Write few."""
        self._save_changed(to, unit_id)
        for table, columns in self._added(unit_id):
            table.insert(to, columns)

    def _save_changed(self, to: Executes, unit_id: int) -> None:
        if not self._changed:
            return
        columns = dict(zip(_AUTHORITY, _authority_columns(unit_id, self._changed), strict=True))
        del columns["unit_id"]
        if len(self._changed) == 1:
            to.execute(SAVE_AUTHORITY, (unit_id, *(value for (value,) in columns.values())))
            return
        parameters = [_AUTHORITY[name].array(column) for name, column in columns.items()]
        to.execute(SAVE_AUTHORITIES, (unit_id, *parameters))

    def _added(self, unit_id: int) -> Iterator[tuple[Table, list[Sequence[Any]]]]:
        if self._new:
            yield AUTHORITIES, _authority_columns(unit_id, self._new)
        if self._observations:
            yield OBSERVATIONS, _observation_columns(unit_id, self._observations)
        if self._rejections:
            yield QUARANTINE, rejection_columns(unit_id, self._rejections)


def _authority_columns(
    unit_id: int, authorities: Mapping[Identity, Authority]
) -> list[Sequence[Any]]:
    txn_ids = [txn_id for _, txn_id in authorities]
    candidates = [authority.candidate for authority in authorities.values()]
    return [
        [candidate.revision for candidate in candidates],
        [authority.offset for authority in authorities.values()],
        [candidate.qty for candidate in candidates],
        [candidate.nanosecond for candidate in candidates],
        [unit_id] * len(authorities),
        [key for key, _ in authorities],
        [candidate.day for candidate in candidates],
        [_KIND_NUMBERS[candidate.kind] for candidate in candidates],
        [authority.conflicted for authority in authorities.values()],
        [indexed(txn_id) for txn_id in txn_ids],
        [txn_id if len(txn_id) > LONGEST_INDEXED else None for txn_id in txn_ids],
    ]


def _observation_columns(unit_id: int, observations: Sequence[Observation]) -> list[Sequence[Any]]:
    candidates = [seen.candidate for seen in observations]
    return [
        [candidate.revision for candidate in candidates],
        [seen.offset for seen in observations],
        [candidate.qty for candidate in candidates],
        [candidate.nanosecond for candidate in candidates],
        [unit_id] * len(observations),
        [seen.key for seen in observations],
        [candidate.day for candidate in candidates],
        [_KIND_NUMBERS[candidate.kind] for candidate in candidates],
        [seen.txn_id for seen in observations],
    ]


def rejection_columns(unit_id: int, rejections: Sequence[Rejection]) -> list[Sequence[Any]]:
    """The columns of `QUARANTINE`."""
    return [
        [rejection.offset for rejection in rejections],
        [unit_id] * len(rejections),
        [str(rejection.code) for rejection in rejections],
        [rejection.raw_key for rejection in rejections],
        [rejection.value for rejection in rejections],
    ]
