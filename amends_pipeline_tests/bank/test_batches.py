"""The fast reader of groups says yes only where the careful one does, and reads the same."""

from __future__ import annotations

import json
import re
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.bank import batches, grammar
from amends_pipeline.bank.codes import RefusedError
from amends_pipeline.bank.export import parse_group, read_value
from amends_pipeline.kernel.errors import StrictJsonError
from amends_pipeline_tests.bank.changing import changed, drawn_change, places, texts_of
from amends_pipeline_tests.bank.drawing import drawn_case
from amends_pipeline_tests.bank.situations import genesis


def carefully(value):
    try:
        return parse_group(value)
    except RefusedError:
        return None


def carefully_from(line):
    try:
        return carefully(read_value(line, "line"))
    except StrictJsonError:
        return None


def fast(values):
    found = batches._typed_values(values)  # noqa: SLF001 - it alone, without the careful reader
    return None if found is None else found.groups


def fast_from(lines):
    found = batches._typed_lines(lines)  # noqa: SLF001 - as above
    return None if found is None else found.groups


@given(st.integers(0, 2**64), st.booleans())
def test_a_changed_group_passes_fast_only_if_it_passes_carefully(seed, escaped):
    rng = Random(seed)  # noqa: S311 - drawn by Hypothesis, to be drawn again
    case = drawn_case(rng, 3)._replace(query={}, accounts=[], context={})
    if not case.groups:
        return
    paths, texts = [path for path in places(case) if path[0] == 1 and len(path) > 1], texts_of(case)
    for _ in range(20):
        path, value = drawn_change(rng, case, paths, texts)
        with changed(case, path, value) as other:
            groups = other.groups
            expected = [carefully(group) for group in groups]
            assert fast(list(groups)) in (None, expected)
            lines = [written(group, ascii_only=escaped) for group in groups]
            if None not in lines:
                assert fast_from(lines) in (None, [carefully_from(line) for line in lines])


def written(value, *, ascii_only):
    """A JSON line, None for what Python cannot write: a very long integer."""
    try:
        return json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    except ValueError:
        return None


LINE = json.dumps(genesis().groups[1], separators=(",", ":")).encode()
CORRECTION = json.dumps(genesis().groups[2], separators=(",", ":")).encode()


def test_canonical_lines_pass_fast():
    assert fast_from([LINE, CORRECTION + b"\n"]) == list(map(carefully_from, [LINE, CORRECTION]))


MEMBER = re.compile(rb'(?<=[{,])"[a-z_]+":')


def test_every_member_that_stands_twice_is_seen():
    for line in (LINE, CORRECTION):
        for member in MEMBER.finditer(line):
            for value in (b"null", b'""', b"[]"):
                twice = (
                    line[: member.start()] + member.group() + value + b"," + line[member.start() :]
                )
                assert carefully_from(twice) is None
                assert fast_from([twice]) is None


@given(st.binary(max_size=3), st.integers(0, len(CORRECTION)), st.integers(0, 3))
def test_changed_bytes_pass_fast_only_if_they_pass_carefully(put, place, length):
    line = CORRECTION[:place] + put + CORRECTION[place + length :]
    assert fast_from([line]) in (None, [carefully_from(line)])


YEARS = ("0000", "0001", "1900", "1999", "2000", "2023", "2024", "2100", "2400", "9999", "1e10")
DAYS = [f"{year}-{month:02}-{day:02}" for year in YEARS for month in range(14) for day in range(34)]
LEAP = [f"{year:04}-02-{day}" for year in range(10_000) for day in (28, 29, 30)]
TIMES = (
    "T00:00:00.000Z",
    "T23:59:59.999Z",
    "T24:00:00.000Z",
    "T12:60:00.000Z",
    "T12:00:60.000Z",
    "T12:00:00.00Z",
    "T12:00:00.0000Z",
    "T12:00:00.000",
    "t12:00:00.000Z",
    " 12:00:00.000Z",
    "T12:00:00.000Z\n",
    "T１2:00:00.000Z",
)


def test_timestamps_of_a_batch_are_those_of_the_grammar():
    texts = [f"{day}T12:00:00.000Z" for day in (*DAYS, *LEAP)]
    texts += [f"2024-02-29{time}" for time in TIMES]
    right = [text for text in texts if grammar.is_timestamp(text)]
    assert 15_000 < len(right) < len(texts)

    def match(some):
        return batches._all_match(batches._timestamps, some)  # noqa: SLF001 - its pattern alone

    assert match(right)
    assert not any(match([text]) for text in texts if not grammar.is_timestamp(text))
