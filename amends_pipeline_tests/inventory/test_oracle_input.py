"""What the oracle takes and refuses: rejection codes, offsets, batches, and its engine's slips."""

from __future__ import annotations

import json
import time

import duckdb
import pytest

from amends_pipeline.inventory import oracle, oracle_input
from amends_pipeline.inventory.config import StockKey, parse_configuration
from amends_pipeline.inventory.oracle import History, OracleError, RawBatch, compute
from amends_pipeline.kernel.instants import day_text
from amends_pipeline_tests.inventory.histories import given_records, told
from amends_pipeline_tests.tables import (
    STOCK_KEYS,
    Line,
    configuration,
    document,
    encoded,
    history,
)

MAX = 2**63 - 1

# Rejections


FAULTS = {
    "MALFORMED": {"source_time": "2026-01-01T12:00:60Z"},
    "IDENTITY": {"txn_id": ""},
    "REVISION": {"revision": 0},
    "KIND": {"kind": "cancel"},
    "CANCEL_QUANTITY": {"kind": "CANCEL", "qty": 1},
    "VALID_TIME": {"valid_time": "2025-12-31T23:59:59.999999999Z"},
    "UNKNOWN_KEY": {"stock_key": {"item": "DEMO-PART", "location": "depot-a"}},
}


def test_the_first_code_that_holds_is_the_records_code():
    document_ = {"partitions": 2}
    config = parse_configuration(configuration(**document_))
    base = document(STOCK_KEYS["a"], "A", 1, "NEW", "2026-01-01T00:00:00Z", 1)
    records = []
    for left_out in range(len(FAULTS) + 1):
        record = dict(base)
        # A wrong kind and a cancelled quantity cannot be in one record: the later fault yields.
        for fault in reversed(list(FAULTS.values())[left_out:]):
            record.update(fault)
        records.append(Line(encoded(record), raw_key=b'["DEMO-PART", "DEPOT-A"]'))
    records.append(Line(encoded(base), raw_key=b'["DEMO-PART","DEPOT-A"]'))
    records.append(Line(encoded(base)))
    result = compute(config, [given_records(records, partition=1)])
    codes = [*FAULTS, "KEY_MISMATCH", "ROUTING", "ROUTING"]
    assert [each.code for each in result.rejections] == codes
    assert [each.value for each in result.rejections] == [each.value for each in records]
    assert [each.raw_key for each in result.rejections] == [each.raw_key for each in records]
    aside = range(len(records))
    result = compute(config, [given_records(records, partition=1, aside=aside)])
    assert {each.code for each in result.rejections} == {"SET_ASIDE"}
    assert told(config, compute(config, [given_records(records[-2:])])) == [
        "a READY",
        "a day 1: 101",
    ]


@pytest.mark.parametrize(
    ("valid_time", "code"),
    [
        ("2026-01-01T00:00:00.000000005Z", None),
        ("2026-01-01T00:00:00.000000004Z", "VALID_TIME"),
        ("2026-01-01T01:00:00.000000005+01:00", None),
        ("2025-12-31T23:59:59.999999999Z", "VALID_TIME"),
        ("9999-12-31T23:59:59.999999999Z", None),
        ("9999-12-31T23:59:59-00:01", "VALID_TIME"),
        ("0000-12-31T00:00:00Z", "VALID_TIME"),
        ("2026-01-02T24:00:00Z", "MALFORMED"),
        ("2026-01-02T23:59:59.9999999999Z", "MALFORMED"),
    ],
)
def test_valid_time_is_exact_to_the_nanosecond_at_the_origin(valid_time, code):
    config = parse_configuration(configuration(origin="2026-01-01T00:00:00.000000005Z"))
    value = encoded(document(STOCK_KEYS["a"], "A", 1, "NEW", valid_time, 1))
    result = compute(config, [given_records([Line(value)])])
    assert [each.code for each in result.rejections] == ([code] if code else [])


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "America/Los_Angeles"])
def test_no_zone_of_the_session_decides_a_day(monkeypatch, zone):
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        config = parse_configuration(configuration(origin="2025-12-01T00:00:00Z"))
        times = ["2026-01-01T00:30:00+01:00", "2026-01-01T23:59:59.9999999Z"]
        records = [
            Line(encoded(document(STOCK_KEYS["a"], f"T{at}", 1, "NEW", valid_time, 1)))
            for at, valid_time in enumerate(times)
        ]
        result = compute(config, [given_records(records)])
    finally:
        monkeypatch.undo()
        time.tzset()
    days = [day_text(on) for _, on, _ in result.balances.rows()]
    assert days == ["2025-12-31", "2026-01-01"]


def test_transport_keys_compare_as_bytes():
    stock_keys = [
        ("a/b", "Café"),
        ("Cafe\u0301", 'quo"te'),
        ("\x7f\u2028", "tab\there 😀"),
        ("\\", "1"),
    ]
    keys = [
        {
            "stock_key": {"item": item, "location": location},
            "opening_balance": 0,
            "reorder_threshold": 0,
            "partition": 0,
        }
        for item, location in stock_keys
    ]
    config = parse_configuration(configuration() | {"keys": keys})
    right = [StockKey(*stock_key).encoded.encode() for stock_key in stock_keys]
    wrong = [b"", b"\xff", b"null", right[0] + b" ", json.dumps(stock_keys[0]).encode(), right[1]]
    records = [
        Line(encoded(document(stock_key, "T", 1, "NEW", "2026-01-02T00:00:00Z", 1)), raw_key)
        for stock_key, raw_key in zip(stock_keys, right, strict=True)
    ]
    records += [Line(records[0].value, raw_key) for raw_key in [*wrong, None]]
    result = compute(config, [given_records(records)])
    assert [(each.offset, each.code, each.raw_key) for each in result.rejections] == [
        (offset, "KEY_MISMATCH", raw_key) for offset, raw_key in enumerate(wrong, 4)
    ]
    assert len(result.balances.keys) == len(stock_keys)


