"""Runs of consecutive envelopes, one row each, in `amends.outbox_segment` and `output_segment`.

A segment holds its envelopes as columns, each a PostgreSQL array: some 30 bytes an envelope, where
a row of its own would take five times that. The views `amends.outbox` and `amends.output_log` show
them one by one. The bytes of an envelope follow from its columns by the function that
`encoder_version` names.

Versions, closes and revisions are arrays of 32 bits as long as all of them fit, else all three are
arrays of 64 bits in columns of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from amends_pipeline.inventory.envelope import ENCODER_VERSION, Cause, EnvelopeBatch, Type
from amends_pipeline.inventory.envelope_columns import EnvelopeColumns, Envelopes
from amends_pipeline.kernel.errors import CounterExhausted, ProtocolStop
from amends_pipeline.ports import Segment
from amends_pipeline.store import array_columns, arrays, bulk, segment_columns
from amends_pipeline.store.postgres import Cursor

COLUMNS: Final = (
    "encoder_version, key, type, day, cause_index, cause_offset, cause_txn_id, version, close,"
    " cause_revision, wide_version, wide_close, wide_cause_revision, reason_position,"
    " reason_txn_id, reason_revision"
)
"""Columns of a segment after its base and count, in the order of `parameters` and `decode`."""
PLACES: Final = ", ".join(["%s"] * len(COLUMNS.split(", ")))
WIDTH: Final = 2 + len(COLUMNS.split(", "))

SEGMENT_ROWS: Final = 50_000
"""No segment is longer: whoever reads a few envelopes of one reads all of it."""
MANY_ROWS: Final = 1_000
"""Segments from that length on are read as numpy columns, shorter ones as lists."""

_UTF8: Final = 4
"""Bytes that a character takes at most."""


def split(batch: Envelopes) -> Iterator[tuple[int, Envelopes]]:
    """(position, part): the batch as one segment, or as several where it is long."""
    count = len(batch)
    parts = -(-count // SEGMENT_ROWS)
    columns = EnvelopeColumns.of(batch) if parts > 1 else None
    if columns is None:
        # A number of more than 64 bits is refused where it is written.
        yield from _split_by_size(batch, 0)
        return
    cuts = [count * part // parts for part in range(parts + 1)]
    for low, high in pairwise(cuts):
        yield from _split_by_size(columns.slice(low, high), low)


def _split_by_size(batch: Envelopes, at: int) -> Iterator[tuple[int, Envelopes]]:
    longest = sum(len(cause.txn_id) for cause in batch.causes) * _UTF8
    if longest <= bulk.LARGEST_BYTES:
        if batch:
            yield at, batch
        return
    whole = list(batch)
    for part in bulk.runs([_UTF8 * len(each.cause.txn_id) for each in whole]):
        run = EnvelopeBatch()
        for each in whole[part]:
            run.add(each)
        yield at + part.start, run


class Insertion:
    """Statements that insert a segment into a table of them.

    Columns that are null are left out where all of them are: psycopg reads a statement with more
    than 50 parameters anew each time, and a commit's other writes need the rest of them.
    """

    def __init__(self, table: str) -> None:
        columns = ["unit_id", "base", "count", *COLUMNS.split(", ")]
        self._plain_count = columns.index("wide_version")
        self._whole, self._plain = (
            f"INSERT INTO {table} ({', '.join(part)}) VALUES ({', '.join(['%s'] * len(part))})"  # noqa: S608 - constants of the callers
            for part in (columns, columns[: self._plain_count])
        )

    def of(self, unit_id: int, base: int, part: Envelopes) -> tuple[str, list[Any]]:
        """The statement for a segment, and its parameters."""
        row = [unit_id, base, len(part), *parameters(part)]
        if any(value is not None for value in row[self._plain_count :]):
            return self._whole, row
        return self._plain, row[: self._plain_count]


def parameters(batch: Envelopes) -> list[Any]:
    """The values of `COLUMNS`."""
    offsets, txn_ids, revisions = zip(*batch.causes, strict=True) if batch.causes else ((), (), ())
    numbers = (batch.versions, batch.closes, revisions)
    narrow: list[Any] = [None] * len(numbers)
    wide = narrow
    try:
        narrow = list(map(arrays.int4s, numbers))
    except CounterExhausted:
        wide = list(map(arrays.int8s, numbers))
    return [
        ENCODER_VERSION,
        arrays.int4s(batch.keys),
        arrays.int2s(batch.types),
        arrays.int4s(batch.days),
        arrays.int4s(batch.cause_index),
        arrays.int8s(offsets),
        arrays.texts(txn_ids),
        *narrow,
        *wide,
        *_reason_parameters(batch),
    ]


def _reason_parameters(batch: Envelopes) -> list[Any]:
    reasons = [
        (position, txn_id, revision)
        for position, each in sorted(batch.reasons.items())
        for txn_id, revision in each
    ]
    if not reasons:
        return [None, None, None]
    positions, txn_ids, revisions = zip(*reasons, strict=True)
    return [arrays.int4s(positions), arrays.texts(txn_ids), arrays.int8s(revisions)]


class Decoded(NamedTuple):
    """What a row says, as far as it can be understood, and what is wrong with the rest."""

    segment: Segment
    stop: ProtocolStop | None


def fetch(where: str, cursor: Cursor) -> Iterator[Decoded]:
    """Read all rows of (base, count, *COLUMNS) that a statement returned in binary format.

    There may be other columns behind them. `where` names the log for the error.
    """
    result = cursor.pgresult
    for at in range(result.ntuples if result is not None else 0):
        segment = None
        if result is not None and array_columns.integer(result.get_value(at, 1)) >= MANY_ROWS:
            segment = segment_columns.read([result.get_value(at, i) for i in range(WIDTH)])
        if segment is not None:
            yield Decoded(segment, None)
            continue
        cursor.scroll(at, "absolute")
        yield decode(where, (cursor.fetchone() or ())[:WIDTH])


def number(cursor: Cursor, column: int) -> int:
    """An integer in the first row of what a statement returned in binary format; 0 without row."""
    result = cursor.pgresult
    if result is None or not result.ntuples:
        return 0
    return array_columns.integer(result.get_value(0, column))


def decode(where: str, row: Sequence[Any]) -> Decoded:
    """Read (base, count, *COLUMNS). `where` names the log for the error."""
    base, count, encoder_version, keys, types, days, index, offsets, txn_ids, *rest = row
    *numbers, positions, reason_txn_ids, reason_revisions = rest
    versions, closes, revisions = (
        narrow if narrow is not None else wide
        for narrow, wide in zip(numbers[:3], numbers[3:], strict=True)
    )
    if encoder_version != ENCODER_VERSION:
        stop = _stop(where, base, f"encoder version {ENCODER_VERSION}", str(encoder_version))
        return Decoded(Segment(base, EnvelopeBatch()), stop)
    columns = [keys, types, days, versions, closes, index]
    sound = min(count, *map(_sound, columns))
    causes = min(map(_sound, (offsets, txn_ids, revisions)))
    if sound and not (min(index[:sound]) >= 0 and max(index[:sound]) < causes):
        sound = next(i for i, at in enumerate(index) if not 0 <= at < causes)
    reasons = (positions or (), reason_txn_ids or (), reason_revisions or ())
    reasoned = _are_reasons(count, *reasons)
    if not reasoned:
        # Which BLOCKED envelope lacks one, or has one of another, nobody knows.
        sound = next((i for i in range(sound) if types[i] == Type.BLOCKED_STATED), sound)
        reasons = ((), (), ())
    whole = [
        Cause(*each) for each in zip(offsets or (), txn_ids or (), revisions or (), strict=False)
    ]
    keys, types, days, versions, closes, index = (list(each or ())[:sound] for each in columns)
    batch = EnvelopeBatch(
        keys,
        types,
        days,
        versions,
        closes,
        index,
        whole[:causes],
        _reasons(*reasons, sound),
    )
    if reasoned and sound == count and all(len(column or ()) == count for column in columns):
        return Decoded(Segment(base, batch), None)
    stop = _stop(where, base + sound, "an envelope", "columns that do not make one")
    return Decoded(Segment(base, batch), stop)


def _sound(column: Sequence[Any] | None) -> int:
    """How many members stand before the end of a column, or before a null in it."""
    if column is None:
        return 0
    return column.index(None) if None in column else len(column)


def _are_reasons(count: int, *columns: Sequence[Any]) -> bool:
    """Whether columns of positions, transaction ids and revisions go together, without a null."""
    return (
        len(set(map(len, columns))) == 1
        and all(None not in column for column in columns)
        and all(0 <= position < count for position in columns[0])
    )


def _reasons(
    positions: Iterable[int], txn_ids: Iterable[str], revisions: Iterable[int], end: int
) -> dict[int, tuple[tuple[str, int], ...]]:
    reasons: dict[int, tuple[tuple[str, int], ...]] = {}
    for position, txn_id, revision in zip(positions, txn_ids, revisions, strict=False):
        if position < end:
            reasons[position] = (*reasons.get(position, ()), (txn_id, revision))
    return reasons


def _stop(where: str, offset: int, expected: str, found: str) -> ProtocolStop:
    return ProtocolStop(f"{where} at {offset}", expected=expected, found=found)


def cut(segment: Segment, start: int, stop: int | None = None) -> Segment:
    """The part of a segment from `start` up to, and without, `stop`."""
    low = max(start - segment.base, 0)
    high = len(segment.envelopes) if stop is None else stop - segment.base
    if low == 0 and high >= len(segment.envelopes):
        return segment
    return Segment(segment.base + low, segment.envelopes.slice(low, high))
