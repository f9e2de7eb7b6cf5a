from __future__ import annotations

import json

import pytest

from amends_pipeline.inventory.revision import (
    MAX_VALUE_BYTES,
    Revision,
    decode,
    decode_batch,
    decode_carefully,
)

RECORD = {
    "txn_id": "T-1",
    "revision": 1,
    "kind": "NEW",
    "stock_key": {"item": "DEMO-PART", "location": "DEPOT-A"},
    "valid_time": "2026-01-02T10:00:00Z",
    "qty": -50,
    "source_time": "2026-01-02T11:00:00Z",
}
TEN_O_CLOCK = 36_000 * 10**9
REVISION = Revision("T-1", 1, "NEW", "DEMO-PART", "DEPOT-A", 20_455, TEN_O_CLOCK, -50)
PLAIN = json.dumps(RECORD)


def with_(**members: object) -> str:
    """Return the plain record with members replaced or added."""
    return json.dumps({**RECORD, **members}, ensure_ascii=False)


def without(name: str) -> str:
    return json.dumps({key: member for key, member in RECORD.items() if key != name})


def swapped(old: str, new: str) -> str:
    """Return the text of the plain record with one part replaced."""
    assert PLAIN.count(old) == 1, old
    return PLAIN.replace(old, new)


def also(**fields: object) -> Revision:
    return Revision(
        **{name: getattr(REVISION, name) for name in REVISION.__struct_fields__} | fields
    )


ACCEPTED = {
    "plain": (PLAIN, REVISION),
    "compact": (json.dumps(RECORD, separators=(",", ":")), REVISION),
    "spaces and line ends around and inside": (
        "\r\n\t " + json.dumps(RECORD, indent=3) + " \n",
        REVISION,
    ),
    "members in another order": (json.dumps(dict(reversed(RECORD.items()))), REVISION),
    "escaped member name": (swapped('"qty"', '"\\u0071ty"'), REVISION),
    "escaped letters": (swapped("T-1", "T\\u002d1"), REVISION),
    "largest numbers": (
        with_(revision=2**63 - 1, qty=-(2**63)),
        also(revision=2**63 - 1, qty=-(2**63)),
    ),
    "smallest revision": (with_(revision=-(2**63)), also(revision=-(2**63))),
    "minus zero": (swapped("-50", "-0"), also(qty=0)),
    "a word for a kind": (with_(kind="new"), also(kind="new")),
    "empty texts": (
        with_(txn_id="", kind="", stock_key={"item": "", "location": ""}),
        also(txn_id="", kind="", item="", location=""),
    ),
    "names that look like JSON": (
        with_(txn_id='","qty":1,"', stock_key={"item": '\\"', "location": "}\\\\"}),
        also(txn_id='","qty":1,"', item='\\"', location="}\\\\"),
    ),
    "line ends in a name": (with_(txn_id="\n\r\t"), also(txn_id="\n\r\t")),
    "slash escaped": (swapped("T-1", "T\\/1"), also(txn_id="T/1")),
    "member names as values": (
        with_(txn_id="qty", kind="txn_id"),
        also(txn_id="qty", kind="txn_id"),
    ),
    "emoji as a surrogate pair": (swapped("T-1", "\\ud83d\\ude00"), also(txn_id="😀")),
    "emoji as it is": (with_(txn_id="😀"), also(txn_id="😀")),
    "decomposed letters stay so": (with_(txn_id="Cafe\u0301"), also(txn_id="Cafe\u0301")),
    "delete and separators are text": (with_(txn_id="\x7f\u2028"), also(txn_id="\x7f\u2028")),
    "zone offset moves the day": (
        with_(valid_time="2026-01-02T00:30:00+01:00"),
        also(valid_day=20_454, valid_nanosecond=84_600 * 10**9),
    ),
    "zone offset ends at midnight": (
        with_(valid_time="2026-01-01T23:59:00-00:01"),
        also(valid_nanosecond=0),
    ),
    "nanoseconds": (
        with_(valid_time="2026-01-02T10:00:00.000000001Z"),
        also(valid_nanosecond=TEN_O_CLOCK + 1),
    ),
    "valid time after the calendar": (
        with_(valid_time="9999-12-31T23:59:59-00:01"),
        also(valid_day=2_932_897, valid_nanosecond=59 * 10**9),
    ),
    "valid time in year 0000": (
        with_(valid_time="0000-02-29T10:00:00Z"),
        also(valid_day=-719_469),
    ),
    "source time at the ends of the calendar": (
        with_(source_time="9999-12-31T23:59:59.999999999Z"),
        REVISION,
    ),
    "source time moved into the calendar": (
        with_(source_time="0000-12-31T23:59:59-00:01"),
        REVISION,
    ),
}

