from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.inventory.config import parse_configuration
from amends_pipeline.inventory.envelope import Encoder
from amends_pipeline.inventory.wire import Decoder, decode
from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import ProtocolStop
from amends_pipeline.kernel.instants import MAX_DAY
from amends_pipeline_tests.envelopes import LARGEST, SMALLEST, drawn, envelope
from amends_pipeline_tests.tables import FIRST_DAY, STOCK_KEYS, configuration

CONFIG = parse_configuration(configuration(keys="abc"))
BALANCE = envelope("b day 3 balance v2 70, by RECEIPT-003 r2 at 4")
ALERT = envelope("b day 3 alert v1 50, by ISSUE-001 r2 at 3")
BALANCE_GONE = envelope("b day 3 balance v3 withdrawn, by RECEIPT-003 r3 at 5")
ALERT_GONE = envelope("b day 3 alert v2 withdrawn, by ISSUE-001 r2 at 3")
READY = envelope("b status v1 READY, by ISSUE-001 r1 at 0")
BLOCKED = envelope("b status v2 BLOCKED by A r1, B r2, by B r2 at 7")
ALL = [BALANCE, ALERT, BALANCE_GONE, ALERT_GONE, READY, BLOCKED]
OTHER_KEY = dict(zip(("item", "location"), STOCK_KEYS["a"], strict=True))
REASON = {
    "stock_key": dict(zip(("item", "location"), STOCK_KEYS["b"], strict=True)),
    "txn_id": "A",
    "revision": 1,
}


def raw_of(one) -> bytes:
    return Encoder(CONFIG, 0).encode(one)


def compact(document: object) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def changed(one, path: str, value: object) -> bytes:
    """The envelope's bytes with one member replaced, or left out where `value` is None."""
    document = json.loads(raw_of(one))
    target = document
    *parents, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    for step in parents:
        target = target[step]
    if value is LEFT_OUT:
        del target[last]
    else:
        target[last] = value
    return compact(document)


def stop_of(raw: bytes, *, config=CONFIG, partition: int = 0) -> ProtocolStop:
    with pytest.raises(ProtocolStop) as stop:
        decode(config, partition, raw)
    return stop.value


LEFT_OUT = object()


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.type.name)
def test_canonical_bytes_decode_to_their_envelope(one):
    assert decode(CONFIG, 0, raw_of(one)) == one


