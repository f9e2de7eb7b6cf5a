from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.kernel.integer_columns import SPACE_BEFORE, parse_integers

PLAIN = re.compile(rb"-?(0|[1-9][0-9]*)")
MAX = 2**63 - 1


def alone(text: bytes) -> int | None:
    """Read one number the plain way; None where columns do not prove it."""
    if PLAIN.fullmatch(text) is None or not -MAX <= int(text) <= MAX:
        return None
    return int(text)


def together(texts: list[bytes], between: bytes = b"7" * SPACE_BEFORE) -> list[int | None]:
    """Read numbers that stand in one byte string, the last one at its end."""
    ends = np.cumsum([len(between) + len(text) for text in texts], dtype=np.int64)
    begins = ends - np.array([len(text) for text in texts], dtype=np.int64)
    numbers, right = parse_integers(b"".join(between + text for text in texts), begins, ends)
    assert (numbers.dtype, right.dtype) == (np.int64, np.bool_)
    return [
        number if proven else None
        for number, proven in zip(numbers.tolist(), right.tolist(), strict=True)
    ]


NUMBERS = {
    "0": 0,
    "-0": 0,
    "7": 7,
    "-50": -50,
    "12345678": 12_345_678,
    "123456789": 123_456_789,
    "-1234567890123456": -1_234_567_890_123_456,
    "12345678901234567": 12_345_678_901_234_567,
    "9223372036854775807": MAX,
    "-9223372036854775807": -MAX,
    "-9223372036854775808": None,
    "9223372036854775808": None,
    "18446744073709551617": None,
    "99999999999999999999999": None,
    "-": None,
    "--1": None,
    "+1": None,
    "01": None,
    "-01": None,
    "00": None,
    "1.0": None,
    "1e2": None,
    "1/": None,
    "1:": None,
    " 1": None,
    "12345678\xb02345678": None,
}


@pytest.mark.parametrize(("text", "number"), NUMBERS.items())
def test_integers_and_what_is_none(text, number):
    raw = text.encode("latin-1")
    assert alone(raw) == number
    assert together([raw]) == [number]
    assert together([b"1", raw, b"-20"]) == [1, number, -20]


def test_no_numbers():
    assert together([]) == []


@given(
    st.lists(
        st.integers(-(2**64), 2**64).map(lambda number: b"%d" % number)
        | st.integers(-(10**9), 10**9).map(lambda number: b"%d" % number)
        | st.text("0123456789-+.e", min_size=1, max_size=22).map(str.encode)
        | st.binary(min_size=1, max_size=22),
        max_size=8,
    ),
    st.binary(min_size=SPACE_BEFORE, max_size=9),
)
def test_each_is_read_as_it_is_alone(texts, between):
    assert together(texts, between) == [alone(text) for text in texts]


def test_no_single_byte_is_taken_for_a_digit():
    number = b"-1234567890123456789"
    texts = [
        number[:place] + bytes([byte]) + number[place + 1 :]
        for place in range(len(number))
        for byte in range(256)
    ]
    assert together(texts) == [alone(text) for text in texts]
