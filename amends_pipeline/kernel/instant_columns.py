"""Many timestamps at once: the grammar of `instants` over whole columns.

`parse_instant` is the meaning. Here the usual spellings are read eight characters a step as 64-bit
integers, and only what is proven is taken: every character is a digit or the mark of its place, the
day stands in the calendar, and the fields are in range. Whatever is not proven goes to
`parse_instant`, one by one, so that no timestamp is refused by the fast way alone.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from amends_pipeline.kernel.instants import (
    NANOSECONDS_PER_DAY,
    NANOSECONDS_PER_SECOND,
    InstantSyntaxError,
    parse_instant,
)
from amends_pipeline.kernel.words import HIGH_BITS, Words, words_of

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_SHORTEST: Final = 20  # YYYY-MM-DDThh:mm:ssZ
_LONGEST: Final = 35  # YYYY-MM-DDThh:mm:ss.fffffffff+hh:mm
_SECOND_END: Final = 19
_OFFSET: Final = 6  # +hh:mm
_FRACTION_DIGITS: Final = 9
_MONTHS: Final = 12
_LAST_HOUR: Final = 23
_LAST_MINUTE: Final = 59
_LAST_SECOND: Final = 59
_NINE: Final = 9
_EPOCH: Final = 719_528  # days from 0000-01-01 to 1970-01-01
_NANOSECONDS_PER_MINUTE: Final = 60 * NANOSECONDS_PER_SECOND


class InstantColumns(NamedTuple):
    """Instants as columns of equal length; the integers are 0 where a text is not a timestamp."""

    days: Integers
    """UTC day numbers since 1970-01-01."""
    nanoseconds: Integers
    """Nanoseconds since the start of that day."""
    sound: Flags


def parse_instants(raw: bytes, starts: Integers, ends: Integers) -> InstantColumns:
    """Read the timestamps `raw[start:end]`, each as `parse_instant` reads it.

    What is not UTF-8 is no timestamp. The results may lie outside the supported range.
    """
    days = np.zeros(len(starts), np.int64)
    nanoseconds = np.zeros(len(starts), np.int64)
    sound = np.zeros(len(starts), np.bool_)
    words = words_of(raw)
    lengths = ends - starts
    characters = np.frombuffer(raw, np.uint8)
    met = np.bincount(np.minimum(lengths, _LONGEST + 1), minlength=_LONGEST + 1)
    for length in range(_SHORTEST, _LONGEST + 1):
        if not met[length]:
            continue
        of_length = lengths == length
        rows = slice(None) if of_length.all() else np.flatnonzero(of_length)
        heads = _heads(words, starts[rows])
        tail = _tails(characters, starts[rows] + _SECOND_END, length - _SECOND_END)
        days[rows], nanoseconds[rows], sound[rows] = _in_utc(heads, tail)
    for row in np.flatnonzero(~sound).tolist():
        try:
            instant = parse_instant(raw[starts[row] : ends[row]].decode())
        except (InstantSyntaxError, UnicodeDecodeError):
            continue
        days[row], nanoseconds[row], sound[row] = *instant, True
    return InstantColumns(days, nanoseconds, sound)


class _Spelling(NamedTuple):
    """Eight characters: digits where a "0" stands, else the character itself."""

    marks: np.uint64
    headroom: np.uint64  # what lifts the smallest wrong character of each place to 128

    @classmethod
    def of(cls, pattern: bytes) -> _Spelling:
        headroom = bytes(128 - (10 if each == ord("0") else 1) for each in pattern)
        return cls(*(np.uint64(int.from_bytes(each, "little")) for each in (pattern, headroom)))

    def pairs(self, words: Words) -> tuple[Integers, Flags]:
        """Return two-digit numbers, one a byte, and which words are spelled so.

        A right digit leaves 0 to 9 of the exclusive or, a right mark leaves 0. With all bytes below
        128 no sum carries into the next byte; a byte of 128 and more is wrong by itself.
        """
        digits = words ^ self.marks
        wrong = (digits | (digits + self.headroom)) & HIGH_BITS
        pairs = digits * _TEN + (digits >> _BYTE)
        return pairs.view(np.int64), wrong == 0


_TEN = np.uint64(10)
_BYTE = np.uint64(8)
_YEAR_AND_MONTH = _Spelling.of(b"0000-00-")
_DAY_AND_HOUR = _Spelling.of(b"00T00:00")
_TIME = _Spelling.of(b"00:00:00")


def _heads(words: Words, starts: Integers) -> InstantColumns:
    """Read `YYYY-MM-DDThh:mm:ss`."""
    pairs, sound = _YEAR_AND_MONTH.pairs(words[starts])
    month = (pairs >> 40) & 0xFF
    months = ((pairs & 0xFF) * 100 + ((pairs >> 16) & 0xFF)) * 12 + month - 1
    sound &= (month >= 1) & (month <= _MONTHS)
    pairs, spelled = _DAY_AND_HOUR.pairs(words[starts + 8])
    sound &= spelled
    months[~sound] = 0  # any place of the table
    firsts = _firsts_of_months()
    day = pairs & 0xFF
    days = firsts[months] + (day - 1)
    sound &= (day >= 1) & (days < firsts[months + 1])
    pairs, spelled = _TIME.pairs(words[starts + 11])
    hour, minute, second = pairs & 0xFF, (pairs >> 24) & 0xFF, (pairs >> 48) & 0xFF
    sound &= spelled & (hour <= _LAST_HOUR) & (minute <= _LAST_MINUTE) & (second <= _LAST_SECOND)
    seconds = (hour * 60 + minute) * 60 + second
    return InstantColumns(days, seconds * NANOSECONDS_PER_SECOND, sound)


@cache
def _firsts_of_months() -> Integers:
    """Day number of the first of each month from 0000-01 on, and of 10000-01."""
    months = np.arange(12 * 10_000)
    years = months // 12
    leap = ((years % 4 == 0) & (years % 100 != 0)) | (years % 400 == 0)
    lengths = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])[months % 12]
    lengths += leap & (months % 12 == 1)
    return np.concatenate([[0], np.cumsum(lengths)]) - _EPOCH


def _tails(characters: npt.NDArray[np.uint8], starts: Integers, length: int) -> InstantColumns:
    """Read `[.fraction]` and the zone, `length` characters, as nanoseconds to add and no days."""
    ends = starts + length
    utc = characters[ends - 1] == ord("Z")
    if length == 1:
        nothing = np.zeros(len(starts), np.int64)
        return InstantColumns(nothing, nothing, utc)
    columns = InstantColumns(*(np.zeros(len(starts), kind) for kind in (int, int, bool)))
    for rows, zone in ((np.flatnonzero(utc), 1), (np.flatnonzero(~utc), _OFFSET)):
        if 0 <= length - zone <= _FRACTION_DIGITS + 1 and len(rows):
            fraction, right = _fractions(characters, starts[rows], length - zone)
            if zone == _OFFSET:
                offset, spelled = _offsets(characters, ends[rows] - _OFFSET)
                fraction -= offset
                right &= spelled
            columns.nanoseconds[rows], columns.sound[rows] = fraction, right
    return columns


def _fractions(
    characters: npt.NDArray[np.uint8], starts: Integers, length: int
) -> tuple[Integers, Flags]:
    value = np.zeros(len(starts), np.int64)
    if length == 0:
        return value, np.ones(len(starts), np.bool_)
    sound = (characters[starts] == ord(".")) & (length > 1)
    for place in range(1, length):
        digit = characters[starts + place] - np.uint8(ord("0"))  # wraps: no digit is above 9
        sound &= digit <= _NINE
        value = value * 10 + digit
    return value * 10 ** (_FRACTION_DIGITS + 1 - length), sound


def _offsets(characters: npt.NDArray[np.uint8], starts: Integers) -> tuple[Integers, Flags]:
    """Read `+hh:mm` or `-hh:mm`."""
    sign = characters[starts]
    sound = ((sign == ord("+")) | (sign == ord("-"))) & (characters[starts + 3] == ord(":"))
    numbers = []
    for place in (1, 4):
        tens, units = (characters[starts + at] - np.uint8(ord("0")) for at in (place, place + 1))
        sound &= (tens <= _NINE) & (units <= _NINE)
        numbers.append(tens.astype(np.int64) * 10 + units)
    hours, minutes = numbers
    sound &= (hours <= _LAST_HOUR) & (minutes <= _LAST_MINUTE)
    offset = (hours * 60 + minutes) * _NANOSECONDS_PER_MINUTE
    return np.where(sign == ord("-"), -offset, offset), sound


def _in_utc(head: InstantColumns, tail: InstantColumns) -> InstantColumns:
    sound = head.sound & tail.sound
    nanoseconds = head.nanoseconds + tail.nanoseconds
    days = head.days
    if ((nanoseconds < 0) | (nanoseconds >= NANOSECONDS_PER_DAY)).any():
        shift, nanoseconds = np.divmod(nanoseconds, NANOSECONDS_PER_DAY)
        days = days + shift
    return InstantColumns(np.where(sound, days, 0), np.where(sound, nanoseconds, 0), sound)
