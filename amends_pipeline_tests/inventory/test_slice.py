from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.inventory.authority import Accepted, Authority, Candidate
from amends_pipeline.inventory.classify import Code
from amends_pipeline.inventory.config import parse_configuration
from amends_pipeline.inventory.slice import (
    Records,
    Rejection,
    Slice,
    earliest_days,
    identities,
    read_slice,
)
from amends_pipeline.inventory.slice_columns import read_columns
from amends_pipeline.kernel.instants import MAX_DAY
from amends_pipeline_tests.driver import records, source
from amends_pipeline_tests.strategies import STRANGE
from amends_pipeline_tests.tables import (
    STOCK_KEYS,
    Line,
    configuration,
    day,
    document,
    encoded,
    history,
)

CONFIG = parse_configuration(configuration())
NOON = 12 * 3600 * 10**9


def read(lines, aside=frozenset(), step: int = 1) -> Slice:
    return read_slice(CONFIG, 0, records(source(lines, step)), aside)


def test_each_record_is_accepted_or_rejected_at_its_offset():
    slice_ = read(
        history("""
            A r1 NEW day 2 -50
            malformed
            b/A r0 NEW day 2 1
            b/A r7 CANCEL day 3
        """),
        step=10,
    )
    assert (slice_.start, slice_.until) == (0, 31)
    assert slice_.accepted == [
        Accepted(0, "A", 0, Candidate(1, "NEW", day(2), NOON, -50)),
        Accepted(1, "A", 30, Candidate(7, "CANCEL", day(3), NOON, 0)),
    ]
    assert [(each.offset, each.code) for each in slice_.rejections] == [
        (10, Code.MALFORMED),
        (20, Code.REVISION),
    ]


def test_a_rejected_record_keeps_its_bytes():
    odd = Line(b"\xff\x00 no JSON", raw_key=b"\xfe")
    unknown = Line(encoded(document(("x", "y"), "A", 1, "NEW", "2026-01-01T00:00:00Z", 1)), b"k")
    assert read([odd, unknown]).rejections == [
        Rejection(0, Code.MALFORMED, odd.raw_key, odd.value),
        Rejection(1, Code.UNKNOWN_KEY, unknown.raw_key, unknown.value),
    ]


FAULTS = {
    "none": ({}, None),
    "the first instant": ({"valid_time": "2026-01-01T00:00:00.000000005Z"}, None),
    "the last instant": ({"valid_time": "9999-12-31T23:59:59.999999999Z"}, None),
    "a cancellation": ({"kind": "CANCEL", "qty": 0}, None),
    "no transaction": ({"txn_id": ""}, Code.IDENTITY),
    "revision 0": ({"revision": 0}, Code.REVISION),
    "another kind": ({"kind": "SALE"}, Code.KIND),
    "another spelling": ({"kind": "New"}, Code.KIND),
    "a cancellation of 1": ({"kind": "CANCEL", "qty": 1}, Code.CANCEL_QUANTITY),
    "before the first instant": (
        {"valid_time": "2026-01-01T00:00:00.000000004Z"},
        Code.VALID_TIME,
    ),
    "the day before": ({"valid_time": "2025-12-31T23:00:00Z"}, Code.VALID_TIME),
    "after the last instant": ({"valid_time": "9999-12-31T23:59:59-00:01"}, Code.VALID_TIME),
    "another location": (
        {"stock_key": {"item": "DEMO-PART", "location": "NOWHERE"}},
        Code.UNKNOWN_KEY,
    ),
    "a number as text": ({"qty": "1"}, Code.MALFORMED),
}


@pytest.mark.parametrize(("members", "code"), FAULTS.values(), ids=FAULTS)
def test_each_fault_has_its_code_however_records_are_read(members, code):
    config = parse_configuration(configuration(origin="2026-01-01T00:00:00.000000005Z"))
    good = document(STOCK_KEYS["a"], "A", 1, "NEW", "2026-01-02T12:00:00Z", 1)
    log = records(source([Line(encoded(each)) for each in (good, good | members, good)]))
    slice_ = read_slice(config, 0, log, frozenset())
    columns = read_columns(config, 0, log, frozenset())
    assert list(columns.accepted.accepted()) == slice_.accepted
    assert [each.offset for each in slice_.accepted] == ([0, 2] if code else [0, 1, 2])
    for told in (slice_.rejections, columns.rejections):
        assert [(each.offset, each.code) for each in told] == ([(1, code)] if code else [])


def test_the_transport_key_and_the_partition_are_checked():
    plain = history("A r1 NEW day 1 5")[0]
    right = b'["DEMO-PART","DEPOT-A"]'
    keyed = [plain, plain._replace(raw_key=right), plain._replace(raw_key=right + b" ")]
    assert [each.code for each in read(keyed).rejections] == [Code.KEY_MISMATCH]
    elsewhere = read_slice(CONFIG, 1, records(source(keyed)), frozenset())
    assert [each.code for each in elsewhere.rejections] == [
        Code.ROUTING,
        Code.ROUTING,
        Code.KEY_MISMATCH,
    ]


