"""A source record decodes to a Revision, or it is MALFORMED.

Two readers stand here. `decode_carefully` is the meaning: strict JSON first, then member by
member. The other is fast and only ever says yes: a typed decoder reads the record, and what that
decoder lets pass is closed by proof. Whatever is not proven goes to the careful reader, so that
no record is refused by the fast one alone. Tests hold the two equal.

The typed decoder refuses by itself: other types; missing, null and unknown members; fractions and
exponents; integers outside 64 bits; bytes that are not UTF-8; a byte order mark; controls; lone
surrogates; trailing content. What it lets pass, and how that is closed:

- A member that stands twice; the last one wins. A record has nine member names and six texts,
  thus thirty quotation marks that begin or end a string, and each further member brings at least
  two more. Exactly thirty proves that none stands twice.
- U+0000 in a text. JSON can only write it as an escape: without a backslash there is none, and
  with one the texts are searched.
- A value over the size limit. Lengths are compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from amends_pipeline.kernel import strict_json
from amends_pipeline.kernel.errors import StrictJsonError
from amends_pipeline.kernel.instants import (
    DATE_END,
    MAX_DAY,
    MIN_DAY,
    MINUTE_END,
    NANOSECONDS_PER_DAY,
    InstantSyntaxError,
    in_range,
    parse_date_part,
    parse_instant,
    parse_minute_part,
    parse_second_part,
)
from amends_pipeline.kernel.integers import MAX_INT64, MIN_INT64
from amends_pipeline.kernel.remembered import Remembered

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_VALUE_BYTES: Final = 1_048_576
"""The longest record value, 1 MiB."""

_MEMBERS = frozenset(
    {"txn_id", "revision", "kind", "stock_key", "valid_time", "qty", "source_time"}
)
_KEY_MEMBERS = frozenset({"item", "location"})
_QUOTES = 30  # of nine member names and six texts
# Records proven together. One odd record costs the others of its batch a second look.
_BATCH = 512


class Revision(msgspec.Struct, frozen=True, gc=False):
    """One source assertion, decoded. Its texts may be empty and its numbers out of place.

    `revision` and `qty` are signed 64-bit integers. The valid time is a UTC day number and the
    nanosecond of that day; it may lie outside the supported range. `classify` judges all of that.

    A value like a NamedTuple, but one that the garbage collector need not visit.
    """

    txn_id: str
    revision: int
    kind: str
    item: str
    location: str
    valid_day: int
    valid_nanosecond: int
    qty: int


def decode(value: bytes) -> Revision | None:
    """Decode one record; None means MALFORMED. Never raises, whatever the bytes."""
    try:
        record = _typed(value)
    except msgspec.MsgspecError:
        return decode_carefully(value)
    return _revision(record) if _proven_alone(value, record) else decode_carefully(value)


def decode_batch(values: Sequence[bytes]) -> list[Revision | None]:
    """Decode many records in order, each as `decode` does."""
    revisions: list[Revision | None] = []
    for start in range(0, len(values), _BATCH):
        revisions += _decoded(values[start : start + _BATCH])
    return revisions


def decode_carefully(value: bytes) -> Revision | None:
    """Decode one record step by step; None means MALFORMED. Never raises, whatever the bytes."""
    if len(value) > MAX_VALUE_BYTES:
        return None
    try:
        record = _with_members(strict_json.loads(value), _MEMBERS)
        stock_key = _with_members(record["stock_key"], _KEY_MEMBERS)
        valid_time = parse_instant(_text(record["valid_time"]))
        if not in_range(parse_instant(_text(record["source_time"]))):
            return None
        return Revision(
            txn_id=_text(record["txn_id"]),
            revision=_int64(record["revision"]),
            kind=_text(record["kind"]),
            item=_text(stock_key["item"]),
            location=_text(stock_key["location"]),
            valid_day=valid_time.day,
            valid_nanosecond=valid_time.nanosecond,
            qty=_int64(record["qty"]),
        )
    except (StrictJsonError, InstantSyntaxError, _MalformedError):
        return None


class _MalformedError(Exception):
    """A member is not what a record has in its place."""


def _with_members(value: object, names: frozenset[str]) -> dict[str, object]:
    if not isinstance(value, dict) or value.keys() != names:
        raise _MalformedError
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or "\x00" in value:
        raise _MalformedError
    return value


def _int64(value: object) -> int:
    # A boolean is an int to Python.
    if type(value) is not int or not MIN_INT64 <= value <= MAX_INT64:
        raise _MalformedError
    return value


_Int64 = Annotated[int, msgspec.Meta(ge=MIN_INT64, le=MAX_INT64)]


class _StockKey(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    item: str
    location: str


class _Record(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    txn_id: str
    revision: _Int64
    kind: str
    stock_key: _StockKey
    valid_time: str
    qty: _Int64
    source_time: str


_typed = msgspec.json.Decoder(_Record).decode


_dates = Remembered(parse_date_part, limit=1 << 14)
_minutes = Remembered(parse_minute_part, limit=1 << 11)
_seconds = Remembered(parse_second_part, limit=1 << 16)


def _decoded(values: Sequence[bytes]) -> list[Revision | None]:
    try:
        records = [_typed(value) for value in values]
    except msgspec.MsgspecError:
        return _decoded_with_odd(values)
    if _proven(values):
        return [_revision(record) for record in records]
    return [decode(value) for value in values]


def _decoded_with_odd(values: Sequence[bytes]) -> list[Revision | None]:
    """Decode records of which some do not let the typed decoder pass: only those cost more."""
    records: list[_Record | None] = []
    for value in values:
        try:
            records.append(_typed(value))
        except msgspec.MsgspecError:
            records.append(None)
    passed = [value for value, record in zip(values, records, strict=True) if record is not None]
    if not passed or not _proven(passed):
        return [decode(value) for value in values]
    return [
        decode_carefully(value) if record is None else _revision(record)
        for value, record in zip(values, records, strict=True)
    ]


def _proven(values: Sequence[bytes]) -> bool:
    """Prove the points above for records that the typed decoder let pass, all at once.

    Each of them has at least thirty quotation marks, so that their sum tells of each.
    """
    joined = b"".join(values)
    return (
        joined.count(b'"') == _QUOTES * len(values)
        and b"\\" not in joined
        and max(map(len, values)) <= MAX_VALUE_BYTES
    )


def _proven_alone(value: bytes, record: _Record) -> bool:
    """Prove the points above for one record that the typed decoder let pass, escapes included."""
    if len(value) > MAX_VALUE_BYTES:
        return False
    if b"\\" in value:
        stock_key = record.stock_key
        # The grammar of timestamps keeps U+0000 out of the other two texts.
        if "\x00" in record.txn_id + record.kind + stock_key.item + stock_key.location:
            return False
        # Escaped backslashes first: what is left before a quotation mark then escapes it.
        value = value.replace(b"\\\\", b"").replace(b'\\"', b"")
    return value.count(b'"') == _QUOTES


def _revision(record: _Record) -> Revision | None:
    valid = record.valid_time
    source = record.source_time
    try:
        day = _dates[valid[:DATE_END]]
        nanosecond = _minutes[valid[DATE_END:MINUTE_END]] + _seconds[valid[MINUTE_END:]]
        source_day = _dates[source[:DATE_END]]
        source_nanosecond = _minutes[source[DATE_END:MINUTE_END]] + _seconds[source[MINUTE_END:]]
    except InstantSyntaxError:
        return None
    if not 0 <= nanosecond < NANOSECONDS_PER_DAY:
        shift, nanosecond = divmod(nanosecond, NANOSECONDS_PER_DAY)
        day += shift
    if not MIN_DAY <= source_day + source_nanosecond // NANOSECONDS_PER_DAY <= MAX_DAY:
        return None
    stock_key = record.stock_key
    return Revision(
        record.txn_id,
        record.revision,
        record.kind,
        stock_key.item,
        stock_key.location,
        day,
        nanosecond,
        record.qty,
    )
