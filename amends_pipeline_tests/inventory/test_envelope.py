from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.inventory import wire
from amends_pipeline.inventory.config import load_configuration, parse_configuration
from amends_pipeline.inventory.envelope import (
    ENCODER_VERSION,
    ENVELOPE_SCHEMA_VERSION,
    STATUS_DAY,
    Cause,
    Encoder,
    Envelope,
    Family,
    OutputId,
    Type,
    encoded_id,
    joined,
)
from amends_pipeline.kernel.instants import MAX_DAY, MIN_DAY, day_text
from amends_pipeline_tests.envelopes import LARGEST, SMALLEST, batch, drawn, envelopes
from amends_pipeline_tests.strategies import AWKWARD_KEYS
from amends_pipeline_tests.tables import configuration

GOLDEN = Path(__file__).parents[2] / "fixtures" / "golden"
PARTITION = 2
PLAIN = ("DEMO-PART", "DEPOT-A")
QUOTES = ('say "hi"', "C:\\depot\\")
CONTROLS = ("".join(map(chr, range(1, 0x10))), "".join(map(chr, range(0x10, 0x20))) + "\x7f")
EMOJI = ("\U0001f469\u200d\U0001f680", "\U0010ffff")
LINE_ENDS = ("a\u2028b\u2029c\u0085d", "\ufeff\u202eabc")
NFC = ("Caf\u00e9", "NFC")
NFD = ("Cafe\u0301", "NFD")
SEPARATORS = ("a/b|c", "[\"x\",'y'] <&> \\u0041")
JANUARY_1 = 20_454  # 2026-01-01
CONFLICTS = (
    ("ISSUE-001", 2),
    ("ISSUE-001", 10),
    ("Z", 1),
    ("a", 1),
    ("\uff61", 1),  # after the next one in UTF-16, before it in UTF-8
    ("\U0001f600", LARGEST),
)
ISSUE = Cause(0, "ISSUE-001", 1)
AMENDMENT = Cause(3, "ISSUE-001", 2)
EXTREME = Cause(LARGEST, "\U0010ffff", LARGEST)

TABLE = [  # one per line of envelopes.jsonl: stock key, type, day, version, close, cause, reasons
    (PLAIN, Type.BALANCE_STATED, JANUARY_1, 1, 70, ISSUE, ()),
    (PLAIN, Type.BALANCE_RETRACTED, JANUARY_1 + 2, 3, 0, Cause(4, "RECEIPT-003", 2), ()),
    (PLAIN, Type.ALERT_RAISED, JANUARY_1 + 1, 1, 50, AMENDMENT, ()),
    (PLAIN, Type.ALERT_RETRACTED, JANUARY_1, 2, 0, AMENDMENT, ()),
    (PLAIN, Type.READY_STATED, STATUS_DAY, 1, 0, ISSUE, ()),
    (
        *(PLAIN, Type.BLOCKED_STATED, STATUS_DAY, 2, 0),
        *(Cause(9, "\U0001f600", LARGEST), CONFLICTS),
    ),
    (QUOTES, Type.ALERT_RAISED, 19_782, 1, -6, Cause(10, "\\\"/'", 1), ()),
    (CONTROLS, Type.BALANCE_STATED, -1, 1, 0, Cause(11, "\n\x1f\x7f", 1), ()),
    (EMOJI, Type.READY_STATED, STATUS_DAY, 7, 0, Cause(12, "\U0001f600", 3), ()),
    (LINE_ENDS, Type.ALERT_RETRACTED, 0, 2, 0, Cause(13, "\u2028\u2029\u0085\ufeff", 2), ()),
    (NFC, Type.BALANCE_STATED, JANUARY_1, 1, -1, Cause(14, "Caf\u00e9", 1), ()),
    (NFD, Type.BALANCE_STATED, JANUARY_1, 1, -2, Cause(15, "Cafe\u0301", 1), ()),
    (SEPARATORS, Type.BALANCE_STATED, MIN_DAY, LARGEST, SMALLEST, EXTREME, ()),
    (SEPARATORS, Type.BALANCE_STATED, MAX_DAY, 1, LARGEST, Cause(16, "x", 1), ()),
    (SEPARATORS, Type.ALERT_RAISED, MAX_DAY, 1, SMALLEST, Cause(16, "x", 1), ()),
    (SEPARATORS, Type.BALANCE_RETRACTED, -354_286, 2, 0, Cause(17, " x ", 2), ()),
]


