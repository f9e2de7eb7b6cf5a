"""PostgreSQL arrays of one dimension in binary format, written ten times faster than one by one.

A statement takes whole columns as parameters: `unnest(%s::int4[], ...)`. The functions here turn a
column, a sequence or a numpy array, into the bytes of such a parameter, which psycopg then passes
on as they are. Arrays that come back need nothing where they are short: psycopg's own loader is
fast. `array_columns.py` reads long ones.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, ClassVar, Final, TypeGuard

import numpy as np
from numpy.typing import NDArray
from psycopg import pq
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import Dumper

from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import CounterExhausted

_FEW: Final = 24
"""Up to that many integers, numpy's fixed cost is higher than theirs."""

Integers = Sequence[int] | NDArray[np.int64]

_header = struct.Struct(">iiIii").pack
_HEADER_BYTES: Final = 20
_ELEMENT: Final = np.dtype([("size", ">i4"), ("value", ">i8")])
_length = struct.Struct(">i").pack
_NULL: Final = _length(-1)


class Array(bytes):
    """The binary form of an array, ready to be sent."""

    array_oid: ClassVar[int]


class Bools(Array):
    """boolean[]."""

    array_oid = 1000


class Int2s(Array):
    """int2[]."""

    array_oid = 1005


class Int4s(Array):
    """int4[]."""

    array_oid = 1007


class Int8s(Array):
    """int8[]."""

    array_oid = 1016


class Texts(Array):
    """text[]."""

    array_oid = 1009


class Blobs(Array):
    """bytea[]."""

    array_oid = 1001


def bools(values: Sequence[bool]) -> Bools:
    """Write booleans."""
    return Bools(_numbers(values, 16, 1, ">i?", ">u1"))


def int2s(values: Integers) -> Int2s:
    """Write integers of 16 bits. Raises CounterExhausted when one does not fit."""
    return Int2s(_numbers(values, 21, 2, ">ih", ">i2"))


def int4s(values: Integers) -> Int4s:
    """Write integers of 32 bits. Raises CounterExhausted when one does not fit."""
    return Int4s(_numbers(values, 23, 4, ">ii", ">i4"))


def int8s(values: Integers) -> Int8s:
    """Write integers of 64 bits. Raises CounterExhausted when one does not fit."""
    return Int8s(_numbers(values, 20, 8, ">iq", ">i8"))


def texts(values: Sequence[str | None]) -> Texts:
    """Write texts; None is null."""
    return Texts(_parts(25, [None if each is None else each.encode() for each in values]))


def texts_at(values: Sequence[str], at: NDArray[np.int64]) -> Texts:
    """Write the texts at these positions, each as often as it is named."""
    if not len(at):
        return texts(())
    encoded = list(map(str.encode, values))
    parts = list(map(bytes.__add__, map(_length, map(len, encoded)), encoded))
    return Texts(_header(1, 0, 25, len(at), 1) + _joined(map(parts.__getitem__, at.tolist())))


def blobs(values: Sequence[bytes | None]) -> Blobs:
    """Write byte strings; None is null."""
    return Blobs(_parts(17, values))


def read_int8s(sent: bytes | None) -> NDArray[np.int64]:
    """What `array_send` made of an int8[] without nulls, or of no array."""
    if sent is None:
        return np.zeros(0, dtype=np.int64)
    return np.frombuffer(sent, _ELEMENT, offset=_HEADER_BYTES)["value"].astype(np.int64)


def joined_blobs(count: int, elements: bytes) -> Blobs:
    """An array of so many byte strings, each of which stands in `elements` behind its length."""
    return Blobs(_header(1, 0, 17, count, 1) + elements if count else _header(0, 0, 17, 0, 0)[:12])


def fits(column: NDArray[Any], size: int) -> bool:
    """Whether all numbers fit so many bytes; numpy would cut them without a word."""
    if column.dtype == np.bool_ or not len(column):
        return True
    limit = 1 << (8 * size - 1)
    return -limit <= int(column.min()) and int(column.max()) < limit


def too_large(values: Integers, size: int) -> CounterExhausted:
    """The error for integers of which one does not fit `size` bytes."""
    return CounterExhausted(
        "numbers on their way to the database",
        expected=f"integers of {8 * size} bits",
        found=f"some from {shown(int(min(values)))} to {shown(int(max(values)))}",
    )


def _numbers(values: Integers, oid: int, size: int, pair: str, kind: str) -> bytes:
    count = len(values)
    if not count:
        return _header(0, 0, oid, 0, 0)[:12]
    pack: Callable[..., bytes] = _pairs[pair].pack
    try:
        if count <= _FEW:
            body = b"".join([pack(size, value) for value in values])
        elif isinstance(values, list) and values.count(values[0]) == count:
            body = pack(size, values[0]) * count
        else:
            if isinstance(values, np.ndarray) and not fits(values, size):
                raise too_large(values, size)
            column = np.empty(count, dtype=[("size", ">i4"), ("value", kind)])
            column["size"] = size
            column["value"] = values
            body = column.tobytes()
    except (OverflowError, struct.error):
        raise too_large(values, size) from None
    return _header(1, 0, oid, count, 1) + body


_pairs = {pair: struct.Struct(pair) for pair in (">i?", ">ih", ">ii", ">iq")}


def _parts(oid: int, values: Sequence[bytes | None]) -> bytes:
    if not values:
        return _header(0, 0, oid, 0, 0)[:12]
    if _without_null(values):
        lengths = map(_length, map(len, values))
        body = _joined(chain.from_iterable(zip(lengths, values, strict=True)))
        return _header(1, 0, oid, len(values), 1) + body
    parts = (_NULL if each is None else _length(len(each)) + each for each in values)
    return _header(1, 1, oid, len(values), 1) + _joined(parts)


def _without_null(values: Sequence[bytes | None]) -> TypeGuard[Sequence[bytes]]:
    return None not in values


_joined: Callable[[Iterable[bytes]], bytes] = b"".join


class _ArrayDumper(Dumper):
    format = pq.Format.BINARY

    def dump(self, obj: Array) -> Buffer:
        return obj


def register(context: AdaptContext) -> None:
    """Teach a connection to pass arrays on."""
    for kind in (Bools, Int2s, Int4s, Int8s, Texts, Blobs):
        attributes: dict[str, Any] = {"oid": kind.array_oid}
        context.adapters.register_dumper(kind, type(kind.__name__, (_ArrayDumper,), attributes))
