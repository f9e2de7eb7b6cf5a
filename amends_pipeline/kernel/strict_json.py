"""JSON as we read it: one meaning, or a refusal.

Other readers keep the first or the last of two members with one name, turn long integers into
floats, or take UTF-16 and a byte order mark for text. Where two readers may differ, this one
refuses.
"""

from __future__ import annotations

import json
import re
from collections import Counter

from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import AmbiguousJsonError, StrictJsonError

__all__ = ["MAX_DEPTH", "MAX_DIGITS", "AmbiguousJsonError", "StrictJsonError", "loads"]

MAX_DEPTH = 100
"""Objects and arrays inside one another."""
MAX_DIGITS = 640
"""Characters of one number, its sign included. Python reads as many under each of its settings."""

_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
# A string that is never closed reaches to the end, so that each byte is looked at once.
_STRING_OR_BRACKET = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)


def loads(raw: bytes, *, where: str = "JSON", line: int | None = None) -> object:
    """Read one JSON value from UTF-8 bytes: a whole text, or the `line`th line of one.

    Numbers are plain integers of any size up to `MAX_DIGITS`; callers judge their range. `-0` is 0.
    Text may hold U+0000, written as an escape; callers judge that too.

    Raises `StrictJsonError` with `where` in front for anything else: bytes that are not UTF-8, a
    byte order mark, trailing content, NaN and Infinity, two members with one name in an object, a
    fraction or an exponent, a longer number, a lone surrogate, more than `MAX_DEPTH` levels. From
    the two members on it is an `AmbiguousJsonError`: JSON, but other readers may differ about it.
    """
    whole = where
    if line is not None:
        where = f"{whole}, line {line}"
    text = _decoded(raw, where)
    if _too_deep(raw):
        raise AmbiguousJsonError(where, expected=f"at most {MAX_DEPTH} levels", found="more")
    try:
        value = _unambiguous(text)
    except json.JSONDecodeError as error:
        place = f"{whole}, line {line or error.lineno} column {error.colno}"
        raise StrictJsonError(place, expected="well-formed JSON", found=error.msg) from None
    except _RefusedError as refusal:
        kind = AmbiguousJsonError if refusal.is_json else StrictJsonError
        raise kind(where, expected=refusal.expected, found=refusal.found) from None
    return value


def _unambiguous(text: str) -> object:
    try:
        value: object = json.loads(
            text,
            object_pairs_hook=_without_duplicates,
            parse_int=_plain_integer,
            parse_float=_refused_number,
            parse_constant=_refused_constant,
        )
        if _SURROGATE_ESCAPE.search(text):
            _refuse_lone_surrogates(value)
    except _RefusedError:
        # A hook stops the parser; if what follows is no JSON, then that is what the text is.
        json.loads(text, parse_int=len, parse_float=len, parse_constant=_refused_constant)
        raise
    return value


class _RefusedError(Exception):
    """What a hook of the parser refuses, before it is known where."""

    def __init__(self, expected: str, found: str, *, is_json: bool = True) -> None:
        super().__init__(expected, found)
        self.expected = expected
        self.found = found
        self.is_json = is_json


def _decoded(raw: bytes, where: str) -> str:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        found = f"byte 0x{raw[error.start]:02x} at {error.start}"
        raise StrictJsonError(where, expected="UTF-8", found=found) from None
    if text.startswith("\ufeff"):
        raise StrictJsonError(where, expected="UTF-8 without a byte order mark", found="one")
    return text


def _too_deep(raw: bytes) -> bool:
    """Count levels before the parser recurses: the limit is ours, not the interpreter's."""
    if raw.count(b"[") + raw.count(b"{") <= MAX_DEPTH:
        return False
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(raw):
        token = match.group()
        if token in {b"[", b"{"}:
            depth += 1
            if depth > MAX_DEPTH:
                return True
        elif token in {b"]", b"}"}:
            depth -= 1
    return False


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        [(name, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise _RefusedError("each member once", f"{shown(name)} more than once")
    return members


def _plain_integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        expected = f"an integer of at most {MAX_DIGITS} characters"
        raise _RefusedError(expected, f"one of {len(digits)}")
    return int(digits)


def _refused_number(text: str) -> object:
    raise _RefusedError("a plain integer", shown(text))


def _refused_constant(text: str) -> object:
    raise _RefusedError("a plain integer", shown(text), is_json=False)


def _refuse_lone_surrogates(value: object) -> None:
    if isinstance(value, str):
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            raise _RefusedError("whole characters", f"a lone surrogate in {shown(value)}")
    elif isinstance(value, dict):
        for name, member in value.items():
            _refuse_lone_surrogates(name)
            _refuse_lone_surrogates(member)
    elif isinstance(value, list):
        for element in value:
            _refuse_lone_surrogates(element)
