"""Many pages packed and unpacked together: what `pages.encode` and `pages.decode` do one by one.

A body is a run of pieces: two bytes of head, the balance it is entered with, eight columns. The
pieces of all bodies are laid out first, one kind of piece after the other, and then filled, one
width after the other. No page is an object on the way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from amends_pipeline.inventory.key_columns import Flags, Integers, RowColumns
from amends_pipeline.store import arrays
from amends_pipeline.store.pages import CONSTANT, FORMAT, PAGE_DAYS

Bytes = NDArray[np.uint8]

_WIDTHS: Final = (1, 2, 4, 8)
_HEAD: Final = 2
_LENGTH: Final = 4
"""Bytes that tell the length of an array's element."""


# --- packing


class _Piece(NamedTuple):
    """A column of each body, or its entering balance: a mark, then numbers of one width."""

    marks: Integers
    widths: Integers
    counts: Integers
    """How many numbers stand in each body."""
    numbers: Integers
    """Those of all bodies."""

    @property
    def sizes(self) -> Integers:
        """Bytes of the piece in each body."""
        return 1 + self.widths * self.counts


def packed(pages: Integers, before: Integers, bounds: Integers, rows: RowColumns) -> arrays.Blobs:
    """Bodies of pages, each of which has at least one row, as an array of byte strings.

    Page `i` is entered with `before[i]`; its rows stand at `bounds[i]` up to `bounds[i + 1]`.
    """
    counts = np.diff(bounds)
    offsets = rows.days - np.repeat(pages * PAGE_DAYS, counts)
    pieces = [_single(before)]
    pieces += [_column(column.astype(np.int64), bounds) for column in (offsets, *rows[1:])]
    lengths: Integers = np.sum([piece.sizes for piece in pieces], axis=0) + _HEAD
    ends = np.cumsum(_LENGTH + lengths)
    data = np.empty(int(ends[-1]), dtype=np.uint8)
    at = ends - lengths
    _put(data, at - _LENGTH, lengths, ">i4")
    data[at], data[at + 1] = FORMAT, counts
    at += _HEAD
    for piece in pieces:
        _fill(data, at, piece)
        at += piece.sizes
    return arrays.joined_blobs(len(pages), data.tobytes())


def _single(numbers: Integers) -> _Piece:
    widths = _widths(numbers, numbers)
    return _Piece(widths, widths, np.ones_like(numbers), numbers)


def _column(numbers: Integers, bounds: Integers) -> _Piece:
    starts, counts = bounds[:-1], np.diff(bounds)
    low = np.minimum.reduceat(numbers, starts)
    high = np.maximum.reduceat(numbers, starts)
    varied = low != high
    widths = _widths(low, high)
    told = np.repeat(varied, counts)
    told[starts] = True
    marks = np.where(varied, widths, widths | CONSTANT)
    return _Piece(marks, widths, np.where(varied, counts, 1), numbers[told])


def _widths(low: Integers, high: Integers) -> Integers:
    """Bytes that numbers from `low` to `high` need."""
    widths = np.full(len(low), _WIDTHS[-1])
    for width in reversed(_WIDTHS[:-1]):
        limit = 1 << (8 * width - 1)
        widths[(low >= -limit) & (high < limit)] = width
    return widths


def _fill(data: Bytes, at: Integers, piece: _Piece) -> None:
    """Write a piece of each body where it begins."""
    data[at] = piece.marks
    for width, numbers, places in _by_width(at + 1, piece.widths, piece.counts):
        _put(data, places, piece.numbers[numbers], f"<i{width}")


def _by_width(
    at: Integers, widths: Integers, counts: Integers
) -> Iterator[tuple[int, Integers, Integers]]:
    """For each width: which numbers have it, and where each of them stands.

    `at` tells where the numbers of each body begin.
    """
    firsts = np.cumsum(counts) - counts
    for width in _WIDTHS:
        bodies = np.flatnonzero(widths == width)
        if not len(bodies):
            continue
        many = counts[bodies]
        steps = np.arange(int(many.sum()))
        before = np.cumsum(many) - many
        numbers = np.repeat(firsts[bodies] - before, many) + steps
        yield width, numbers, np.repeat(at[bodies] - width * before, many) + width * steps


def _put(data: Bytes, places: Integers, numbers: Integers, kind: str) -> None:
    raw = numbers.astype(kind).view(np.uint8).reshape(len(numbers), -1)
    for byte in range(raw.shape[1]):
        data[places + byte] = raw[:, byte]


# --- unpacking


class Unpacked(NamedTuple):
    """What pages hold: the balance that each is entered with, and the rows of all of them."""

    before: Integers
    bounds: Integers
    rows: RowColumns
    odd: Flags
    """Pages of another format or with wider numbers, which have no rows here."""


class _Found(NamedTuple):
    """A piece of each body, found but not read yet."""

    at: Integers
    """Where its numbers begin."""
    widths: Integers
    counts: Integers
    """How many numbers stand there: one for all rows, or one for each."""


def unpacked(pages: Integers, data: Bytes, starts: Integers) -> Unpacked:
    """What stands in the bodies that begin at `starts`, all of which have at least one row."""
    # A body that is not understood may lead a little beyond the last one.
    end = len(data)
    data = np.append(data, np.zeros(_HEAD + 1, dtype=np.uint8))
    counts = data[starts + 1].astype(np.int64)
    odd = data[starts] != FORMAT
    at = starts + _HEAD
    found: list[_Found] = []
    for rows_each in (np.ones_like(counts), *[counts] * len(RowColumns._fields)):
        marks = data[np.minimum(at, end)].astype(np.int64)
        widths = marks & (CONSTANT - 1)
        odd |= ~np.isin(widths, _WIDTHS)
        piece = _Found(at + 1, widths, np.where(marks & CONSTANT, 1, rows_each))
        found.append(piece)
        at = at + 1 + piece.widths * piece.counts
    if odd.any():
        plain = np.flatnonzero(~odd)
        found = [_Found(*(column[plain] for column in piece)) for piece in found]
        counts[odd] = 0
    bounds = np.zeros(len(starts) + 1, dtype=np.int64)
    np.cumsum(counts, out=bounds[1:])
    before = np.zeros(len(starts), dtype=np.int64)
    entering, *columns = found
    before[~odd] = _read(data, entering)
    days, *rest = (_spread(_read(data, piece), piece.counts, counts[~odd]) for piece in columns)
    days += np.repeat(pages * PAGE_DAYS, counts)
    sums, row_counts, closes, present, alerting, balance_versions, alert_versions = rest
    rows = RowColumns(
        days,
        sums,
        row_counts,
        closes,
        present != 0,
        alerting != 0,
        balance_versions,
        alert_versions,
    )
    return Unpacked(before, bounds, rows, odd)


def _read(data: Bytes, piece: _Found) -> Integers:
    """The numbers of a piece."""
    read = np.empty(int(piece.counts.sum()), dtype=np.int64)
    for width, numbers, places in _by_width(piece.at, piece.widths, piece.counts):
        raw = np.empty((len(numbers), width), dtype=np.uint8)
        for byte in range(width):
            raw[:, byte] = data[places + byte]
        read[numbers] = raw.view(f"<i{width}")[:, 0]
    return read


def _spread(numbers: Integers, told: Integers, counts: Integers) -> Integers:
    """One number for each row, where a page tells one for all of its rows or one for each."""
    repeats = np.ones(len(numbers), dtype=np.int64)
    single = told < counts
    firsts = np.cumsum(told) - told
    repeats[firsts[single]] = counts[single]
    return np.repeat(numbers, repeats)
