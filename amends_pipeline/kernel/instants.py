"""Instants of time, exact to the nanosecond, as two integers.

The grammar is RFC 3339 as the inventory contract narrows it: `YYYY-MM-DDThh:mm:ss`, at most nine
fraction digits after a full stop, then `Z` or `+hh:mm` or `-hh:mm`. Letters are upper case, digits
are ASCII; second 60 and dates that do not exist are refused. `-00:00` is UTC. Year 0000 passes the
grammar (a leap year of the proleptic Gregorian calendar) although it lies outside the supported
range.

Nothing here reads a clock, a time zone of the host, or a locale, and no native timestamp type is
involved: Python's own cuts digits past the microsecond.
"""

from __future__ import annotations

import re
from datetime import date
from typing import NamedTuple

NANOSECONDS_PER_SECOND = 1_000_000_000
NANOSECONDS_PER_DAY = 86_400 * NANOSECONDS_PER_SECOND
_NANOSECONDS_PER_MINUTE = 60 * NANOSECONDS_PER_SECOND

MIN_DAY = -719_162
"""0001-01-01, the first supported UTC day."""
MAX_DAY = 2_932_896
"""9999-12-31, the last supported UTC day."""

DATE_END = 10
"""How many characters of a timestamp are its date."""
MINUTE_END = 17
"""Where its hour and minute end, the colon before the second included."""

_EPOCH_ORDINAL = 719_163  # date(1970, 1, 1).toordinal()
_DAYS_PER_CYCLE = 146_097  # 400 years; the Gregorian calendar repeats after them

_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_MINUTE = re.compile(r"T([01][0-9]|2[0-3]):([0-5][0-9]):")
_SECOND = re.compile(r"([0-5][0-9])(?:\.([0-9]{1,9}))?(?:Z|([+-])([01][0-9]|2[0-3]):([0-5][0-9]))")


class Instant(NamedTuple):
    """A point in time in UTC. Instants compare in time order."""

    day: int
    """Days since 1970-01-01; negative before it."""
    nanosecond: int
    """Nanoseconds since the start of that day, 0 to 86,399,999,999,999."""


class InstantSyntaxError(ValueError):
    """A text is not a date or timestamp of the grammar. It never leaves the reader that asked."""


def parse_instant(text: str) -> Instant:
    """Read a timestamp and convert it to UTC.

    The result may lie outside `MIN_DAY` to `MAX_DAY`: by year 0000, or by an offset at either end.
    Raises `InstantSyntaxError`.
    """
    day = parse_date_part(text[:DATE_END])
    nanosecond = parse_minute_part(text[DATE_END:MINUTE_END]) + parse_second_part(text[MINUTE_END:])
    shift, nanosecond = divmod(nanosecond, NANOSECONDS_PER_DAY)
    return Instant(day + shift, nanosecond)


def parse_date_part(text: str) -> int:
    """Read `YYYY-MM-DD`, year 0000 included, as a day number. Raises `InstantSyntaxError`."""
    match = _DATE.fullmatch(text)
    if match is None:
        raise InstantSyntaxError(text)
    year, month, day = map(int, match.groups())
    try:
        if year == 0:
            return date(400, month, day).toordinal() - _DAYS_PER_CYCLE - _EPOCH_ORDINAL
        return date(year, month, day).toordinal() - _EPOCH_ORDINAL
    except ValueError:
        raise InstantSyntaxError(text) from None


def parse_minute_part(text: str) -> int:
    """Read `Thh:mm:`, the part after the date, in nanoseconds. Raises `InstantSyntaxError`."""
    match = _MINUTE.fullmatch(text)
    if match is None:
        raise InstantSyntaxError(text)
    hour, minute = map(int, match.groups())
    return (hour * 60 + minute) * _NANOSECONDS_PER_MINUTE


def parse_second_part(text: str) -> int:
    """Read `ss[.fraction]` and the offset, the last part, in nanoseconds.

    The offset is taken away, so that the sum of the parts is the time in UTC since the start of the
    written day: less than nothing, or a day and more, where UTC has another date. Raises
    `InstantSyntaxError`.
    """
    match = _SECOND.fullmatch(text)
    if match is None:
        raise InstantSyntaxError(text)
    second, fraction, sign, offset_hour, offset_minute = match.groups()
    nanoseconds = int(second) * NANOSECONDS_PER_SECOND
    if fraction is not None:
        nanoseconds += int(fraction.ljust(9, "0"))
    if sign is not None:
        offset = (int(offset_hour) * 60 + int(offset_minute)) * _NANOSECONDS_PER_MINUTE
        nanoseconds += offset if sign == "-" else -offset
    return nanoseconds


def in_range(instant: Instant) -> bool:
    """Tell whether the instant lies within 0001-01-01 to 9999-12-31, both included."""
    return MIN_DAY <= instant.day <= MAX_DAY


def parse_day(text: str) -> int:
    """Read a supported day written `YYYY-MM-DD`; the inverse of `day_text`.

    Raises `InstantSyntaxError`, also for year 0000.
    """
    day = parse_date_part(text)
    if day < MIN_DAY:
        raise InstantSyntaxError(text)
    return day


def day_text(day: int) -> str:
    """Write a supported day as `YYYY-MM-DD`. Raises `ValueError` outside `MIN_DAY` to `MAX_DAY`."""
    if not MIN_DAY <= day <= MAX_DAY:
        message = f"day {day} lies outside 0001-01-01 to 9999-12-31"
        raise ValueError(message)
    return date.fromordinal(day + _EPOCH_ORDINAL).isoformat()


def instant_text(instant: Instant) -> str:
    """Write a supported instant in UTC, its fraction without trailing zeros.

    Raises `ValueError` outside `MIN_DAY` to `MAX_DAY`.
    """
    seconds, fraction = divmod(instant.nanosecond, NANOSECONDS_PER_SECOND)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    digits = f".{fraction:09d}".rstrip("0").rstrip(".")
    return f"{day_text(instant.day)}T{hour:02d}:{minute:02d}:{second:02d}{digits}Z"
