from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.kernel.canonical import compact_json
from amends_pipeline.kernel.strict_json import (
    MAX_DEPTH,
    MAX_DIGITS,
    AmbiguousJsonError,
    StrictJsonError,
    loads,
)

from .test_canonical import VALUES


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"null", None),
        (b" \t\r\n true \n", True),
        (b"-0", 0),
        (b"9007199254740993", 9007199254740993),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
        (b"1" * MAX_DIGITS, int("1" * MAX_DIGITS)),
        (b'"\\u0041\\/\\u00e9\\ud83d\\ude00"', "A/é😀"),
        (b'"\\u0000"', "\x00"),
        ('"é😀\x7f"'.encode(), "é😀\x7f"),
        (b'"[[[{{{"', "[[[{{{"),
        (b'{"a":1,"b":{"a":2}}', {"a": 1, "b": {"a": 2}}),
        (b'{"a":[{"x":1},{"x":2}],"A":3}', {"a": [{"x": 1}, {"x": 2}], "A": 3}),
        (b'"\\\\ud800"', "\\ud800"),
    ],
)
def test_json_that_has_one_meaning(raw, value):
    assert loads(raw) == value


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "JSON, line 1 column 1: expected well-formed JSON"),
        (b"   ", "expected well-formed JSON"),
        (b"{} x", "JSON, line 1 column 4: expected well-formed JSON"),
        (b"{}{}", "expected well-formed JSON"),
        (b"[1,]", "expected well-formed JSON"),
        (b'{"a":1,}', "expected well-formed JSON"),
        (b"{'a':1}", "expected well-formed JSON"),
        (b'"a\tb"', "expected well-formed JSON"),
        (b'"a\x00b"', "expected well-formed JSON"),
        (b'"\\x41"', "expected well-formed JSON"),
        (b'"\\u00 1"', "expected well-formed JSON"),
        (b'"open', "expected well-formed JSON"),
        (b"/* */1", "expected well-formed JSON"),
        (b"01", "expected well-formed JSON"),
        (b"+1", "expected well-formed JSON"),
        (b"\xc2\xa01", "expected well-formed JSON"),
        ("\u0661".encode(), "expected well-formed JSON"),
        (b"1.0", 'expected a plain integer, found "1.0"'),
        (b"1e2", 'expected a plain integer, found "1e2"'),
        (b"-0.0", 'expected a plain integer, found "-0.0"'),
        (b"[NaN]", 'expected a plain integer, found "NaN"'),
        (b"-Infinity", 'expected a plain integer, found "-Infinity"'),
        (
            b"1" * (MAX_DIGITS + 1),
            "expected an integer of at most 640 characters, found one of 641",
        ),
        (b"1" * 5_000, "found one of 5000"),
        (b'{"a":1,"a":1}', 'expected each member once, found "a" more than once'),
        (b'[{"k":{"b":1,"c":2,"b":3}}]', 'expected each member once, found "b" more than once'),
        (b'{"a":1,"\\u0061":2}', 'expected each member once, found "a" more than once'),
        (b"\xef\xbb\xbf{}", "expected UTF-8 without a byte order mark"),
        (b"\xff\xfe{\x00}\x00", "expected UTF-8, found byte 0xff at 0"),
        (b'"\xc0\xa2"', "expected UTF-8, found byte 0xc0 at 1"),
        (b'"\xed\xa0\x80"', "expected UTF-8, found byte 0xed at 1"),
        (b'"\\ud800"', r"found a lone surrogate in"),
        (b'["\\ude00\\ud83d"]', r"found a lone surrogate in"),
        (b'{"\\uDBff":1}', r"found a lone surrogate in"),
        (b'[1,{"a":["x","\\ud83d\\ude00 \\ud83d"]}]', r"found a lone surrogate in"),
    ],
)
def test_json_that_two_readers_may_read_in_two_ways(raw, message):
    with pytest.raises(StrictJsonError) as caught:
        loads(raw)
    assert message in str(caught.value)


