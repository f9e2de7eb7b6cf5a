"""One edit in the bytes of an export: what is no JSON is an error, all else the checker's verdict.

The lines are read here by the standard library's reader alone, which is told nothing of our own.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amends_pipeline.bank import batches
from amends_pipeline.bank.balances import fold_balances_bytes
from amends_pipeline.kernel.errors import StrictJsonError
from amends_pipeline_tests.bank.checker import check_balances
from amends_pipeline_tests.bank.drawing import drawn_bank
from amends_pipeline_tests.bank.written import at, context, query

NO_JSON = "no JSON"
NO_NUMBER = 0.5  # in the place of every number: no member is one
LEVELS = 100
FRAGMENTS = (
    *(bytes([each]) for each in b"{}[]\",:\\0123456789 \t\reE.+-xZ'\x00\x0b\x1f\x7f\xff"),
    *(b"NaN", b"Infinity", b"-Infinity", b"true", b"null", b"1.0", b"1e5", b"-0", b"01", b"/**/"),
    *(b"\\u0041", b"\\ud800", b"\\ud83d\\ude00", b"\\u0000", b"\\x", b"\\n", b"\\/"),
    *(b"\xef\xbb\xbf", b"\xc3\xa9", b"\xed\xa0\x80", b"\xe2\x80\xa8", b"\xc2\x85", b"\xc0\x80"),
    *(b"9" * 31, b"9" * 700, b"9" * 5000, b"[" * 99, b"[" * 20_000, b'{"a":' * 200, b"[]", b"{}"),
)
WHOLE = (b"", b" ", b"null", b"1", b"[]", b"{}", b'"x"', b"{} {}", b"\xef\xbb\xbf{}")


def read(line):
    """One line as plain JSON, what has two meanings as an object that is no group."""
    text = line.removesuffix(b"\n").decode()  # raises UnicodeDecodeError, a ValueError as all here
    if text.endswith("\r") or text.startswith("\ufeff"):
        raise ValueError(text)
    if deepest(text) > LEVELS:
        return {"": "too deep"}
    return json.loads(
        text,
        object_pairs_hook=lambda pairs: (
            dict(pairs) if len(dict(pairs)) == len(pairs) else {"": "twice"}
        ),
        parse_int=lambda _digits: NO_NUMBER,
        parse_float=lambda _digits: NO_NUMBER,
        parse_constant=int,  # raises ValueError
    )


def deepest(text):
    depth = most = 0
    for bracket in re.findall(r'"(?:[^"\\]|\\.)*"?|[\[{\]}]', text, re.DOTALL):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(bracket, 0)
        most = max(most, depth)
    return most


def edited(rng, body):
    """One edit of a line without its end."""
    return rng.choice((insert, insert, replace, cut, say_twice, escape, other_value, surround))(
        rng, body
    )


def insert(rng, body):
    place = rng.randrange(len(body) + 1)
    return body[:place] + rng.choice(FRAGMENTS) + body[place:]


def replace(rng, body):
    place = rng.randrange(len(body))
    return body[:place] + rng.choice(FRAGMENTS) + body[place + 1 :]


def cut(rng, body):
    place = rng.randrange(len(body))
    return body[:place] + body[place + rng.randint(1, 3) :]


def say_twice(rng, body):
    member = rng.choice(list(re.finditer(rb'"(\w)(\w+)":("[^"]*"|null|\[|\{)', body)))
    first, rest, value = member.groups()
    first = rng.choice([first, b"\\u%04x" % first[0]])
    value = rng.choice([value if value[0] not in b"[{" else b"[]", b"null", b'"x"'])
    again = b'"%b%b":%b' % (first, rest, value)
    if rng.random() < 0.5:
        return body[: member.start()] + again + b"," + body[member.start() :]
    return body[:-1] + b"," + again + b"}"


def escape(rng, body):
    letter = rng.choice(list(re.finditer(rb"[A-Za-z0-9]", body)))
    return body[: letter.start()] + b"\\u%04x" % letter.group()[0] + body[letter.end() :]


def other_value(rng, body):
    value = rng.choice(list(re.finditer(rb'(?<=:)(?:"[^"]*"|null)', body)))
    other = rng.choice([*FRAGMENTS, b'"%b"' % rng.choice(FRAGMENTS)])
    return body[: value.start()] + other + body[value.end() :]


def surround(rng, body):
    space = rng.choice([b" ", b"\t", b"\r", b"\x0c", b"\xc2\xa0", b"x"])
    return rng.choice([space + body, body + space, body + body, *WHOLE])


def verdicts(lines, accounts, trusted, currency):
    """(what the checker says of the lines, what the fold says)."""
    asked = query("", at(10**12), trusted["head"]["observed_at"], currency=currency)
    asked = {name: asked[name] for name in asked if name not in {"account_id", "checkpoint"}}
    try:
        expected = check_balances(asked, [read(line) for line in lines], accounts, trusted)
    except ValueError:
        expected = NO_JSON, None
    try:
        result = fold_balances_bytes(asked, lines, accounts, trusted)
    except StrictJsonError:
        return expected, (NO_JSON, None)
    balances = result["balances"] if result["status"] == "ok" else None
    return expected, (result["code"], balances)


def drawn_edits(seed, count):
    """Yield verdicts on one drawn export, as it is and then edited in one line each."""
    rng = Random(seed)  # noqa: S311 - no secret, but a repeatable draw
    bank = drawn_bank(rng, most=3)
    lines = [json.dumps(group, separators=(",", ":")).encode() + b"\n" for group in bank.groups]
    others = (bank.accounts, context(bank.groups, observed=at(bank.observed)), "USD")
    yield lines, *verdicts(lines, *others)
    for _ in range(count if lines else 0):
        place = rng.randrange(len(lines))
        line = edited(rng, lines[place][:-1]) + rng.choice([b"\n", b"\n", b""])
        changed = [*lines[:place], line, *lines[place + 1 :]]
        yield line, *verdicts(changed, *others)


@pytest.mark.parametrize("size", [batches.BATCH, 1])
def test_any_edit_is_judged_alike(size, monkeypatch):
    monkeypatch.setattr(batches, "BATCH", size)

    @settings(max_examples=40)
    @given(st.integers(0, 2**32))
    def hold(seed):
        for line, expected, found in drawn_edits(seed, 20):
            assert found == expected, line

    hold()


def test_edits_reach_each_kind_of_answer():
    codes = Counter(found[0] for seed in range(100) for _, _, found in drawn_edits(seed, 20))
    assert codes.keys() >= {NO_JSON, "BALANCE_FOLDED", "INVALID_SCHEMA", "INVALID_TIMESTAMP"}
    assert codes["BALANCE_FOLDED"] > 150  # spaces and escapes change nothing


@pytest.mark.parametrize("size", [batches.BATCH, 1])
@pytest.mark.parametrize("first", [b"{}", b"1.5", b"[" * 101])
def test_a_file_with_a_line_that_is_no_json_is_no_export_whatever_stands_before(
    size, first, monkeypatch
):
    monkeypatch.setattr(batches, "BATCH", size)
    trusted = context([], observed=at(0))
    assert verdicts([first, b"{}", b"{"], [], trusted, "USD") == ((NO_JSON, None), (NO_JSON, None))


@pytest.mark.parametrize("line", [*WHOLE, b"[" * 20_000, b"9" * 5000, b"\xff", b"{", b"1.5"])
def test_a_line_of_its_own(line):
    expected, found = verdicts([line + b"\n"], [], context([], observed=at(0)), "USD")
    assert found == expected