@pytest.fixture(scope="module")
def golden():
    return load_configuration(GOLDEN / "configuration.json")


def golden_lines() -> list[bytes]:
    content = (GOLDEN / "envelopes.jsonl").read_bytes()
    assert content.endswith(b"\n")
    return content[:-1].split(b"\n")  # and at no other line end: some stand inside the texts


def golden_envelope(config, row) -> Envelope:
    stock_key, kind, day, version, close, cause, reasons = row
    number = config.number_of(stock_key)
    assert number is not None, stock_key
    return Envelope(number, kind, day, version, close, cause, reasons)


def test_the_golden_file_pins_this_encoder():
    assert (ENCODER_VERSION, ENVELOPE_SCHEMA_VERSION) == (1, 1)
    assert len(golden_lines()) == len(TABLE)
    assert {row[1] for row in TABLE} == set(Type)


@pytest.mark.parametrize("at", range(len(TABLE)))
def test_an_envelope_has_its_golden_bytes_and_reads_back_from_them(golden, at):
    envelope = golden_envelope(golden, TABLE[at])
    raw = golden_lines()[at]
    assert Encoder(golden, PARTITION).encode(envelope) == raw
    assert wire.decode(golden, PARTITION, raw) == envelope


# A second way to the same bytes: the document by hand, the JSON library of Python around it.

AWKWARD = parse_configuration(
    configuration(origin="0001-01-01T00:00:00Z")
    | {
        "keys": [
            {
                "stock_key": {"item": item, "location": location},
                "opening_balance": 0,
                "reorder_threshold": -7,
                "partition": 0,
            }
            for item, location in AWKWARD_KEYS
        ]
    }
)
ANY = drawn(len(AWKWARD.keys), MIN_DAY, MAX_DAY)


