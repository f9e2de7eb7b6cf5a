"""A key's days, packed into pages of `PAGE_DAYS` calendar days each.

A page is the unit of reading and writing: a correction touches the pages from its earliest changed
day on, whatever the key's history. Page `n` covers the day numbers from `n * PAGE_DAYS` on, rounded
towards the past before 1970. A page body is, in this order:

    format, 1 byte | number of rows, 1 byte | entering balance | the eight columns of `Rows`

A number stands behind a byte that tells its width. A column is either one number for all of its
rows, its width byte marked `CONSTANT`, or a width byte and that many bytes for each row. Widths
are as small as the numbers allow and have no upper bound, so that no integer is ever cut: the sums
of a blocked key need not fit 64 bits. All is little-endian, two's complement.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain
from operator import itemgetter
from struct import Struct
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from amends_pipeline.inventory.refold import KeyChange, KeyState, Rows
from amends_pipeline.kernel.errors import DatabaseUnavailable

PAGE_DAYS: Final = 64
"""See docs/decisions/0003-row-layouts.md. Another number takes a migration of what is stored."""

NO_PAGE: Final = 2**31 - 1
"""First page of a key that has none."""
_MANY: Final = 12
"""From that many pages on, packing them column by column is quicker."""
FORMAT: Final = 1
CONSTANT: Final = 0x80
_WIDEST: Final = 0x7F
_CODES: Final = {1: "b", 2: "h", 4: "i", 8: "q"}
_MARKS: Final = {width: bytes((width,)) for width in _CODES}
_MOST_BITS: Final = 64
_WIDTHS: Final = [next(w for w in _CODES if bits <= 8 * w) for bits in range(_MOST_BITS + 1)]
"""Bytes by bits, the sign's included."""


def page_of(day: int) -> int:
    """The page that a day lies on."""
    return day // PAGE_DAYS


def first_day(page: int) -> int:
    """The first day that a page covers."""
    return page * PAGE_DAYS


# --- the body of a page


def encode(page: int, before: int, rows: Rows) -> bytes:
    """Pack the rows of one page, which is entered with the published balance `before`."""
    days = rows.days
    columns: Iterable[Sequence[int]] = rows[1:]
    head = bytes((FORMAT, len(days))) + _packed_number(before)
    return head + _packed_days(days, first_day(page)) + b"".join(map(_packed_column, columns))


def decode(page: int, body: bytes) -> tuple[int, Rows]:
    """Unpack a page: the published balance that it is entered with, and its rows."""
    if body[0] != FORMAT:
        expected = f"a page of days in format {FORMAT}"
        raise DatabaseUnavailable("stored state", expected=expected, found=f"format {body[0]}")
    count, at = body[1], 2
    before, at = _number(body, at)
    columns: list[list[int]] = []
    for _ in Rows._fields:
        column, at = _column(body, at, count)
        columns.append(column)
    offsets, sums, counts, closes, present, alerting, balance_versions, alert_versions = columns
    base = first_day(page)
    return before, Rows(
        [base + offset for offset in offsets],
        sums,
        counts,
        closes,
        [value != 0 for value in present],
        [value != 0 for value in alerting],
        balance_versions,
        alert_versions,
    )


def _width(low: int, high: int) -> int:
    """Bytes that numbers from `low` to `high` need: 1, 2, 4, 8, or as many as it takes."""
    bits = ((~low if low < 0 else low) | (~high if high < 0 else high)).bit_length() + 1
    if bits <= _MOST_BITS:
        return _WIDTHS[bits]
    width = (bits + 7) // 8
    if width > _WIDEST:
        expected = f"numbers of at most {_WIDEST} bytes"
        raise DatabaseUnavailable("stored state", expected=expected, found=f"one of {width}")
    return width


@cache
def _struct(count: int, width: int) -> Struct:
    return Struct(f"<{count}{_CODES[width]}")


def _packed_number(value: int) -> bytes:
    width = _width(value, value)
    return bytes((width,)) + int(value).to_bytes(width, "little", signed=True)


def _number(body: bytes, at: int) -> tuple[int, int]:
    end = at + 1 + (body[at] & _WIDEST)
    return int.from_bytes(body[at + 1 : end], "little", signed=True), end


def _packed_days(days: Sequence[int], base: int) -> bytes:
    if days[-1] - days[0] == len(days) - 1:
        return _packed_range(days[0] - base, len(days))
    return _packed_column([day - base for day in days])


@cache
def _packed_range(start: int, count: int) -> bytes:
    """What most pages begin with: days without a gap."""
    return _packed_column(range(start, start + count))


def _packed_column(column: Sequence[int]) -> bytes:
    count, first = len(column), column[0]
    if column[-1] == first and column.count(first) == count:
        return _constant(first)
    # To try is quicker than to look for the smallest and the largest number first.
    for width, mark in _MARKS.items():
        packed = _if_it_fits(_struct(count, width), column)
        if packed is not None:
            return mark + packed
    width = _width(min(column), max(column))
    wide = (value.to_bytes(width, "little", signed=True) for value in column)
    return bytes((width, *b"".join(wide)))