def test_the_error_says_where():
    with pytest.raises(StrictJsonError, match=r"^manifest\.json, line 2 column 1: expected"):
        loads(b"{\n", where="manifest.json")


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"{", "f.jsonl, line 7 column 2: expected well-formed JSON"),
        (b"\xff", "f.jsonl, line 7: expected UTF-8, found byte 0xff at 0"),
        (b"1.5", "f.jsonl, line 7: expected a plain integer"),
        (b"[" * 200, "f.jsonl, line 7: expected at most 100 levels"),
    ],
)
def test_the_error_in_a_line_of_a_file_names_the_line_once(raw, message):
    with pytest.raises(StrictJsonError) as caught:
        loads(raw, where="f.jsonl", line=7)
    assert str(caught.value).startswith(message)
    assert str(caught.value).count("line") == 1


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_levels_are_counted(opening, closing):
    deepest = opening * MAX_DEPTH + b"1" + closing * MAX_DEPTH
    assert loads(b"[1]") == [1]
    assert loads(deepest)
    for raw in (opening + deepest + closing, opening * 100_000, b"[" * 100_000):
        with pytest.raises(StrictJsonError, match="at most 100 levels"):
            loads(raw)


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_a_closed_level_is_one_less_and_no_more(opening, closing):
    for inner in (MAX_DEPTH // 2, MAX_DEPTH // 2 + 1):
        # As deep as allowed, or one level deeper, behind a level that was closed at half the way.
        beside = opening + b"1" + closing + b","
        rest = opening * inner + b"1" + closing * inner
        raw = b"[" * (MAX_DEPTH // 2) + beside + rest + b"]" * (MAX_DEPTH // 2)
        if inner == MAX_DEPTH // 2:
            assert loads(raw)
        else:
            with pytest.raises(StrictJsonError, match="at most 100 levels"):
                loads(raw)


def test_many_brackets_on_few_levels_are_fine():
    assert loads(b"[" + b",".join([b"[]"] * 500) + b"]") == [[]] * 500
    assert loads(b"[" + b",".join([b"{}"] * 500) + b"]") == [{}] * 500
    text = '[{"]\\' * 50
    assert loads(json.dumps([text, {"a": [text] * 3}]).encode()) == [text, {"a": [text] * 3}]


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"[]" * 101 + b'"' + b'\\"' * 400_000, id="a text of escaped quotes"),
        pytest.param(b"[]" * 101 + b'"' * 400_001, id="quotes alone"),
        pytest.param(b'"' + b"[]" * 101 + b"\\", id="a backslash at the end"),
    ],
)
def test_text_that_never_closes_is_looked_at_once(raw):
    # Looking again from every quotation mark would take hours.
    with pytest.raises(StrictJsonError):
        loads(raw)


def test_numbers_do_not_depend_on_a_setting_of_the_interpreter():
    before = sys.get_int_max_str_digits()
    try:
        for limit in (640, 0):
            sys.set_int_max_str_digits(limit)
            assert loads(b"-" + b"9" * (MAX_DIGITS - 1)) == 1 - 10 ** (MAX_DIGITS - 1)
            with pytest.raises(StrictJsonError):
                loads(b"9" * 100_000)
    finally:
        sys.set_int_max_str_digits(before)


@given(VALUES, st.booleans())
def test_what_we_write_we_read(value, ascii_only):
    assert loads(compact_json(value).encode()) == value
    assert loads(json.dumps(value, ensure_ascii=ascii_only, indent=1).encode()) == value


@given(st.data(), VALUES)
def test_changed_bytes_are_refused_or_read_as_others_read_them(data, value):
    raw = bytearray(compact_json(value).encode())
    place = data.draw(st.integers(0, len(raw)))
    raw[place : place + data.draw(st.integers(0, 2))] = data.draw(
        st.sampled_from(
            [b"", b'"', b"\\", b",", b"1", b".", b"e", b"\\u00", b"\\ud8", b"\xff", b"[", b"}"]
        )
    )
    try:
        read = loads(bytes(raw))
    except StrictJsonError:
        return
    assert read == json.loads(raw.decode())


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b'{"a":1,"a":1}', AmbiguousJsonError),
        (b"1.0", AmbiguousJsonError),
        (b"1e400", AmbiguousJsonError),
        (b"9" * 5_000, AmbiguousJsonError),
        (b'"\\ud800"', AmbiguousJsonError),
        (b"[" * 101 + b"]" * 101, AmbiguousJsonError),
        (b"[1.0", StrictJsonError),
        (b'{"a":1,"a":1},', StrictJsonError),
        (b"[" + b"9" * 5_000 + b"x]", StrictJsonError),
        (b'["\\ud800",1.0,NaN]', StrictJsonError),
        (b"NaN", StrictJsonError),
        (b"-Infinity", StrictJsonError),
        (b"\xef\xbb\xbf1", StrictJsonError),
        (b"\xff", StrictJsonError),
        (b"", StrictJsonError),
        (b"1 1", StrictJsonError),
    ],
)
def test_json_with_two_meanings_is_told_apart_from_what_is_no_json(raw, kind):
    with pytest.raises(StrictJsonError) as refused:
        loads(raw)
    assert type(refused.value) is kind
