"""Rows that are new to a table, written together: a few by one statement, many by COPY.

Both ways take columns. A COPY in binary format is put together from numpy columns, because one
call per row would cost more than the server's own work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, pairwise, repeat
from struct import Struct
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from amends_pipeline.store import arrays, packing
from amends_pipeline.store.at_once import Executes
from amends_pipeline.store.postgres import Connection

COPY_ROWS: Final = 256
"""From that many rows on COPY is quicker. It cannot be part of a pipeline."""
_COPY_AT_ONCE: Final = 5_000
_ARRAYS_AT_ONCE: Final = 16_384
LARGEST_BYTES: Final = 64 * 1024 * 1024
"""Of texts or byte strings in one parameter. PostgreSQL's own limit is 1 GiB."""

_SIGNATURE: Final = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
_END: Final = b"\xff\xff"
_length = Struct(">i").pack
_NULL: Final = _length(-1)

Column = Sequence[Any]


class Kind(NamedTuple):
    """A column's type: its name, how an array of it is written, its numpy type when it has one."""

    name: str
    array: Callable[[Any], arrays.Array]
    number: str | None = None


BOOL: Final = Kind("boolean", arrays.bools, ">u1")
INT2: Final = Kind("int2", arrays.int2s, ">i2")
INT4: Final = Kind("int4", arrays.int4s, ">i4")
INT8: Final = Kind("int8", arrays.int8s, ">i8")
TEXT: Final = Kind("text", arrays.texts)
BLOB: Final = Kind("bytea", arrays.blobs)


class Table:
    """A table and its columns: first numbers, then texts and byte strings, which may be null."""

    def __init__(self, name: str, columns: dict[str, Kind]) -> None:
        self._kinds = list(columns.values())
        self._numbers = [kind.number for kind in self._kinds if kind.number is not None]
        names = ", ".join(columns)
        types = ", ".join(f"%s::{kind.name}[]" for kind in self._kinds)
        places = ", ".join(f"%s::{kind.name}" for kind in self._kinds)
        self._insert = f"INSERT INTO {name} ({names}) SELECT * FROM unnest({types})"  # noqa: S608 - constants of the callers
        self._insert_one = f"INSERT INTO {name} ({names}) VALUES ({places})"  # noqa: S608 - as above
        self._copy = f"COPY {name} ({names}) FROM STDIN (FORMAT binary)"

    def insert(self, to: Executes, columns: Sequence[Column]) -> None:
        """Write rows given as columns, by one statement."""
        if len(columns[0]) == 1:
            to.execute(self._insert_one, [value for (value,) in columns])
        elif columns[0]:
            kinds = zip(self._kinds, columns, strict=True)
            to.execute(self._insert, [kind.array(column) for kind, column in kinds])

    def copy_arrays(
        self,
        connection: Connection,
        numbers: Sequence[NDArray[Any]],
        texts: packing.Texts,
        order: NDArray[np.int64] | None = None,
    ) -> None:
        """Write rows given as numpy columns and one column of texts; columns after it are null.

        order: positions of the rows to write, in their order; all of them unless it is given.
        Outside a pipeline. Raises CounterExhausted when a number does not fit its column.
        """
        nulls = len(self._kinds) - len(numbers) - 1
        with connection.cursor().copy(self._copy) as copy:
            copy.write(_SIGNATURE)
            for start in range(0, len(texts.begins if order is None else order), _ARRAYS_AT_ONCE):
                at: slice | NDArray[np.int64] = slice(start, start + _ARRAYS_AT_ONCE)
                if order is not None:
                    # Part by part, so that the server need not wait for all of it.
                    at = order[at]
                part = [column[at] for column in numbers]
                for rows in packing.rows(self._numbers, part, texts.take(at), nulls):
                    copy.write(rows)
            copy.write(_END)

    def copy(self, connection: Connection, columns: Sequence[Column]) -> None:
        """Write rows given as columns, any number of any size, outside a pipeline."""
        count = len(columns[0])
        if not count:
            return
        with connection.cursor().copy(self._copy) as copy:
            copy.write(_SIGNATURE)
            for start in range(0, count, _COPY_AT_ONCE):
                part = slice(start, start + _COPY_AT_ONCE)
                rows = self._rows([column[part] for column in columns])
                copy.write(b"".join(chain.from_iterable(rows)))
            copy.write(_END)

    def _rows(self, columns: Sequence[Column]) -> Iterator[tuple[bytes, ...]]:
        """The pieces that each row consists of."""
        fixed = len(self._numbers)
        head = _numbers(self._numbers, len(columns), columns[:fixed])
        tails = [_parts(column) for column in columns[fixed:]]
        return zip(head, *tails, strict=True)


def runs(sizes: Sequence[int]) -> list[slice]:
    """Consecutive parts whose members together have `LARGEST_BYTES` at most, or are one."""
    if sum(sizes) <= LARGEST_BYTES:
        return [slice(0, len(sizes))]
    cuts, total = [0], 0
    for at, size in enumerate(sizes):
        total += size
        if total > LARGEST_BYTES and at > cuts[-1]:
            cuts.append(at)
            total = size
    return [slice(*each) for each in pairwise([*cuts, len(sizes)])]


def _numbers(kinds: Sequence[str], width: int, columns: Sequence[Column]) -> list[bytes]:
    """The beginning of each row: its number of columns, then its numbers with their lengths."""
    members = [("width", ">i2")]
    for at, kind in enumerate(kinds):
        members += [(f"length{at}", ">i4"), (f"value{at}", kind)]
    count = len(columns[0])
    rows = np.empty(count, dtype=members)
    rows["width"] = width
    for at, column in enumerate(columns):
        size = rows[f"length{at}"] = rows.dtype[f"value{at}"].itemsize
        try:
            rows[f"value{at}"] = column
        except OverflowError:
            raise arrays.too_large(column, size) from None
    # As one opaque value a row, which numpy hands out as bytes.
    opaque: Any = rows.view(np.dtype((np.void, rows.dtype.itemsize)))
    packed: list[bytes] = opaque.tolist()
    return packed


def _parts(column: Column) -> Iterator[bytes]:
    """The bytes of one text or byte string each, behind its length."""
    if column and isinstance(column[0], str) and None not in column:
        encoded = list(map(str.encode, column))
        return map(bytes.__add__, map(_length, map(len, encoded)), encoded)
    if not any(column) and all(each is None for each in column):
        return repeat(_NULL, len(column))
    return (_part(each) for each in column)


def _part(value: str | bytes | None) -> bytes:
    if value is None:
        return _NULL
    raw = value.encode() if isinstance(value, str) else value
    return _length(len(raw)) + raw
