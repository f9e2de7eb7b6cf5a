"""A long segment, read from its binary cells as numpy columns: what `segments.decode` does by list.

It is read this way if it says what it should. Whatever is odd about it, a null, a column that is
too short, a cause that is not there, `segments.decode` finds out and tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from amends_pipeline.inventory.envelope import ENCODER_VERSION, Cause, Reasons
from amends_pipeline.inventory.envelope_columns import EnvelopeColumns
from amends_pipeline.ports import Segment
from amends_pipeline.store import array_columns

Cell = bytes | None

_NARROW: Final = 4
_WIDE: Final = 8
_SIZES: Final = (4, 2, 4, 4, 8)
"""Bytes of a key, type, day, cause index and cause offset."""


def read(cells: Sequence[Cell]) -> Segment | None:
    """The segment of (base, count, *segments.COLUMNS); None when something about it is odd."""
    base, count, encoder_version, *columns = cells
    txn_ids, narrow, wide = columns.pop(5), columns[5:8], columns[8:11]
    several = [
        *map(_integers, columns[:5], _SIZES),
        *(
            _integers(short if short is not None else long, _WIDE if short is None else _NARROW)
            for short, long in zip(narrow, wide, strict=True)
        ),
    ]
    numbers = [column for column in several if column is not None]
    texts = None if txn_ids is None else array_columns.texts(txn_ids)
    reasons = _reasons(columns[11:])
    if (
        array_columns.integer(encoder_version) != ENCODER_VERSION
        or len(numbers) < len(several)
        or texts is None
        or reasons is None
    ):
        return None
    keys, types, days, index, offsets, versions, closes, revisions = numbers
    rows = array_columns.integer(count)
    whole = all(len(each) == rows for each in (keys, types, days, versions, closes, index))
    placed = all(0 <= position < rows for position in reasons)
    causes = {len(each) for each in (offsets, texts, revisions)}
    if not (whole and rows and causes == {len(texts)} and placed):
        return None
    if index.min() < 0 or index.max() >= len(texts):
        return None
    told = list(map(Cause, offsets.tolist(), texts, revisions.tolist()))
    envelopes = EnvelopeColumns(keys, types, days, versions, closes, index, told, reasons)
    return Segment(array_columns.integer(base), envelopes)


def _integers(raw: Cell, size: int) -> array_columns.Integers | None:
    return None if raw is None else array_columns.integers(raw, size)


def _reasons(cells: Sequence[Cell]) -> dict[int, Reasons] | None:
    positions, txn_ids, revisions = cells
    if positions is None or txn_ids is None or revisions is None:
        return {} if {*cells} == {None} else None
    numbers = array_columns.integers(positions, _NARROW), array_columns.integers(revisions, _WIDE)
    at, revised = (None if each is None else each.tolist() for each in numbers)
    texts = array_columns.texts(txn_ids)
    if at is None or texts is None or revised is None or not len(at) == len(texts) == len(revised):
        return None
    reasons: dict[int, Reasons] = {}
    for position, *each in zip(at, texts, revised, strict=True):
        reasons[position] = (*reasons.get(position, ()), (each[0], each[1]))
    return reasons