def written(envelope: Envelope) -> bytes:
    item, location = AWKWARD.keys[envelope.key].stock_key
    stock_key = {"item": item, "location": location}
    name, family, payload = {
        Type.ALERT_RAISED: (
            *("AlertRaised", "alert"),
            {"present": True, "threshold": -7, "close": envelope.close},
        ),
        Type.ALERT_RETRACTED: ("AlertRetracted", "alert", {"present": False}),
        Type.BALANCE_STATED: (
            *("BalanceStated", "balance"),
            {"present": True, "close": envelope.close},
        ),
        Type.BALANCE_RETRACTED: ("BalanceRetracted", "balance", {"present": False}),
        Type.READY_STATED: (
            *("KeyStatusStated", "key-status"),
            {"present": True, "status": "READY", "reasons": []},
        ),
        Type.BLOCKED_STATED: (
            *("KeyStatusStated", "key-status"),
            {
                "present": True,
                "status": "BLOCKED",
                "reasons": [
                    {"stock_key": stock_key, "txn_id": txn_id, "revision": revision}
                    for txn_id, revision in envelope.reasons
                ],
            },
        ),
    }[Type(envelope.type)]
    day = {} if family == "key-status" else {"day": day_text(envelope.day)}
    document = {
        "schema_version": 1,
        "output_id": {"namespace": "main", "family": family, "stock_key": stock_key, **day},
        "version": envelope.version,
        "type": name,
        "payload": payload,
        "cause": {
            "source": "depot-feed-1",
            "partition": 0,
            "offset": envelope.cause.offset,
            "txn_id": envelope.cause.txn_id,
            "revision": envelope.cause.revision,
        },
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


@given(ANY)
def test_any_envelope_is_written_as_its_document_and_reads_back(envelope):
    raw = Encoder(AWKWARD, 0).encode(envelope)
    assert raw == written(envelope)
    assert wire.decode(AWKWARD, 0, raw) == envelope


@given(ANY, ANY)
def test_two_envelopes_have_equal_bytes_exactly_when_they_are_equal(one, other):
    encode = Encoder(AWKWARD, 0).encode
    assert (encode(one) == encode(other)) == (one == other)


# Identity


@pytest.mark.parametrize(
    ("output", "text"),
    [
        (
            OutputId(Family.ALERT, 0, JANUARY_1),
            '["main","alert","DEMO-PART","DEPOT-A","2026-01-01"]',
        ),
        (
            OutputId(Family.BALANCE, 1, MIN_DAY),
            '["main","balance","DEMO-PART","DEPOT-B","0001-01-01"]',
        ),
        (OutputId(Family.KEY_STATUS, 1, STATUS_DAY), '["main","key-status","DEMO-PART","DEPOT-B"]'),
    ],
    ids=["alert", "balance", "status"],
)
def test_an_encoded_id_is_a_compact_array(output, text):
    assert encoded_id(parse_configuration(configuration()), output) == text


@pytest.mark.parametrize(
    ("kind", "family"),
    [
        (Type.ALERT_RAISED, Family.ALERT),
        (Type.ALERT_RETRACTED, Family.ALERT),
        (Type.BALANCE_STATED, Family.BALANCE),
        (Type.BALANCE_RETRACTED, Family.BALANCE),
        (Type.READY_STATED, Family.KEY_STATUS),
        (Type.BLOCKED_STATED, Family.KEY_STATUS),
    ],
)
def test_statement_and_withdrawal_are_versions_of_one_output(kind, family):
    assert Envelope(3, kind, 7, 1, 0, ISSUE, ()).output_id == OutputId(family, 3, 7)


@given(st.lists(ANY, min_size=2, max_size=8))
def test_output_ids_sort_as_the_bytes_of_their_encoded_ids(drawn_envelopes):
    outputs = [envelope.output_id for envelope in drawn_envelopes]
    by_bytes = sorted(outputs, key=lambda output: encoded_id(AWKWARD, output).encode())
    assert sorted(outputs) == by_bytes


# Batches

FIVE = """
    a day 1 alert v2 withdrawn, by A r2 at 3
    a day 2 alert v1 50, by A r2 at 3
    a day 1 balance v2 70, by B r1 at 4
    a status v2 BLOCKED by A r1, B r2, by B r2 at 7
    b status v1 READY, by A r2 at 3
"""


def test_a_batch_gives_back_what_was_added_in_order():
    five = envelopes(FIVE)
    columns = batch(five)
    assert len(columns) == 5
    assert list(columns) == five
    assert [columns.at(i) for i in range(5)] == five


@pytest.mark.parametrize("start", range(6))
@pytest.mark.parametrize("stop", range(6))
def test_a_part_of_a_batch_holds_the_envelopes_at_its_positions(start, stop):
    five = envelopes(FIVE)
    part = batch(five).slice(start, stop)
    assert list(part) == five[start:stop]
    assert len(part) == len(five[start:stop])
    # No reason is left over: it would fall to whatever is joined behind.
    assert set(part.reasons) == {i for i, one in enumerate(part) if one.reasons}


@pytest.mark.parametrize(
    "cuts", [[], [0], [5], [3], [1, 3], [0, 2, 2, 4, 5], [1, 2, 3, 4]], ids=str
)
def test_batches_join_to_the_envelopes_of_all(cuts):
    five = envelopes(FIVE)
    ends = [*cuts, 5]
    parts = [batch(five).slice(start, stop) for start, stop in zip([0, *ends], ends, strict=False)]
    assert list(joined(parts)) == five


def test_joining_leaves_the_parts_as_they_were():
    one, other = batch(envelopes(FIVE)), batch(envelopes(FIVE))
    joined([one, other])
    assert list(one) == list(other) == envelopes(FIVE)