# One member at fault; where it is, and what the message says it should be.
FAULTS = {
    "a later schema": (BALANCE, "schema_version", 2, "schema_version", "1"),
    "schema true": (BALANCE, "schema_version", True, "schema_version", "1"),
    "schema as text": (BALANCE, "schema_version", "1", "schema_version", "1"),
    "no schema": (BALANCE, "schema_version", LEFT_OUT, "", "the members schema_version, output_id"),
    "a member more": (BALANCE, "more", 1, "", "the members schema_version, output_id"),
    "null for an id": (BALANCE, "output_id", None, "output_id", "an object"),
    "another namespace": (BALANCE, "output_id.namespace", "other", "output_id.namespace", '"main"'),
    "a longer namespace": (
        *(BALANCE, "output_id.namespace", "main2", "output_id.namespace"),
        '"main"',
    ),
    "no namespace": (
        *(BALANCE, "output_id.namespace", LEFT_OUT, "output_id"),
        "the members namespace",
    ),
    "another family": (
        *(BALANCE, "output_id.family", "alert", "type"),
        "AlertRaised or AlertRetracted",
    ),
    "an alert as a balance": (ALERT, "output_id.family", "balance", "type", "BalanceStated"),
    "an unknown family": (BALANCE, "output_id.family", "stock", "output_id.family", "alert or"),
    "a family of another case": (
        *(BALANCE, "output_id.family", "Balance", "output_id.family"),
        "alert",
    ),
    "a family that is a list": (BALANCE, "output_id.family", [], "output_id.family", "alert"),
    "an item that is not configured": (
        *(BALANCE, "output_id.stock_key.item", "X", "output_id.stock_key"),
        "a configured stock key",
    ),
    "a location that is not configured": (
        *(BALANCE, "output_id.stock_key.location", "depot-b", "output_id.stock_key"),
        "a configured stock key",
    ),
    "a key as a list": (BALANCE, "output_id.stock_key", ["X"], "output_id.stock_key", "an object"),
    "a key without location": (
        *(BALANCE, "output_id.stock_key.location", LEFT_OUT, "output_id.stock_key"),
        "the members item, location",
    ),
    "an item that is a number": (
        *(BALANCE, "output_id.stock_key.item", 7, "output_id.stock_key.item", "text"),
    ),
    "no day": (BALANCE, "output_id.day", LEFT_OUT, "output_id", "the members namespace, family"),
    "null for a day": (BALANCE, "output_id.day", None, "output_id.day", "text"),
    "a day that does not exist": (BALANCE, "output_id.day", "2026-02-30", "output_id.day", "a day"),
    "year 0000": (BALANCE, "output_id.day", "0000-12-31", "output_id.day", "a day"),
    "a short day": (BALANCE, "output_id.day", "2026-1-3", "output_id.day", "a day"),
    "a day with a time": (BALANCE, "output_id.day", "2026-01-03T", "output_id.day", "a day"),
    "Arabic digits": (BALANCE, "output_id.day", "٢٠٢٦-٠١-٠٣", "output_id.day", "a day"),
    "the day before the origin": (
        *(BALANCE, "output_id.day", "2025-12-31", ""),
        "a day from the origin",
    ),
    "a day on a status": (
        *(READY, "output_id.day", "2026-01-03", "output_id"),
        "the members namespace",
    ),
    "version 0": (BALANCE, "version", 0, "version", "an integer from 1"),
    "version -1": (BALANCE, "version", -1, "version", "an integer from 1"),
    "a version of 65 bits": (BALANCE, "version", LARGEST + 1, "version", "an integer from 1"),
    "version true": (BALANCE, "version", True, "version", "an integer from 1"),
    "a version as text": (BALANCE, "version", "2", "version", "an integer from 1"),
    "null for a version": (BALANCE, "version", None, "version", "an integer from 1"),
    "an unknown type": (BALANCE, "type", "BalanceChanged", "type", "BalanceStated or"),
    "a type of another case": (BALANCE, "type", "balanceStated", "type", "BalanceStated or"),
    "null for a type": (BALANCE, "type", None, "type", "BalanceStated or"),
    "a status type on a balance": (BALANCE, "type", "KeyStatusStated", "type", "BalanceStated or"),
    "a balance type on a status": (READY, "type", "BalanceStated", "type", '"KeyStatusStated"'),
    "the other type of its family": (BALANCE, "type", "BalanceRetracted", "payload", "the members"),
    "a withdrawal called a statement": (
        BALANCE_GONE,
        "type",
        "BalanceStated",
        "payload",
        "the members",
    ),
    "null for a payload": (BALANCE, "payload", None, "payload", "an object"),
    "a statement not present": (BALANCE, "payload.present", False, "payload.present", "True"),
    "present as a number": (BALANCE, "payload.present", 1, "payload.present", "True"),
    "a withdrawal present": (BALANCE_GONE, "payload.present", True, "payload.present", "False"),
    "absent as a number": (ALERT_GONE, "payload.present", 0, "payload.present", "False"),
    "a withdrawal with a close": (
        BALANCE_GONE,
        "payload.close",
        0,
        "payload",
        "the members present",
    ),
    "no close": (BALANCE, "payload.close", LEFT_OUT, "payload", "the members present, close"),
    "null for a close": (BALANCE, "payload.close", None, "payload.close", "an integer from -922"),
    "a close over 64 bits": (BALANCE, "payload.close", LARGEST + 1, "payload.close", "an integer"),
    "a close under 64 bits": (
        BALANCE,
        "payload.close",
        SMALLEST - 1,
        "payload.close",
        "an integer",
    ),
    "a close as text": (BALANCE, "payload.close", "70", "payload.close", "an integer"),
    "a fraction": (BALANCE, "payload.close", 70.0, None, "a plain integer"),
    "a threshold on a balance": (
        BALANCE,
        "payload.threshold",
        60,
        "payload",
        "the members present",
    ),
    "an alert without threshold": (ALERT, "payload.threshold", LEFT_OUT, "payload", "the members"),
    "another threshold": (ALERT, "payload.threshold", 61, "payload.threshold", "60"),
    "a third status": (READY, "payload.status", "UNKNOWN", "payload.status", "READY or BLOCKED"),
    "null for a status": (READY, "payload.status", None, "payload.status", "READY or BLOCKED"),
    "a status withdrawn": (READY, "payload.present", False, "payload.present", "True"),
    "READY with reasons": (READY, "payload.reasons", [REASON], "", "reasons on BLOCKED"),
    "READY without the member": (
        *(READY, "payload.reasons", LEFT_OUT, "payload"),
        "the members present",
    ),
    "BLOCKED without reasons": (BLOCKED, "payload.reasons", [], "", "reasons on BLOCKED"),
    "reasons that are an object": (BLOCKED, "payload.reasons", {}, "payload.reasons", "an array"),
    "null for reasons": (BLOCKED, "payload.reasons", None, "payload.reasons", "an array"),
    "a reason as text": (BLOCKED, "payload.reasons.1", "B", "payload.reasons[1]", "an object"),
    "a reason of another key": (
        *(BLOCKED, "payload.reasons.0.stock_key", OTHER_KEY, "payload.reasons[0].stock_key"),
        "the envelope's own",
    ),
    "a reason without revision": (
        *(BLOCKED, "payload.reasons.1.revision", LEFT_OUT, "payload.reasons[1]", "the members"),
    ),
    "a reason of revision 0": (
        *(BLOCKED, "payload.reasons.1.revision", 0, "payload.reasons[1].revision"),
        "an integer from 1",
    ),
    "a reason without a name": (BLOCKED, "payload.reasons.0.txn_id", "", "", "reasons with txn_id"),
    "a reason named by a number": (
        *(BLOCKED, "payload.reasons.0.txn_id", 3, "payload.reasons[0].txn_id", "text"),
    ),
    "a reason with U+0000": (BLOCKED, "payload.reasons.0.txn_id", "A\0", "", "reasons with txn_id"),
    "a reason twice": (BLOCKED, "payload.reasons", [REASON, REASON], "", "each reason once"),
    "reasons in another order": (BLOCKED, "payload.reasons.0.txn_id", "C", "", "each reason once"),
    "null for a cause": (BALANCE, "cause", None, "cause", "an object"),
    "a cause with one more member": (BALANCE, "cause.kind", "NEW", "cause", "the members source"),
    "another source": (BALANCE, "cause.source", "depot-feed-2", "cause.source", '"depot-feed-1"'),
    "another partition": (BALANCE, "cause.partition", 1, "cause.partition", "0"),
    "partition false": (BALANCE, "cause.partition", False, "cause.partition", "0"),
    "an offset before all": (BALANCE, "cause.offset", -1, "cause.offset", "an integer from 0"),
    "an offset of 65 bits": (BALANCE, "cause.offset", LARGEST + 1, "cause.offset", "an integer"),
    "no offset": (BALANCE, "cause.offset", LEFT_OUT, "cause", "the members source"),
    "a cause without a name": (BALANCE, "cause.txn_id", "", "", "a cause with"),
    "a cause with U+0000": (BALANCE, "cause.txn_id", "A\0B", "", "a cause with"),
    "a cause named by a number": (BALANCE, "cause.txn_id", 3, "cause.txn_id", "text"),
    "a cause of revision 0": (BALANCE, "cause.revision", 0, "cause.revision", "an integer from 1"),
}


