from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.kernel.canonical import canonical_json, compact_json, json_string, sha256_hex

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (-(2**63), "-9223372036854775808"),
        (10**30, "1000000000000000000000000000000"),
        ("", '""'),
        ("a/b", '"a/b"'),
        ('"\\', r'"\"\\"'),
        ("\b\f\n\r\t", r'"\b\f\n\r\t"'),
        ("\x00\x1f\x0b", r'"\u0000\u001f\u000b"'),
        ("\x7f\u2028é😀", '"\x7f\u2028é😀"'),
        ([], "[]"),
        (("DEMO-PART", "DEPOT-A"), '["DEMO-PART","DEPOT-A"]'),
        ({}, "{}"),
        ({"b": [1, {"d": None, "c": 2}], "a": "x"}, '{"b":[1,{"d":null,"c":2}],"a":"x"}'),
    ],
)
def test_values_and_their_compact_text(value, text):
    assert compact_json(value) == text


def test_canonical_members_are_sorted_at_every_depth_by_their_bytes():
    value = {"\uffff": 1, "\U00010000": 2, "b": [{"d": 1, "c": 2}], "B": 3, "é": 4}
    expected = '{"B":3,"b":[{"c":2,"d":1}],"é":4,"\uffff":1,"\U00010000":2}'
    assert canonical_json(value) == expected.encode()


@pytest.mark.parametrize("value", [1.0, float("nan"), b"x", {1: 2}, {"a": [1.5]}, {"a"}, object()])
def test_what_has_no_form_of_ours_is_refused(value):
    with pytest.raises(TypeError, match="no canonical JSON form"):
        compact_json(value)
    with pytest.raises(TypeError, match="no canonical JSON form"):
        canonical_json(value)


def test_a_lone_surrogate_has_no_bytes():
    with pytest.raises(UnicodeEncodeError):
        canonical_json("\ud800")


@given(VALUES)
def test_what_is_written_reads_back(value):
    assert json.loads(compact_json(value)) == value
    assert json.loads(canonical_json(value)) == value
    assert compact_json(value) == json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def test_one_text_as_a_json_string():
    assert json_string('a"\x01') == r'"a\"\u0001"'


def test_the_digest_is_sha_256():
    # The value for "abc" that the standard gives.
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert sha256_hex(b"abc") == expected
