"""PostgreSQL arrays that arrive in binary format, read as columns without an object a number.

psycopg's own loader makes lists, which is quickest for a few members. Each function here reads an
array of one dimension without nulls, and returns None for any other.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

_HEADER: Final = struct.Struct(">iiIii")
"""Dimensions, whether there are nulls, type, members, number of the first."""
_EMPTY: Final = 12
"""Bytes of an array without members: it has no dimension either."""
_length = struct.Struct(">i").unpack_from

Integers = NDArray[np.int64]


def integer(raw: bytes | None) -> int:
    """One integer of any size; 0 for null."""
    return int.from_bytes(raw or b"", "big", signed=True)


def integers(raw: bytes, size: int) -> Integers | None:
    """The members of an array of integers of `size` bytes."""
    count = _count(raw)
    if count is None or len(raw) != _end(count, 4 + size):
        return None
    pairs = np.frombuffer(raw, [("size", ">i4"), ("value", f">i{size}")], count, _end(count, 0))
    return pairs["value"].astype(np.int64)


def texts(raw: bytes) -> list[str] | None:
    """The members of an array of texts."""
    count = _count(raw)
    if count is None:
        return None
    members: list[str] = []
    at = _end(count, 0)
    for _ in range(count):
        begin = at + 4
        at = begin + _length(raw, at)[0]
        members.append(raw[begin:at].decode())
    return members


def _count(raw: bytes) -> int | None:
    """How many members there are, if that is all there is to tell."""
    if len(raw) == _EMPTY:
        return 0
    dimensions, nulls, _, count, _ = _HEADER.unpack_from(raw)
    return count if (dimensions, nulls) == (1, 0) else None


def _end(count: int, size: int) -> int:
    """The length of an array of members that take so many bytes each."""
    return _HEADER.size + count * size if count else _EMPTY