MALFORMED = {
    "empty": "",
    "only spaces": "   ",
    "cut off": PLAIN[:-5],
    "null": "null",
    "array": f"[{PLAIN}]",
    "string": '"x"',
    "number": "7",
    "two objects": PLAIN + PLAIN,
    "two lines": f"{PLAIN}\n{PLAIN}",
    "trailing word": PLAIN + " x",
    "trailing NUL": PLAIN + "\x00",
    "trailing comma": PLAIN[:-1] + ",}",
    "missing comma": swapped('"NEW",', '"NEW"'),
    "single quotes": PLAIN.replace('"', "'"),
    "comment": "/* */" + PLAIN,
    "duplicate member": swapped('"qty": -50', '"qty": -50, "qty": -50'),
    "duplicate text member": swapped('"kind": "NEW"', '"kind": "NEW", "kind": "NEW"'),
    "duplicate stock_key": PLAIN[:-1] + ', "stock_key": {"item": "A", "location": "B"}}',
    "duplicate member, one escaped": swapped('"qty": -50', '"qty": -50, "\\u0071ty": 3'),
    "duplicate inside stock_key": swapped(
        '"item": "DEMO-PART"', '"item": "A", "item": "DEMO-PART"'
    ),
    "duplicate beside an escaped quote": swapped('"T-1"', '"\\"", "qty": 1'),
    "duplicate beside an escaped backslash": swapped('"T-1"', '"\\\\", "qty": 1'),
    "duplicate beside two escaped backslashes": with_(
        stock_key={"item": "\\", "location": "\\"}
    ).replace('"qty": -50', '"qty": -50, "qty": -50'),
    "unknown member": with_(note="x"),
    "unknown member in stock_key": with_(stock_key={"item": "A", "location": "B", "bin": 1}),
    "a number where stock_key is": with_(stock_key=7),
    "stock_key a string": with_(stock_key="DEMO-PART"),
    "stock_key an array": with_(stock_key=["DEMO-PART", "DEPOT-A"]),
    "stock_key without location": with_(stock_key={"item": "DEMO-PART"}),
    **{f"missing {name}": without(name) for name in RECORD},
    **{f"null {name}": with_(**{name: None}) for name in RECORD},
    "null item": with_(stock_key={"item": None, "location": "DEPOT-A"}),
    "capital Qty": swapped('"qty"', '"Qty"'),
    "number as text": with_(qty="-50"),
    "boolean revision": with_(revision=True),
    "boolean quantity": with_(qty=False),
    "quantity 1.0": with_(qty=1.0),
    "quantity 1.5": with_(qty=1.5),
    "quantity -0.0": with_(qty=-0.0),
    "quantity 5e1": swapped("-50", "5e1"),
    "quantity 5E+1": swapped("-50", "5E+1"),
    "quantity 1e400": swapped("-50", "1e400"),
    "revision 1.0": with_(revision=1.0),
    "a fraction too long for a float": swapped("-50", "1." + "0" * 400),
    "quantity above": with_(qty=2**63),
    "quantity below": with_(qty=-(2**63) - 1),
    "quantity of 30 digits": with_(qty=int("1234567890" * 3)),
    "quantity of 5,000 digits": swapped("-50", "9" * 5000),
    "revision above": with_(revision=2**63),
    "revision at the unsigned end": with_(revision=2**64 - 1),
    "leading zero": swapped("-50", "-050"),
    "plus sign": swapped("-50", "+50"),
    "NaN": swapped("-50", "NaN"),
    "Infinity": swapped("-50", "-Infinity"),
    "kind a number": with_(kind=1),
    "txn_id a number": with_(txn_id=7),
    "item a number": with_(stock_key={"item": 7, "location": "DEPOT-A"}),
    "NUL in txn_id": swapped("T-1", "T\\u0000"),
    "NUL in kind": swapped("NEW", "NEW\\u0000"),
    "NUL in item": swapped("DEMO-PART", "\\u0000"),
    "NUL in location": swapped("DEPOT-A", "\\u0000A"),
    "NUL in valid_time": swapped("10:00:00Z", "10:00:00Z\\u0000"),
    "NUL byte": swapped("T-1", "T\x00"),
    "lone high surrogate": swapped("T-1", "\\ud83d"),
    "lone low surrogate": swapped("T-1", "\\udc00"),
    "surrogates the wrong way round": swapped("T-1", "\\ude00\\ud83d"),
    "half a pair beside a letter": swapped("T-1", "\\ud83d\\u0041"),
    "control character in a text": swapped("T-1", "T\t1"),
    "unknown escape": swapped("T-1", "T\\x31"),
    "escape cut short": swapped("T-1", "\\u004"),
    "byte order mark": "\ufeff" + PLAIN,
    "no-break space around": "\u00a0" + PLAIN,
    "form feed around": "\x0c" + PLAIN,
    "lower-case z": with_(valid_time="2026-01-02T10:00:00z"),
    "leap second": with_(valid_time="2026-06-30T23:59:60Z"),
    "a day that does not exist": with_(valid_time="2026-02-30T00:00:00Z"),
    "no zone": with_(valid_time="2026-01-02T10:00:00"),
    "ten fraction digits": with_(valid_time="2026-01-02T10:00:00.1234567890Z"),
    "Arabic digits": with_(valid_time="\u0662\u0660\u0662\u0666-01-02T10:00:00Z"),
    "a line end after Z": with_(valid_time="2026-01-02T10:00:00Z\n"),
    "valid_time a number": with_(valid_time=1_767_348_000),
    "source_time a word": with_(source_time="now"),
    "source_time a lower-case t": with_(source_time="2026-01-02t11:00:00Z"),
    "source_time before the calendar": with_(source_time="0001-01-01T00:00:00+00:01"),
    "source_time in year 0000": with_(source_time="0000-06-01T00:00:00Z"),
    "source_time after the calendar": with_(source_time="9999-12-31T23:59:59-01:00"),
    "100,000 open brackets": "[" * 100_000,
    "100,000 open objects": '{"stock_key":' * 100_000,
}

