from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.kernel import instant_columns
from amends_pipeline.kernel.instant_columns import parse_instants
from amends_pipeline.kernel.instants import Instant, InstantSyntaxError, parse_instant

from .test_instants import REFUSED

GOOD = [
    "2026-01-01T00:00:00Z",
    "1970-01-01T00:00:00.000000001Z",
    "1969-12-31T23:59:59.999999999Z",
    "2026-01-01T00:30:00+01:00",
    "2026-01-01T23:59:59.999999999-23:59",
    "2026-01-01T10:30:05.25Z",
    "2026-01-01T10:30:05.2500+00:00",
    "2000-02-29T12:00:00Z",
    "9999-12-31T23:59:59-00:01",
    "0000-02-29T00:00:00Z",
    "0000-01-01T00:00:00+23:59",
]


def alone(text: bytes) -> Instant | None:
    try:
        return parse_instant(text.decode())
    except (InstantSyntaxError, UnicodeDecodeError):
        return None


def together(texts: list[bytes]) -> list[Instant | None]:
    """Parse texts that stand side by side."""
    lengths = np.array([*map(len, texts)], np.int64)
    ends = np.cumsum(lengths)
    days, nanoseconds, sound = parse_instants(b"".join(texts), ends - lengths, ends)
    assert not days[~sound].any()
    assert not nanoseconds[~sound].any()
    return [
        Instant(*each) if right else None
        for *each, right in zip(days.tolist(), nanoseconds.tolist(), sound.tolist(), strict=True)
    ]


@pytest.mark.parametrize("text", [*GOOD, *REFUSED])
def test_a_timestamp_reads_as_it_does_alone(text):
    raw = text.encode()
    assert (alone(raw) is None) == (text in REFUSED)
    assert together([raw]) == [alone(raw)]
    assert together([b"2026-01-01T00:00:00Z", raw, raw]) == [(20_454, 0), alone(raw), alone(raw)]


def test_timestamps_of_all_kinds_stand_side_by_side():
    texts = [text.encode() for text in [*GOOD, *REFUSED, *GOOD]] + [b"\xff" * 20, b"\x80"]
    assert together(texts) == [alone(text) for text in texts]
    assert together([]) == []


def test_every_day_of_the_calendar_and_those_that_are_not():
    days = [
        f"{year:04d}-{month:02d}-{day:02d}T00:00:00Z".encode()
        for year in (*range(5), 1899, 1900, 1970, 2000, 2024, 2026, 9999)
        for month in range(14)
        for day in range(33)
    ]
    assert together(days) == [alone(text) for text in days]


@pytest.mark.parametrize("text", ["2026-01-02T10:00:00Z", "2024-02-29T23:59:59.75+05:30"])
def test_no_single_byte_parts_columns_from_rows(text):
    raw = text.encode()
    texts = [
        raw[:place] + bytes([byte]) + raw[place + length :]
        for place in range(len(raw))
        for byte in range(256)
        for length in (0, 1, 2)
    ]
    assert together(texts) == [alone(text) for text in texts]


def test_usual_timestamps_are_not_parsed_one_by_one(monkeypatch):
    monkeypatch.setattr(instant_columns, "parse_instant", None)
    texts = [text.encode() for text in GOOD]
    assert together(texts) == [alone(text) for text in texts]


CHARACTERS = st.text("0123456789-+:.TZ \u0661", max_size=40)
SPELLED = st.builds(
    lambda date, time, fraction, zone: f"{date}T{time}{fraction}{zone}",
    st.dates().map(str),
    st.times().map(lambda time: f"{time:%H:%M:%S}"),
    st.just("") | st.text("0123456789", max_size=10).map(lambda digits: f".{digits}"),
    st.just("Z")
    | st.builds("{}{:02d}:{:02d}".format, st.sampled_from("+-"), *[st.integers(0, 70)] * 2),
)


@given(st.lists((SPELLED | CHARACTERS).map(str.encode) | st.binary(max_size=24), max_size=12))
def test_each_is_read_as_it_is_alone(texts):
    assert together(texts) == [alone(text) for text in texts]