def _if_it_fits(numbers: Struct, column: Sequence[int]) -> bytes | None:
    try:
        return numbers.pack(*column)
    except struct.error:
        return None


def _column(body: bytes, at: int, count: int) -> tuple[list[int], int]:
    mark = body[at]
    if mark & CONSTANT:
        value, end = _number(body, at)
        return [value] * count, end
    at += 1
    end = at + mark * count
    if mark in _CODES:
        return list(_struct(count, mark).unpack_from(body, at)), end
    steps = range(at, end, mark)
    return [int.from_bytes(body[i : i + mark], "little", signed=True) for i in steps], end


# --- states from pages


def load(pages: Iterable[tuple[int, bytes]], opening: int) -> tuple[int, Rows]:
    """Put consecutive pages together: the balance that the first is entered with, and all rows."""
    parts = [decode(page, body) for page, body in pages]
    if not parts:
        return opening, Rows.none()
    columns = zip(*(rows for _, rows in parts), strict=True)
    whole = Rows(*(list(chain.from_iterable(column)) for column in columns))
    return parts[0][0], whole


# --- pages from states


class _Part(NamedTuple):
    """Rows of one state that make a page."""

    key: int
    page: int
    state: KeyState
    start: int
    stop: int

    @property
    def before(self) -> int:
        return self.state.rows.closes[self.start - 1] if self.start else self.state.before

    def body(self) -> bytes:
        return encode(self.page, self.before, self.state.rows.between(self.start, self.stop))


def writes(changes: Mapping[int, Sequence[KeyChange]]) -> list[tuple[int, int, bytes]]:
    """(key, page, body) of the pages that consecutive changes of each key touch.

    Each is packed once, as the last change of it leaves it. No row ever leaves the store, so no
    page does either.
    """
    parts = [part for key, history in changes.items() for part in _parts(key, history)]
    bodies = [part.body() for part in parts] if len(parts) < _MANY else _bodies(parts)
    return [(part.key, part.page, body) for part, body in zip(parts, bodies, strict=True)]


def _parts(key: int, changes: Sequence[KeyChange]) -> Iterator[_Part]:
    latest: dict[int, KeyState] = {}
    for state, changed, _ in changes:
        latest |= dict.fromkeys(_pages(state.rows.days, *changed), state)
    for page, state in sorted(latest.items(), key=_page):
        days = state.rows.days
        start = bisect_left(days, first_day(page))
        yield _Part(key, page, state, start, bisect_left(days, first_day(page + 1), start))


_page = itemgetter(0)


def _pages(days: Sequence[int], start: int, stop: int) -> Iterator[int]:
    while start < stop:
        page = page_of(days[start])
        yield page
        start = bisect_left(days, first_day(page + 1), start)


# --- many pages, column by column: the same bytes


def _bodies(parts: Sequence[_Part]) -> list[bytes]:
    stops = np.cumsum([part.stop - part.start for part in parts])
    starts = np.append(0, stops[:-1])
    bases = np.repeat([first_day(part.page) for part in parts], stops - starts)
    pieces: list[Iterable[bytes]] = [
        [bytes((FORMAT, part.stop - part.start)) + _packed_number(part.before) for part in parts]
    ]
    for at in range(len(Rows._fields)):
        column: list[int] = []
        for part in parts:
            values: Sequence[int] = part.state.rows[at]
            column += values[part.start : part.stop]
        try:
            numbers = np.fromiter(column, np.int64, len(column))
        except OverflowError:
            extents = zip(starts.tolist(), stops.tolist(), strict=True)
            pieces.append([_packed_column(column[start:stop]) for start, stop in extents])
            continue
        if at == 0:
            numbers -= bases
        pieces.append(_packed_columns(numbers, starts, stops))
    return [b"".join(body) for body in zip(*pieces, strict=True)]


def _packed_columns(
    numbers: NDArray[np.int64], starts: NDArray[np.int64], stops: NDArray[np.int64]
) -> Iterator[bytes]:
    """What `_packed_column` makes of each part of a column."""
    low = np.minimum.reduceat(numbers, starts)
    high = np.maximum.reduceat(numbers, starts)
    widths = np.full(len(starts), 8)
    for width in (4, 2, 1):
        limit = 1 << (8 * width - 1)
        widths[(low >= -limit) & (high < limit)] = width
    varied = low != high
    packed = {
        width: numbers.astype(f"<i{width}").tobytes()
        for width in np.unique(widths[varied]).tolist()
    }
    columns = (low, varied, widths, starts, stops)
    for value, varies, width, start, stop in zip(*map(np.ndarray.tolist, columns), strict=True):
        if varies:
            yield _MARKS[width] + packed[width][start * width : stop * width]
        else:
            yield _constant(value)


@lru_cache(maxsize=4096)
def _constant(value: int) -> bytes:
    packed = _packed_number(value)
    return bytes((packed[0] | CONSTANT,)) + packed[1:]
