"""Columns say of each record what `decode` says of it alone, whatever stands beside it."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.inventory import revision_columns
from amends_pipeline.inventory.revision import (
    MAX_VALUE_BYTES,
    Revision,
    decode,
    decode_batch,
    decode_carefully,
)
from amends_pipeline.inventory.revision_columns import RevisionColumns, decode_columns
from amends_pipeline.kernel.joined import Joined

from .test_classify import shared_cases, value_of
from .test_revision import ACCEPTED, MALFORMED_BYTES, PLAIN, RECORD, REVISION, swapped, with_
from .test_revision_readers import INT64, TEXTS, edited_records, near_records

COMPACT = json.dumps(RECORD, separators=(",", ":"))
NAMED = {name: text.encode() for name, (text, _) in ACCEPTED.items()} | MALFORMED_BYTES


def read(values: list[bytes]) -> list[Revision | None]:
    """Read records as columns, look at the form of these, and return them as rows."""
    columns = decode_columns(values)
    ends = np.cumsum([len(value) for value in values], dtype=np.int64)
    again = decode_columns(Joined(b"".join(values), ends))
    assert [again.at(row) for row in range(len(values))] == [
        columns.at(row) for row in range(len(values))
    ]
    assert len(columns) == len(values)
    for texts in (columns.txn_ids, columns.kinds, columns.items, columns.locations):
        assert isinstance(texts, pa.StringArray)
        assert (len(texts), texts.null_count) == (len(values), 0)
        texts.validate(full=True)
        assert not any(np.array(texts.to_pylist(), object)[~columns.sound])
    for numbers in (
        columns.revisions,
        columns.valid_days,
        columns.valid_nanoseconds,
        columns.qtys,
    ):
        assert (numbers.dtype, numbers.shape) == (np.int64, (len(values),))
        assert not numbers[~columns.sound].any()
    assert columns.sound.dtype == np.bool_
    return [columns.at(row) for row in range(len(values))]


@pytest.mark.parametrize("beside", [[], [PLAIN.encode()], [COMPACT.encode()]])
@pytest.mark.parametrize("name", NAMED)
def test_a_record_reads_as_it_does_alone(name, beside):
    value = NAMED[name]
    assert read([*beside, value, *beside]) == [
        *[REVISION] * len(beside),
        decode_carefully(value),
        *[REVISION] * len(beside),
    ]


@pytest.mark.parametrize("shared", shared_cases())
def test_the_shared_records(shared):
    value = value_of(shared[1])
    expected = decode_carefully(value)
    assert read([value]) == [expected]
    assert read([PLAIN.encode(), value, value]) == [REVISION, expected, expected]


def test_no_records_are_no_rows():
    assert read([]) == []


def test_all_that_is_named_reads_alike_side_by_side():
    values = [*NAMED.values()][::2] + [*NAMED.values()][::-2]
    assert read(values) == [decode_carefully(value) for value in values]


@pytest.mark.parametrize(
    "number",
    [
        *("0", "-0", "7", "-7", "12345678", "123456789", "-1234567890123456", "12345678901234567"),
        *("9223372036854775807", "-9223372036854775808", "1000000000000000000"),
        *("9223372036854775808", "-9223372036854775809", "9999999999999999999"),
        *("18446744073709551616", "10000000000000000000", "100000000000000000000"),
        *("", "-", "--1", "+1", "01", "-01", "00", "1.0", "1e2", "1-", "0x1", "1 1", " 1", "1/"),
        *("1:", "true", "null", '"1"', "1234567:", "12345678/2345678", "\u0661"),
    ],
)
@pytest.mark.parametrize("name", ["revision", "qty"])
def test_numbers(number, name):
    value = COMPACT.replace(f'"{name}":{RECORD[name]}', f'"{name}":{number}').encode()
    assert read([COMPACT.encode(), value]) == [REVISION, decode_carefully(value)]
    assert read([value, COMPACT.encode()]) == [decode_carefully(value), REVISION]


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("spaces", [(",", ":"), (", ", ": "), ("\n,\t", " :\r"), (",    ", ":   ")])
def test_numbers_may_be_first_and_last_and_side_by_side(order, spaces):
    names = ["qty", "kind", "valid_time", "stock_key", "txn_id", "source_time", "revision"]
    for at in range(len(names)):
        turned = [*names[at:], *names[:at]][::order]
        values = [
            json.dumps({name: (RECORD | numbers)[name] for name in turned}, separators=spaces)
            for numbers in ({}, {"qty": 7, "revision": 12345678}, {"qty": 2**63 - 1})
        ]
        values = [value.encode() for value in values]
        expected = [decode_carefully(value) for value in values]
        assert None not in expected
        assert read(values) == expected
        assert read([value.replace(b"7", b"x") for value in values])[1] is None


def test_many_manners_of_writing_stand_side_by_side():
    manners = [
        json.dumps(members, indent=indent, separators=separators)
        for members in (RECORD, dict(reversed(RECORD.items())), dict(sorted(RECORD.items())))
        for indent in (None, 1)
        for separators in ((",", ":"), (", ", ": "), (" ,", " :"))
    ]
    values = [
        manners[number % len(manners)].replace("T-1", f"T-{number}").encode()
        for number in range(400)
    ]
    assert [each.txn_id for each in read(values)] == [f"T-{number}" for number in range(400)]


def test_odd_records_at_the_beginning_do_not_keep_the_others_from_a_pattern(monkeypatch):
    monkeypatch.setattr(revision_columns, "_RUN_RECORDS", 500)
    odd = [with_(source_time=f"{number}").encode() for number in range(50)]
    odd += [json.dumps(RECORD, indent=number).encode() for number in range(1, 8)]
    good = [with_(txn_id=f"T-{number}").encode() for number in range(2_000)]
    expected = [decode(value) for value in odd + good]
    monkeypatch.setattr(revision_columns, "decode_batch", None)
    assert read(odd + good) == expected


def test_one_odd_record_is_the_only_one_that_is_read_alone(monkeypatch):
    alone = []

    def noted(value):
        alone.append(value)
        return decode(value)

    monkeypatch.setattr(revision_columns, "decode", noted)
    monkeypatch.setattr(revision_columns, "decode_batch", lambda values: [*map(noted, values)])
    odd = [
        swapped("T-1", "\\u0054").encode(),
        b'{"txn_id": "torn',
        b"",
        swapped("T-1", "T\n").encode(),
        swapped("T-1", "T\xff").encode("latin-1"),
        swapped("-50", "-5e1").encode(),
    ]
    good = [with_(txn_id=f"T-{number}", qty=number).encode() for number in range(1_000)]
    values = [*good[:300], *odd[:3], *good[300:], *odd[3:]]
    assert read(values) == [decode_carefully(value) for value in values]
    # The pattern, and those that it does not fit; once as a list and once side by side.
    assert sorted(alone) == sorted([good[0], *odd] * 2)


@pytest.mark.parametrize("filler", [" ", "x"])
def test_a_value_may_be_one_mebibyte_and_no_more(filler):
    if filler == " ":
        largest = PLAIN.encode().ljust(MAX_VALUE_BYTES)
        longer = largest + b" "
    else:
        room = MAX_VALUE_BYTES - len(swapped("T-1", ""))
        largest, longer = (swapped("T-1", "x" * size).encode() for size in (room, room + 1))
    assert (len(largest), len(longer)) == (MAX_VALUE_BYTES, MAX_VALUE_BYTES + 1)
    values = [PLAIN.encode(), largest, longer, longer, largest]
    rows = read(values * 5)
    assert [row is None for row in rows] == [False, False, True, True, False] * 5
    assert rows[1] == decode(largest)


@pytest.mark.parametrize("records", [1, 2, 7])
def test_runs_may_be_of_any_size(records, monkeypatch):
    monkeypatch.setattr(revision_columns, "_RUN_RECORDS", records)
    values = list(NAMED.values())
    assert read(values) == [decode_carefully(value) for value in values]


def test_columns_of_many_runs_are_of_one_chunk():
    values = [with_(txn_id=f"T-{number}", qty=number).encode() for number in range(20_000)]
    columns = decode_columns(values)
    assert columns.txn_ids.to_pylist() == [f"T-{number}" for number in range(20_000)]
    assert columns.qtys.tolist() == list(range(20_000))
    assert isinstance(columns, RevisionColumns)


def test_no_single_byte_parts_columns_from_rows():
    compact = COMPACT.encode()
    values = [
        compact[:place] + bytes([byte]) + compact[place + length :]
        for place in range(len(compact))
        for byte in range(256)
        for length in (0, 1)
        if length or byte in b'"\\{}:,0.e \x00\xff'
    ]
    expected = decode_batch(values)
    assert len(set(expected)) > 1_000
    # Enough good ones before them, so that the pattern they are read by is theirs.
    for beside in (0, 100):
        columns = decode_columns([*[compact] * beside, *values])
        assert [columns.at(row + beside) for row in range(len(values))] == expected


RECORDS = st.one_of(
    st.just(PLAIN.encode()),
    st.just(COMPACT.encode()),
    st.builds(
        lambda txn_id, item, qty, ascii_only: json.dumps(
            {**RECORD, "txn_id": txn_id, "stock_key": {"item": item, "location": ""}, "qty": qty},
            ensure_ascii=ascii_only,
            separators=(",", ":"),
        ).encode(),
        TEXTS,
        TEXTS,
        INT64,
        st.booleans(),
    ),
    near_records(),
    edited_records(),
    st.binary(max_size=12),
)


@given(st.lists(RECORDS, max_size=12), st.integers(0, 2))
def test_each_row_is_what_decode_says_of_its_record(values, ordinary):
    values = [COMPACT.encode()] * ordinary + values
    assert read(values) == [decode(value) for value in values]
