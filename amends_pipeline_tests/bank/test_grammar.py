from __future__ import annotations

import json
import re
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.bank import grammar
from amends_pipeline_tests.bank.situations import FIXTURES

STAMP = r"\A\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z\Z"


def test_a_currency_that_was_ever_supported_is_still():
    known = set(json.loads((FIXTURES / "currencies.json").read_text()))
    assert known <= grammar.SUPPORTED_CURRENCIES
    assert len(known) >= 307


@pytest.mark.parametrize("code", ["USD", "EUR", "JPY", "XAU", "DEM", "ITL", "ZWR", "CSK", "XEU"])
def test_active_and_withdrawn_currencies_are_supported(code):
    assert code in grammar.SUPPORTED_CURRENCIES


def test_no_currency_is_anything_but_three_letters():
    assert all(re.fullmatch("[A-Z]{3}", code) for code in grammar.SUPPORTED_CURRENCIES)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("a", True),
        ("9", True),
        ("A.b_c:d-e", True),
        ("x" * 64, True),
        ("x" * 65, False),
        ("a\n", False),
        ("\na", False),
        ("a b", False),
        ("-a", False),
        ("a-", False),
        ("", False),
        ("ä", False),
        ("a\u0000b", False),
    ],
)
def test_identifiers(text, holds):
    assert grammar.is_identifier(text) is holds


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("2024-02-29T00:00:00.000Z", True),
        ("2025-02-29T00:00:00.000Z", False),
        ("0001-01-01T00:00:00.000Z", True),
        ("9999-12-31T23:59:59.999Z", True),
        ("0000-12-31T23:59:59.999Z", False),
        ("2025-04-31T00:00:00.000Z", False),
        ("2025-10-10T24:00:00.000Z", False),
        ("2025-10-10T23:60:00.000Z", False),
        ("2025-10-10T23:59:60.000Z", False),
        ("2025-10-10T23:59:59.0000Z", False),
        ("2025-10-10T23:59:59.00Z", False),
        ("2025-10-10T23:59:59.000ZZ", False),
        ("2025-W41-5T23:59:59.000Z", False),
        ("-025-10-10T23:59:59.000Z", False),
    ],
)
def test_timestamps(text, holds):
    assert grammar.is_timestamp(text) is holds


@given(
    st.from_regex(STAMP)
    | st.from_regex(STAMP.replace(r"\d{4}-\d{2}-\d{2}", r"20\d{2}-[01]\d-[0-3]\d"))
)
def test_timestamps_are_those_of_the_calendar(text):
    try:
        read = datetime.fromisoformat(text).isoformat(timespec="milliseconds") + "Z"
    except ValueError:
        read = ""
    assert grammar.is_timestamp(text) is (read.replace("+00:00", "") == text)


@given(st.datetimes(), st.datetimes())
def test_timestamps_compare_as_texts(one, other):
    one = one.replace(microsecond=one.microsecond // 1000 * 1000)
    other = other.replace(microsecond=other.microsecond // 1000 * 1000)
    texts = [f"{each.isoformat(timespec='milliseconds')}Z" for each in (one, other)]
    assert all(map(grammar.is_timestamp, texts))
    assert (texts[0] < texts[1]) is (one < other)


@given(st.integers())
def test_balances_are_written_in_one_way(number):
    assert grammar.is_balance(str(number))
    assert grammar.is_amount(str(number)) is (0 < number < 10**30)
    assert grammar.is_head_sequence(str(number)) is (0 <= number < 10**30)
    for spoilt in (f"+{number}", f"0{number}", f"{number}\n", f" {number}", f"{number}.0"):
        assert not grammar.is_balance(spoilt)


def test_a_balance_has_at_most_128_characters():
    assert grammar.is_balance("-" + "9" * 127)
    assert not grammar.is_balance("-" + "9" * 128)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("x", True),
        ("x" * 240, True),
        ("\U0001f4b6" * 240, True),
        ("x" * 241, False),
        ("", False),
        (" x", False),
        ("x\u2003", False),
        ("x\n", False),
        ("two\nlines", True),
    ],
)
def test_reasons(text, holds):
    assert grammar.is_reason(text) is holds
