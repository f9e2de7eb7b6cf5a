from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.kernel.instants import (
    MAX_DAY,
    MIN_DAY,
    NANOSECONDS_PER_DAY,
    Instant,
    InstantSyntaxError,
    day_text,
    in_range,
    instant_text,
    parse_day,
    parse_instant,
)

HOUR = 3_600 * 10**9
LAST = 86_400 * 10**9 - 1  # the last nanosecond of a day

REFUSED = [
    "",
    "2026-01-02",
    "2026-01-02T10:00:00",
    "2026-01-02T10:00Z",
    "2026-01-02t10:00:00Z",
    "2026-01-02T10:00:00z",
    "2026-01-02 10:00:00Z",
    "2026-01-02T10:00:00 Z",
    " 2026-01-02T10:00:00Z",
    "2026-01-02T10:00:00Z ",
    "2026-01-02T10:00:00Z\n",
    "2026-01-02\nT10:00:00Z",
    "2026-01-02T10:00:00.Z",
    "2026-01-02T10:00:00,5Z",
    "2026-01-02T10:00:00.1234567890Z",
    "2026-01-02T10:00:00.12345678x Z",
    "2026-01-02T24:00:00Z",
    "2026-01-02T23:60:00Z",
    "2026-06-30T23:59:60Z",
    "2026-01-02T10:00:00+0100",
    "2026-01-02T10:00:00+01",
    "2026-01-02T10:00:00+1:00",
    "2026-01-02T10:00:00+24:00",
    "2026-01-02T10:00:00+01:60",
    "2026-01-02T10:00:00+01:00:30",
    "2026-01-02T10:00:00\u221201:00",
    "2026-01-02T10:00:00Z+00:00",
    "2026-00-10T00:00:00Z",
    "2026-13-01T00:00:00Z",
    "2026-01-00T00:00:00Z",
    "2026-01-32T00:00:00Z",
    "2026-04-31T00:00:00Z",
    "2026-02-29T00:00:00Z",
    "1900-02-29T00:00:00Z",
    "0000-02-30T00:00:00Z",
    "10000-01-01T00:00:00Z",
    "+2026-01-02T10:00:00Z",
    "-001-01-02T10:00:00Z",
    "20260102T100000Z",
    "2026-W01-1T00:00:00Z",
    "2026-001T00:00:00Z",
    "infinity",
    "now",
    "\u0662\u0660\u0662\u0666-01-02T10:00:00Z",
    "2026-01-02T1\uff10:00:00Z",
    "2026-01-02T10:00:00.\u0661Z",
    "2026-01-02T10:00:00+0\u0661:00",
]


@pytest.mark.parametrize(
    ("text", "day", "nanosecond"),
    [
        ("1970-01-01T00:00:00Z", 0, 0),
        ("1970-01-01T00:00:00.000000001Z", 0, 1),
        ("1969-12-31T23:59:59.999999999Z", -1, LAST),
        ("2026-01-01T00:00:00Z", 20_454, 0),
        ("2026-01-01T10:30:05.25Z", 20_454, 10 * HOUR + 1_805_250_000_000),
        ("2026-01-01T00:30:00+01:00", 20_453, 23 * HOUR + HOUR // 2),
        ("2026-01-01T23:30:00-01:00", 20_455, HOUR // 2),
        ("2026-01-01T05:30:00+05:30", 20_454, 0),
        ("2026-01-01T23:59:00-00:01", 20_455, 0),
        ("2026-01-01T00:00:00-00:00", 20_454, 0),
        ("2026-01-01T00:00:00+23:59", 20_453, 60 * 10**9),
        ("2026-01-01T23:59:59.999999999-23:59", 20_455, LAST - 60 * 10**9),
        ("2000-02-29T12:00:00Z", 11_016, 12 * HOUR),
        ("0001-01-01T00:00:00Z", -719_162, 0),
        ("9999-12-31T23:59:59.999999999Z", 2_932_896, LAST),
        ("9999-12-31T23:59:59-00:01", 2_932_897, 59 * 10**9),
        ("0001-01-01T00:00:00+00:01", -719_163, 86_340 * 10**9),
        ("0000-12-31T23:59:59Z", -719_163, 86_399 * 10**9),
        ("0000-02-29T00:00:00Z", -719_469, 0),
        ("0000-01-01T00:00:00+23:59", -719_529, 60 * 10**9),
    ],
)
def test_timestamps_and_the_instants_they_name(text, day, nanosecond):
    assert parse_instant(text) == Instant(day, nanosecond)


@pytest.mark.parametrize("text", REFUSED)
def test_other_texts_are_not_timestamps(text):
    with pytest.raises(InstantSyntaxError):
        parse_instant(text)


def julian_day(year: int, month: int, day: int) -> int:
    """Count days in integers alone, by the formula of the astronomical almanacs."""
    before_march = 1 if month <= 2 else 0
    years = year + 4800 - before_march
    months = month + 12 * before_march - 3
    leaps = years // 4 - years // 100 + years // 400
    return day + (153 * months + 2) // 5 + 365 * years + leaps - 32_045


def test_every_day_of_the_calendar_has_its_number():
    expected = julian_day(0, 1, 1) - julian_day(1970, 1, 1)
    months = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    for year in (*range(5), *range(1895, 2105), *range(9995, 10_000)):
        expected = julian_day(year, 1, 1) - julian_day(1970, 1, 1)
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        for month, length in enumerate(months, start=1):
            for day in range(1, length + (leap and month == 2) + 1):
                text = f"{year:04d}-{month:02d}-{day:02d}"
                assert parse_instant(f"{text}T00:00:00Z") == (expected, 0), text
                expected += 1


@given(
    st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)),  # noqa: DTZ001 - the zone is drawn apart
    st.integers(-1439, 1439),
)
def test_offsets_and_fractions_agree_with_the_standard_library(moment, offset):
    moment = moment.replace(tzinfo=timezone(timedelta(minutes=offset)))
    since_epoch = moment - datetime(1970, 1, 1, tzinfo=UTC)
    nanosecond = (since_epoch.seconds * 10**6 + since_epoch.microseconds) * 1000
    sign = "-" if offset < 0 else "+"
    zone = f"{sign}{abs(offset) // 60:02d}:{abs(offset) % 60:02d}"
    text = f"{moment:%H:%M:%S}.{moment.microsecond:06d}{zone}"
    parsed = parse_instant(f"{moment.date().isoformat()}T{text}")
    assert parsed == (since_epoch.days, nanosecond)