@pytest.mark.parametrize(("one", "path", "value", "where", "expected"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_told_by_its_member(one, path, value, where, expected):
    stop = stop_of(changed(one, path, value))
    if where is not None:
        assert stop.where == ".".join(["envelope", where] if where else ["envelope"])
    assert stop.expected.startswith(expected), stop
    assert stop.found == shown(value) if path == where else stop.found


@pytest.mark.parametrize(("payload", "found"), [({}, "none"), ({"a": 1, "é": 2}, '"a", "é"')])
def test_members_that_do_not_belong_are_told_by_their_names(payload, found):
    assert stop_of(changed(BALANCE, "payload", payload)).found == found


def test_a_day_on_the_origin_and_the_last_day_are_days():
    for number in (FIRST_DAY, MAX_DAY):
        one = BALANCE._replace(day=number)
        assert decode(CONFIG, 0, raw_of(one)) == one


def test_a_key_of_another_partition_is_refused():
    keys = configuration(keys="abc", partitions=2)["keys"]
    keys[1]["partition"] = 1
    config = parse_configuration(configuration(partitions=2) | {"keys": keys})
    raw = Encoder(config, 0).encode(BALANCE)
    stop = stop_of(raw, config=config)
    assert (stop.expected, stop.found) == ("a key of partition 0", "one of partition 1")
    assert decode(config, 1, Encoder(config, 1).encode(BALANCE)) == BALANCE
    assert stop_of(raw, config=config, partition=1).where == "envelope.cause.partition"


# The same document in other bytes.

RAW = raw_of(BALANCE)
OTHER_BYTES = {
    "a line end after it": (RAW + b"\n", len(RAW)),
    "a blank before it": (b" " + RAW, 0),
    "a blank inside": (RAW.replace(b',"version"', b', "version"'), RAW.index(b'"version"')),
    "two members exchanged": (
        RAW.replace(b'"present":true,"close":70', b'"close":70,"present":true'),
        RAW.index(b"present"),
    ),
    "a letter as an escape": (RAW.replace(b"DEMO", b"\\u0044EMO"), RAW.index(b"DEMO")),
    "a slash as an escape": (
        raw_of(BALANCE._replace(cause=BALANCE.cause._replace(txn_id="a/b"))).replace(b"/", b"\\/"),
        None,
    ),
    "upper-case hexadecimal": (
        raw_of(BALANCE._replace(cause=BALANCE.cause._replace(txn_id="\x1f"))).replace(
            b"\\u001f", b"\\u001F"
        ),
        None,
    ),
    "an accent as an escape": (
        raw_of(BALANCE._replace(cause=BALANCE.cause._replace(txn_id="é"))).replace(
            "é".encode(), b"\\u00e9"
        ),
        None,
    ),
    "zero with a sign": (RAW.replace(b'"close":70', b'"close":-0'), None),
}


@pytest.mark.parametrize(("raw", "byte"), OTHER_BYTES.values(), ids=OTHER_BYTES)
def test_other_bytes_for_the_same_document_are_refused(raw, byte):
    assert raw != RAW
    stop = stop_of(raw)
    assert stop.where.startswith("envelope, byte ")
    assert byte is None or stop.where == f"envelope, byte {byte}"
    assert stop.expected.endswith("the canonical bytes")


def test_24_bytes_are_shown_of_what_should_stand_there_and_of_what_does():
    stop = stop_of(raw_of(BALANCE).replace(b'"type":', b'"type": '))
    assert stop.expected == """b'"BalanceStated","payload', the canonical bytes"""
    assert stop.found == """b' "BalanceStated","payloa'"""


NO_JSON = {
    "nothing": b"",
    "blanks": b"  ",
    "a byte order mark": b"\xef\xbb\xbf" + RAW,
    "UTF-16": RAW.decode().encode("utf-16"),
    "Latin-1": RAW.replace(b"DEMO", b"D\xc9MO"),
    "two envelopes": RAW + RAW,
    "a member twice": RAW.replace(b'"version":2', b'"version":1,"version":2'),
    "a member twice inside": RAW.replace(b'"close":70', b'"close":1,"close":70'),
    "an exponent": RAW.replace(b'"close":70', b'"close":7e1'),
    "NaN": RAW.replace(b'"close":70', b'"close":NaN'),
    "a leading zero": RAW.replace(b'"close":70', b'"close":070'),
    "a plus sign": RAW.replace(b'"close":70', b'"close":+70'),
    "a lone surrogate": RAW.replace(b"RECEIPT", b"\\ud800"),
    "a raw control": RAW.replace(b"RECEIPT", b"\x01"),
    "a hundred levels": RAW.replace(b"70", b"[" * 101 + b"]" * 101),
    "a hundred thousand levels": RAW.replace(b"70", b"[" * 100_000 + b"]" * 100_000),
    "five thousand digits": RAW.replace(b"70", b"7" * 5_000),
    "a comma too many": RAW.replace(b"70}", b"70,}"),
}


@pytest.mark.parametrize("raw", NO_JSON.values(), ids=NO_JSON)
def test_what_is_not_strict_json_is_refused(raw):
    stop = stop_of(raw)
    assert stop.where.startswith("envelope")
    assert stop.found


@pytest.mark.parametrize("raw", [b"null", b"1", b'"x"', b"[]", b"[" + RAW + b"]", b"{}"])
def test_json_that_is_no_envelope_is_refused(raw):
    assert stop_of(raw).where == "envelope"


def test_every_proper_beginning_of_an_envelope_is_refused():
    for length in range(len(RAW)):
        stop_of(RAW[:length])


# Laws

ONES = drawn(3, FIRST_DAY, MAX_DAY)
DECODER = Decoder(CONFIG, 0)


@given(ONES, st.data())
def test_a_changed_byte_is_refused_or_spells_another_envelope(one, data):
    raw = bytearray(raw_of(one))
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] = data.draw(st.integers(0, 255).filter(lambda byte: byte != raw[at]))
    try:
        other = DECODER.decode(bytes(raw))
    except ProtocolStop:
        return
    assert other != one
    assert raw_of(other) == bytes(raw)


@given(
    st.binary(max_size=200)
    | st.builds(lambda one, tail: raw_of(one) + tail, ONES, st.binary(min_size=1))
)
def test_no_other_bytes_decode_and_no_other_error_comes(raw):
    with pytest.raises(ProtocolStop):
        DECODER.decode(raw)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
    max_leaves=6,
)
PATHS = st.sampled_from(
    [
        *("schema_version", "output_id", "output_id.namespace", "output_id.family"),
        *("output_id.stock_key", "output_id.stock_key.item", "version", "type", "payload"),
        *("payload.present", "cause", "cause.source", "cause.partition", "cause.offset"),
        *("cause.txn_id", "cause.revision"),
    ]
)


@given(st.sampled_from(ALL), PATHS, JSON)
def test_any_value_for_a_member_is_refused_or_spells_another_envelope(one, path, value):
    raw = changed(one, path, value)
    try:
        other = DECODER.decode(raw)
    except ProtocolStop:
        return
    assert raw_of(other) == raw