def test_what_a_person_set_aside_is_quarantined_unread():
    lines = history("A r1 NEW day 1 5\nA r1 NEW day 1 6\nmalformed")
    slice_ = read(lines, aside=frozenset({1, 2, 99}))
    assert [record.offset for record in slice_.accepted] == [0]
    assert [(each.offset, each.code, each.value) for each in slice_.rejections] == [
        (1, Code.SET_ASIDE, lines[1].value),
        (2, Code.SET_ASIDE, lines[2].value),
    ]


def mutated(value: bytes, at: int, byte: int) -> bytes:
    return value[: at % len(value)] + bytes([byte]) + value[at % len(value) + 1 :]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
some_record = document(STOCK_KEYS["a"], "A", 1, "NEW", "2026-01-01T12:00:00Z", 1)
arbitrary = st.one_of(
    st.binary(),
    st.builds(mutated, st.just(encoded(some_record)), st.integers(0, 999), st.integers(0, 255)),
    json_values.map(lambda value: json.dumps(value).encode()),
    st.builds(
        lambda name, value: json.dumps(some_record | {name: value}).encode(),
        st.sampled_from(sorted(some_record)),
        json_values,
    ),
    st.sampled_from(STRANGE).map(encoded),
    st.sampled_from([b"[" * 100_000, b'{"qty":' + b"9" * 5000 + b"}", b"\xef\xbb\xbf{}"]),
)


@given(st.lists(st.tuples(arbitrary, st.none() | st.binary(max_size=30)), max_size=5))
def test_no_bytes_whatsoever_raise(pairs):
    lines = [Line(value, key) for value, key in pairs]
    slice_ = read(lines)
    offsets = [each.offset for each in (*slice_.accepted, *slice_.rejections)]
    assert sorted(offsets) == list(range(len(lines)))


def test_records_are_cut_by_count_and_the_last_cut_covers_the_trailing_gap():
    log = Records(3, 90, [5, 6, 40, 41, 80], [None] * 5, [b""] * 5)
    assert log.ends(2) == [40, 80, 90]
    assert log.ends(5) == [90]
    assert log.ends(1) == [6, 40, 41, 80, 90]
    assert log.ends(9) == [90]
    assert Records(3, 90, [], [], []).ends(2) == [90]  # a gap alone is passed too


def test_a_cut_slice_is_the_slice_again_when_joined():
    slice_ = read(history("A r1 NEW day 1 5\nmalformed\nmalformed\nB r1 NEW day 1 5"), step=5)
    first, second, third = slice_.cut([6, 10, 16])
    assert [(part.start, part.until) for part in (first, second, third)] == [
        (0, 6),
        (6, 10),
        (10, 16),
    ]
    assert [[each.offset for each in part.accepted] for part in (first, second, third)] == [
        [0],
        [],
        [15],
    ]
    assert [[each.offset for each in part.rejections] for part in (first, second, third)] == [
        [5],
        [],
        [10],
    ]
    assert first.joined(second).joined(third) == slice_
    assert slice_.before(10) == first.joined(second)


@pytest.mark.parametrize(
    ("text", "earliest"),
    [
        ("A r1 NEW day 4 5", {0: 4}),
        ("A r1 NEW day 4 5\nB r1 NEW day 2 5\nb/A r1 NEW day 3 5", {0: 2, 1: 3}),
        ("X r2 AMEND day 5 1", {0: 3}),  # X contributes to day 3 until then
        ("X r2 AMEND day 1 1", {0: 1}),
        ("X r2 CANCEL day 1", {0: 3}),  # a cancellation touches no day of its own
        ("A r1 CANCEL day 1", {0: None}),
        ("Y r9 CANCEL day 1", {0: None}),  # Y is in conflict and contributes to no day
    ],
)
def test_the_earliest_day_is_one_before_which_nothing_can_change(text, earliest):
    authorities = {
        (0, "X"): Authority(Candidate(1, "NEW", day(3), 0, 5), 0, conflicted=False),
        (0, "Y"): Authority(Candidate(1, "NEW", day(1), 0, 5), 0, conflicted=True),
    }
    slice_ = read(history(text))
    expected = {key: MAX_DAY if at is None else day(at) for key, at in earliest.items()}
    assert earliest_days(slice_, authorities) == expected


def test_a_decision_needs_the_authority_of_every_accepted_identity():
    slice_ = read(history("A r1 NEW day 1 5\nA r2 NEW day 1 5\nb/A r1 NEW day 1 5\nmalformed"))
    assert identities(slice_) == {(0, "A"), (1, "A")}
