"""The fast reader and the careful one say the same of any bytes."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.inventory.revision import Revision, decode, decode_batch, decode_carefully

from .test_revision import PLAIN, RECORD, REVISION, TEN_O_CLOCK

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8)
INT64 = st.integers(-(2**63), 2**63 - 1)


@given(
    st.tuples(TEXTS, INT64, TEXTS, TEXTS, TEXTS, INT64),
    st.booleans(),
    st.sampled_from([None, 1]),
    st.sampled_from([(",", ":"), (" , ", " : ")]),
)
def test_every_record_reads_as_it_was_meant(fields, ascii_only, indent, separators):
    txn_id, revision, kind, item, location, qty = fields
    record = {
        **RECORD,
        "txn_id": txn_id,
        "revision": revision,
        "kind": kind,
        "stock_key": {"item": item, "location": location},
        "qty": qty,
    }
    text = json.dumps(record, ensure_ascii=ascii_only, indent=indent, separators=separators)
    expected = Revision(txn_id, revision, kind, item, location, 20_455, TEN_O_CLOCK, qty)
    assert decode(text.encode()) == decode_carefully(text.encode()) == expected


TIMES = st.sampled_from(
    [
        "2026-01-02T10:00:00Z",
        "0000-12-31T23:59:59-00:01",
        "9999-12-31T23:59:59-00:01",
        "",
        "x",
        "2026-01-02T10:00:00.5+01:00",
        "2026-02-29T00:00:00Z",
        "0001-01-01T00:00:00+00:01",
    ]
)
STRINGS = st.one_of(
    TEXTS.map(json.dumps),
    TIMES.map(json.dumps),
    st.sampled_from(
        ['"\\u0000"', '"\\ud800"', '"\\\\"', '"\\""', '"\\\\\\""', '"\xa0"', '"\x00"', '"\x1f"']
    ),
)
NUMBERS = st.one_of(
    INT64.map(str),
    st.integers().map(str),
    st.sampled_from(
        ["-0", "1.0", "-0.0", "1e2", "01", "true", "null", "1E400", "NaN", "9" * 700, "-"]
    ),
)
STOCK_KEYS = st.lists(
    st.tuples(st.sampled_from(['"item"', '"location"', '"ite\\u006d"', '"Item"']), STRINGS),
    min_size=1,
    max_size=3,
).map(lambda members: "{" + ",".join(f"{name}:{value}" for name, value in members) + "}")
ORDINARY_KEY = st.just('{"item":"DEMO-PART","location":"DEPOT-A"}')


def member(name: str, values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    names = st.sampled_from(
        [f'"{name}"'] * 8 + [f'"\\u{ord(name[0]):04x}{name[1:]}"', f'"{name} "']
    )
    return st.builds(lambda spelled, value: f"{spelled}:{value}", names, values)


MEMBERS = {
    "txn_id": member("txn_id", STRINGS),
    "revision": member("revision", NUMBERS),
    "kind": member("kind", STRINGS),
    "stock_key": member("stock_key", ORDINARY_KEY | STOCK_KEYS),
    "valid_time": member("valid_time", TIMES.map(json.dumps)),
    "qty": member("qty", NUMBERS),
    "source_time": member("source_time", TIMES.map(json.dumps)),
}


@st.composite
def near_records(draw: st.DrawFn) -> bytes:
    """Draw records that differ from a good one by members left out, doubled, or filled oddly."""
    ordinary = {name: f"{json.dumps(name)}:{json.dumps(RECORD[name])}" for name in RECORD}
    odd = draw(st.sets(st.sampled_from(sorted(MEMBERS)), max_size=3))
    parts = [draw(MEMBERS[name]) if name in odd else ordinary[name] for name in RECORD]
    parts += draw(st.lists(st.one_of(*MEMBERS.values()), max_size=1))
    if draw(st.integers(0, 5)) == 0:
        parts.pop(draw(st.integers(0, len(parts) - 1)))
    blank = draw(st.sampled_from(["", " ", "\n", "\x0c"]))
    return f"{blank}{{{f',{blank}'.join(draw(st.permutations(parts)))}}}".encode()


@st.composite
def edited_records(draw: st.DrawFn) -> bytes:
    """Draw records with a few bytes replaced, inserted or taken away."""
    raw = bytearray(draw(near_records()))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(raw)))
        length = draw(st.integers(0, 2))
        raw[place : place + length] = draw(
            st.sampled_from(
                [b"", b'"', b"\\", b"\\u", b"00", b".0", b"e1", b"{", b"}", b",", b"\xff"]
            )
            | st.binary(min_size=1, max_size=2)
        )
    return bytes(raw)


@given(st.lists(near_records() | edited_records(), min_size=1, max_size=5))
def test_the_fast_reader_says_what_the_careful_one_says(values):
    expected = [decode_carefully(value) for value in values]
    assert [decode(value) for value in values] == expected
    assert decode_batch(values) == expected
    assert decode_batch([PLAIN.encode(), *values]) == [REVISION, *expected]


def test_no_single_byte_parts_the_readers():
    compact = json.dumps(RECORD, separators=(",", ":")).replace("T-1", "\\n").encode()
    values = [
        compact[:place] + bytes([byte]) + compact[place + length :]
        for place in range(len(compact))
        for byte in range(256)
        for length in (0, 1)
        if length or byte in b'"\\{}:,0.e \x00\xff'
    ]
    revisions = decode_batch(values)
    assert revisions == [decode_carefully(value) for value in values]
    assert len(set(revisions)) > 1_000
