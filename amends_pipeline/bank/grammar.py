r"""The texts of an export: which are identifiers, timestamps, periods, amounts, sequences.

Every function here looks at the whole text. ASCII digits only, no blank, no sign but the minus of a
balance, no line end at the end: Python's own readers take all of these.

Timestamps have one width, so that they compare in time order as texts.
"""

from __future__ import annotations

import re
from typing import Final

from iso_4217 import Currency

from amends_pipeline.kernel.instants import DATE_END, InstantSyntaxError, parse_day
from amends_pipeline.kernel.remembered import Remembered

MAX_BALANCE_LENGTH: Final = 128
"""Characters of a balance, its sign included."""
MAX_REASON_LENGTH: Final = 240
"""Unicode scalars in the reason of a correction."""
MONTH_END: Final = 7
"""How many characters of a timestamp are its month, written as a booking period is."""

SUPPORTED_CURRENCIES: Final = frozenset(Currency.__members__)
"""ISO 4217, active or withdrawn."""

_identifier = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:-]{0,62}[A-Za-z0-9])?").fullmatch
_time_of_day = re.compile(r"T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\.[0-9]{3}Z").fullmatch
_period = re.compile(r"[0-9]{4}-(?:0[1-9]|1[0-2])").fullmatch
_amount = re.compile(r"[1-9][0-9]{0,29}").fullmatch
_balance = re.compile(r"0|-?[1-9][0-9]*").fullmatch


def is_identifier(text: str) -> bool:
    """Tell whether the text is an identifier of 1 to 64 characters."""
    return _identifier(text) is not None


def is_timestamp(text: str) -> bool:
    """Tell whether the text is `YYYY-MM-DDThh:mm:ss.mmmZ` in the years 0001 to 9999."""
    return _time_of_day(text, DATE_END) is not None and is_day[text[:DATE_END]]


def is_booking_period(text: str) -> bool:
    """Tell whether the text is `YYYY-MM` in the years 0001 to 9999."""
    return _period(text) is not None and text[:4] != "0000"


def is_amount(text: str) -> bool:
    """Tell whether the text is a positive integer of at most 30 digits, without leading zeros."""
    return _amount(text) is not None


is_sequence = is_amount


def is_head_sequence(text: str) -> bool:
    """Tell whether the text is a sequence or `0`."""
    return text == "0" or is_sequence(text)


def is_balance(text: str) -> bool:
    """Tell whether the text is an integer without plus, minus zero or leading zeros."""
    return len(text) <= MAX_BALANCE_LENGTH and _balance(text) is not None


def is_whole_text(text: str) -> bool:
    """Tell whether the text holds no lone surrogate: such text has no UTF-8."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def is_reason(text: str) -> bool:
    """Tell whether the text is the reason of a correction: trimmed, 1 to 240 characters."""
    return 0 < len(text) <= MAX_REASON_LENGTH and text == text.strip()


def _is_day(text: str) -> bool:
    try:
        parse_day(text)
    except InstantSyntaxError:
        return False
    return True


is_day: Final = Remembered(_is_day, limit=1 << 14)
"""Whether a text is a supported day, `YYYY-MM-DD`."""
