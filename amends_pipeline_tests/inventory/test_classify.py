from __future__ import annotations

import base64
import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.inventory.classify import Code, classify
from amends_pipeline.inventory.config import parse_configuration
from amends_pipeline.inventory.revision import Revision, decode, decode_batch, decode_carefully
from amends_pipeline.inventory.slice import Records, read_slice
from amends_pipeline.inventory.slice_columns import read_columns

CONFIG = parse_configuration(
    {
        "schema_version": 1,
        "namespace": "main",
        "source": "depot-feed-1",
        "partitions": 2,
        "origin": "2026-01-01T00:00:00.000000005Z",
        "keys": [
            {
                "stock_key": {"item": item, "location": location},
                "opening_balance": 100,
                "reorder_threshold": 60,
                "partition": partition,
            }
            for item, location, partition in [("DEMO-PART", "DEPOT-A", 0), ("a/b", "Café", 1)]
        ],
    }
)
ORIGIN_DAY = 20_454
MAX_DAY = 2_932_896
GOOD = Revision("T-1", 1, "NEW", "DEMO-PART", "DEPOT-A", ORIGIN_DAY + 1, 0, -50)
KEY = b'["DEMO-PART","DEPOT-A"]'


def code_of(*, partition: int = 0, raw_key: bytes | None = None, **fields: object) -> Code | None:
    return classify(CONFIG, partition, raw_key, msgspec.structs.replace(GOOD, **fields))


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, None),
        ({"kind": "AMEND", "revision": 7}, None),
        ({"kind": "CANCEL", "qty": 0}, None),
        ({"qty": 0}, None),
        ({"qty": -(2**63), "revision": 2**63 - 1}, None),
        ({"txn_id": " "}, None),
        ({"valid_day": ORIGIN_DAY, "valid_nanosecond": 5}, None),
        ({"valid_day": MAX_DAY, "valid_nanosecond": 86_400 * 10**9 - 1}, None),
        ({"raw_key": KEY}, None),
        ({"item": "a/b", "location": "Café", "partition": 1}, None),
        (
            {
                "item": "a/b",
                "location": "Café",
                "partition": 1,
                "raw_key": '["a/b","Café"]'.encode(),
            },
            None,
        ),
        ({"txn_id": ""}, Code.IDENTITY),
        ({"item": ""}, Code.IDENTITY),
        ({"location": ""}, Code.IDENTITY),
        ({"revision": 0}, Code.REVISION),
        ({"revision": -(2**63)}, Code.REVISION),
        ({"kind": ""}, Code.KIND),
        ({"kind": "new"}, Code.KIND),
        ({"kind": "NEW "}, Code.KIND),
        ({"kind": "DELETE"}, Code.KIND),
        ({"kind": "CANCEL"}, Code.CANCEL_QUANTITY),
        ({"kind": "CANCEL", "qty": 1}, Code.CANCEL_QUANTITY),
        ({"valid_day": ORIGIN_DAY, "valid_nanosecond": 4}, Code.VALID_TIME),
        ({"valid_day": ORIGIN_DAY - 1, "valid_nanosecond": 10**9}, Code.VALID_TIME),
        ({"valid_day": -719_469}, Code.VALID_TIME),
        ({"valid_day": MAX_DAY + 1}, Code.VALID_TIME),
        ({"item": "NOPE"}, Code.UNKNOWN_KEY),
        ({"item": "DEPOT-A", "location": "DEMO-PART"}, Code.UNKNOWN_KEY),
        ({"item": "a/b", "location": "Cafe\u0301", "partition": 1}, Code.UNKNOWN_KEY),
        ({"raw_key": b""}, Code.KEY_MISMATCH),
        ({"raw_key": b"\xff"}, Code.KEY_MISMATCH),
        ({"raw_key": b'["DEMO-PART", "DEPOT-A"]'}, Code.KEY_MISMATCH),
        ({"raw_key": b'["DEMO-PART","DEPOT-A"]\n'}, Code.KEY_MISMATCH),
        ({"raw_key": b'["a/b","DEPOT-A"]'}, Code.KEY_MISMATCH),
        (
            {"item": "a/b", "location": "Café", "partition": 1, "raw_key": b'["a/b","Caf\\u00e9"]'},
            Code.KEY_MISMATCH,
        ),
        ({"partition": 1}, Code.ROUTING),
        ({"partition": 1, "raw_key": KEY}, Code.ROUTING),
        ({"item": "a/b", "location": "Café"}, Code.ROUTING),
    ],
)
def test_records_and_their_codes(fields, code):
    assert code_of(**fields) == code