@given(st.integers(MIN_DAY, MAX_DAY), st.integers(0, NANOSECONDS_PER_DAY - 1))
def test_a_written_instant_reads_back(day, nanosecond):
    instant = Instant(day, nanosecond)
    text = instant_text(instant)
    assert parse_instant(text) == instant
    assert ".0Z" not in text
    assert not text.endswith(".Z")


@pytest.mark.parametrize(
    ("instant", "text"),
    [
        (Instant(20_454, 0), "2026-01-01T00:00:00Z"),
        (Instant(20_454, 10 * HOUR + 50_000_000), "2026-01-01T10:00:00.05Z"),
        (Instant(MIN_DAY, 1), "0001-01-01T00:00:00.000000001Z"),
        (Instant(MAX_DAY, LAST), "9999-12-31T23:59:59.999999999Z"),
    ],
)
def test_instants_are_written_in_utc_without_trailing_zeros(instant, text):
    assert instant_text(instant) == text


@pytest.mark.parametrize(
    ("day", "expected"),
    [(MIN_DAY - 1, False), (MIN_DAY, True), (0, True), (MAX_DAY, True), (MAX_DAY + 1, False)],
)
def test_the_supported_range_holds_both_its_ends(day, expected):
    assert in_range(Instant(day, 0)) is expected


@pytest.mark.parametrize("day", [MIN_DAY - 1, MAX_DAY + 1])
def test_a_day_outside_the_range_is_not_written(day):
    with pytest.raises(ValueError, match="outside 0001-01-01 to 9999-12-31"):
        day_text(day)


@pytest.mark.parametrize(
    ("text", "day"), [("0001-01-01", MIN_DAY), ("1970-01-01", 0), ("9999-12-31", MAX_DAY)]
)
def test_days_and_their_numbers(text, day):
    assert parse_day(text) == day
    assert day_text(day) == text


@given(st.integers(MIN_DAY, MAX_DAY))
def test_a_written_day_reads_back(day):
    assert parse_day(day_text(day)) == day


@pytest.mark.parametrize(
    "text",
    ["0000-12-31", "2026-1-2", "2026-02-29", "2026-01-02Z", "2026-01-02\n", "10000-01-01", ""],
)
def test_other_texts_are_not_days(text):
    with pytest.raises(InstantSyntaxError):
        parse_day(text)


def test_the_host_time_zone_changes_nothing(monkeypatch):
    try:
        for zone in ("UTC", "Pacific/Apia", "America/St_Johns"):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            # Apia skipped this whole day.
            assert parse_instant("2011-12-30T12:00:00Z") == (15_338, 12 * HOUR)
            assert day_text(15_338) == "2011-12-30"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_instants_compare_in_time_order():
    assert Instant(1, LAST) < Instant(2, 0) < Instant(2, 1)