def test_a_set_aside_record_is_no_input_and_one_that_is_not_there_is_nothing():
    config = parse_configuration(configuration(opening=MAX))
    records = history("A r1 NEW day 1 5\nmalformed\nb/A r1 NEW day 1 -1")
    result = compute(config, [given_records(records, aside=[0, 1, 7], step=1)])
    assert told(config, result) == [
        "b READY",
        f"b day 1: {MAX - 1}",
        "rejected 0 SET_ASIDE",
        "rejected 1 SET_ASIDE",
    ]


# What it is given


def test_each_partition_has_its_own_offsets_and_keys():
    document_ = configuration(partitions=2)
    document_["keys"][1]["partition"] = 1
    config = parse_configuration(document_)
    records = history("A r1 NEW day 1 1\nb/A r1 NEW day 1 2")
    result = compute(
        config, [given_records(records), given_records(records, partition=1, first=2**62, step=9)]
    )
    assert [(each.partition, each.offset, each.code) for each in result.rejections] == [
        (0, 1, "ROUTING"),
        (1, 2**62, "ROUTING"),
    ]
    assert [close for _, _, close in result.balances.rows()] == [101, 102]


@pytest.mark.parametrize("offsets", [[[3, 3]], [[3], [3]], [[3], [2]], [[4, 3]], [[-1]]])
def test_offsets_that_do_not_grow_have_no_answer(offsets):
    config = parse_configuration(configuration())
    batches = [RawBatch(each, [None] * len(each), [b""] * len(each)) for each in offsets]
    with pytest.raises(OracleError, match="partition 0: expected offsets that grow, found"):
        compute(config, [History(0, batches, frozenset())])


@pytest.mark.parametrize(("chunk", "band"), [(1, 1), (2, 3), (3, 2), (1000, 1000)])
def test_how_records_are_batched_and_worked_out_changes_nothing(monkeypatch, chunk, band):
    monkeypatch.setattr(oracle_input, "_CHUNK", chunk)
    monkeypatch.setattr(oracle, "_BAND", band)
    config = parse_configuration(configuration())
    records = history("""
        A r1 NEW day 1 -50
        malformed
        A r2 NEW day 1 -60
        b/A r1 NEW day 1 1
        b/A r1 NEW day 1 2
    """)
    records[2] = records[2]._replace(raw_key=b'["DEMO-PART","DEPOT-A"]')
    records[3] = records[3]._replace(raw_key=b'["DEMO-PART","DEPOT-A"]')
    batches = [
        RawBatch([], [], []),
        RawBatch(range(2), [None, None], [records[0].value, records[1].value]),
        RawBatch((2,), (records[2].raw_key,), (records[2].value,)),
        RawBatch([10, 12], [records[3].raw_key, None], [records[3].value, records[4].value]),
    ]
    result = compute(config, [History(0, iter(batches), frozenset())])
    assert told(config, result) == [
        "a READY",
        "a day 1: 40, alert",
        "b READY",
        "b day 1: 102",
        "rejected 1 MALFORMED",
        "rejected 10 KEY_MISMATCH",
    ]


# What it does not let through


def test_an_engine_that_gives_up_is_an_oracle_that_failed(monkeypatch):
    monkeypatch.setattr(oracle, "_TOUCHED", "SELECT * FROM nowhere")
    config = parse_configuration(configuration())
    with pytest.raises(OracleError, match=r"expected an answer, found .*nowhere"):
        compute(config, [])


@pytest.mark.parametrize(
    "query",
    [
        "SELECT key, day, close FROM closes",
        "SELECT key, day, close::DOUBLE AS close FROM closes",
        "SELECT key, day, close::INTEGER AS close FROM closes",
        "SELECT key, day, NULLIF(close, 105)::BIGINT AS close FROM closes",
    ],
)
def test_a_column_that_is_not_of_64_bit_integers_is_refused(monkeypatch, query):
    # A 128-bit integer would arrive as a float, a missing value as a mask.
    monkeypatch.setattr(oracle, "_BALANCES", query)
    config = parse_configuration(configuration())
    with pytest.raises(OracleError, match="expected columns of 64-bit integers, found close as"):
        compute(config, [given_records(history("A r1 NEW day 1 5"))])


def test_the_engine_touches_nothing_outside(monkeypatch, tmp_path):
    opened = []
    connect = duckdb.connect

    def watched(**arguments):
        opened.append(connect(**arguments))
        return opened[-1].cursor()

    monkeypatch.setattr(duckdb, "connect", watched)
    compute(parse_configuration(configuration()), [])
    (engine,) = opened
    with engine:
        with pytest.raises(duckdb.PermissionException):
            engine.execute(f"COPY (SELECT 1) TO '{tmp_path / 'out.csv'}'")
        assert engine.execute("SELECT current_setting('temp_directory')").fetchall() == [("",)]


def test_what_reading_a_history_raises_passes():
    def failing():
        message = "the reader's own"
        raise LookupError(message)
        yield

    with pytest.raises(LookupError, match="the reader's own"):
        compute(parse_configuration(configuration()), [History(0, failing(), frozenset())])