def test_what_does_not_decode_is_malformed():
    assert classify(CONFIG, 0, KEY, None) == Code.MALFORMED


FAULTS = {
    Code.IDENTITY: {"txn_id": ""},
    Code.REVISION: {"revision": 0},
    Code.KIND: {"kind": "X"},
    Code.CANCEL_QUANTITY: {"kind": "CANCEL"},
    Code.VALID_TIME: {"valid_day": MAX_DAY + 1},
    Code.UNKNOWN_KEY: {"item": "NOPE"},
    Code.KEY_MISMATCH: {"raw_key": b"[]"},
    Code.ROUTING: {"partition": 1},
}
ORDER = [
    Code.IDENTITY,
    Code.REVISION,
    Code.KIND,
    Code.CANCEL_QUANTITY,
    Code.VALID_TIME,
    Code.UNKNOWN_KEY,
    Code.KEY_MISMATCH,
    Code.ROUTING,
]


@given(st.sets(st.sampled_from(ORDER)))
def test_the_first_of_several_faults_is_the_code(faults):
    # One record has one kind: unknown, or CANCEL with a quantity.
    if Code.KIND in faults:
        faults.discard(Code.CANCEL_QUANTITY)
    fields = {}
    for fault in faults:
        fields |= FAULTS[fault]
    assert code_of(**fields) == (min(faults, key=ORDER.index) if faults else None)


def test_the_codes_are_those_of_the_contract():
    assert list(Code) == ["MALFORMED", *ORDER, "SET_ASIDE"]


# The cases that are shared with others, where they lie beside the repository.

SHARED = Path(__file__).parents[2] / ".." / "shared" / "cases" / "inventory-records.json"
NO_CASES = [
    pytest.param(None, marks=pytest.mark.skip(reason="no shared cases beside the repository"))
]


def shared_cases() -> list:
    if not SHARED.is_file():
        return NO_CASES
    document = json.loads(SHARED.read_text(encoding="utf-8"))
    config = parse_configuration(document["config"])
    return [pytest.param((config, case), id=case["name"]) for case in document["cases"]]


def value_of(case: dict) -> bytes:
    if "repeat" in case:
        return (case["repeat"]["text"] * case["repeat"]["times"]).encode()
    if "value_base64" in case:
        return base64.b64decode(case["value_base64"], validate=True)
    return case["value"].encode()


@pytest.mark.parametrize("shared", shared_cases())
def test_the_shared_cases(shared):
    config, case = shared
    raw_key = base64.b64decode(case["key_base64"]) if "key_base64" in case else None
    value = value_of(case)
    for revision in (decode(value), decode_carefully(value), decode_batch([value, value])[1]):
        assert classify(config, case["partition"], raw_key, revision) == case["code"]


def test_the_shared_cases_side_by_side():
    """As a batch has them: good records and bad ones together, each place of each partition."""
    if not SHARED.is_file():
        pytest.skip("no shared cases beside the repository")
    cases = [param.values[0] for param in shared_cases()]
    config = cases[0][0]
    for partition in range(config.partitions):
        told = [case for _, case in cases if case["partition"] == partition]
        keys = [
            base64.b64decode(each["key_base64"]) if "key_base64" in each else None for each in told
        ]
        log = Records(0, len(told), range(len(told)), keys, [value_of(each) for each in told])
        refused = [(at, each["code"]) for at, each in enumerate(told) if each["code"] is not None]
        assert refused
        for read in (read_slice, read_columns):
            slice_ = read(config, partition, log, frozenset())
            assert [(each.offset, each.code) for each in slice_.rejections] == refused
            assert len(slice_.accepted) == len(told) - len(refused)