MALFORMED_BYTES = {
    "not UTF-8 in a text": PLAIN.encode().replace(b"T-1", b"T-\xff"),
    "not UTF-8 in a member name": PLAIN.encode().replace(b"qty", b"qt\xff"),
    "UTF-16": PLAIN.encode("utf-16"),
    "UTF-32": PLAIN.encode("utf-32"),
    "an overlong quotation mark": PLAIN.encode().replace(b"T-1", b"T\xc0\xa2"),
    "an overlong NUL": PLAIN.encode().replace(b"T-1", b"T\xc0\x80"),
    "a surrogate in UTF-8": PLAIN.encode().replace(b"T-1", b"\xed\xa0\x80"),
    "a pair of surrogates in UTF-8": PLAIN.encode().replace(b"T-1", b"\xed\xa0\xbd\xed\xb8\x80"),
    "beyond Unicode": PLAIN.encode().replace(b"T-1", b"\xf4\x90\x80\x80"),
    "a sequence cut short": PLAIN.encode().replace(b"T-1", b"\xc3"),
    "a byte after the end": PLAIN.encode() + b"\xff",
}
for name, text in MALFORMED.items():
    MALFORMED_BYTES[name] = text.encode()

READERS = pytest.mark.parametrize(
    "read",
    [
        pytest.param(decode, id="alone"),
        pytest.param(lambda value: decode_batch([PLAIN.encode(), value])[1], id="in a batch"),
        pytest.param(decode_carefully, id="carefully"),
    ],
)


@READERS
@pytest.mark.parametrize("name", ACCEPTED)
def test_records_and_what_they_say(read, name):
    text, revision = ACCEPTED[name]
    assert read(text.encode()) == revision


@READERS
@pytest.mark.parametrize("name", MALFORMED_BYTES)
def test_anything_else_is_malformed(read, name):
    assert read(MALFORMED_BYTES[name]) is None


@READERS
@pytest.mark.parametrize("filler", [" ", "x", "\\n"])
def test_a_value_may_be_one_mebibyte_and_no_more(read, filler):
    if filler == " ":
        largest = PLAIN.encode().ljust(MAX_VALUE_BYTES)
    else:
        count, rest = divmod(MAX_VALUE_BYTES - len(swapped("T-1", "")), len(filler))
        largest = swapped("T-1", filler * count).encode() + b" " * rest
    assert len(largest) == MAX_VALUE_BYTES == 1_048_576
    assert read(largest) is not None
    assert read(largest + b" ") is None


def test_a_batch_keeps_the_order_whatever_stands_in_it():
    named = list(MALFORMED_BYTES.values())
    values = []
    for number in range(2_000):
        values.append(with_(txn_id=f"T-{number}").encode())
        if number > 1_200 and number % 100 == 7:
            values.append(named[number % len(named)])
            values.append(swapped("T-1", "\\u0054").encode())
    revisions = decode_batch(values)
    assert revisions == [decode_carefully(value) for value in values]
    assert [each.txn_id for each in revisions[:1_200]] == [f"T-{n}" for n in range(1_200)]
    assert None in revisions


def test_a_batch_may_be_empty():
    assert decode_batch([]) == []


def test_a_revision_is_a_value():
    assert also(qty=-50) == REVISION
    assert also(qty=50) != REVISION
    assert hash(REVISION) == hash(also(qty=-50))
    with pytest.raises(AttributeError, match="immutable"):
        REVISION.qty = 1
