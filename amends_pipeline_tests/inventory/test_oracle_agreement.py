"""The oracle on the shared cases, and against a fold written here."""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.inventory.config import StockKey, parse_configuration
from amends_pipeline.inventory.oracle import OracleError, compute
from amends_pipeline.kernel.instants import day_text, parse_instant
from amends_pipeline_tests.inventory.histories import given_records
from amends_pipeline_tests.tables import Line, configuration, day, document, encoded

MAX, MIN = 2**63 - 1, -(2**63)
SHARED = Path(__file__).parents[2] / ".." / "shared" / "cases"
NO_CASES = [
    pytest.param(None, None, marks=pytest.mark.skip(reason="no shared cases beside the repository"))
]


# The cases that are shared with others, where they lie beside the repository


def shared_cases(name):
    path = SHARED / name
    if not path.is_file():
        return NO_CASES
    document_ = json.loads(path.read_text(encoding="utf-8"))
    return [
        pytest.param(case.get("config", document_.get("config")), case, id=case["name"])
        for case in document_["cases"]
    ]


@pytest.mark.parametrize(("config", "case"), shared_cases("inventory-histories.json"))
def test_the_shared_histories(config, case):
    config = parse_configuration(config)
    records = [Line(encoded(record)) for record in case["records"]]
    result = compute(config, [given_records(records)])
    keys = {json.dumps(list(key.stock_key)): at for at, key in enumerate(config.keys)}
    expected = {keys[name]: facts for name, facts in case["expect"]["keys"].items()}
    ready = {at: facts for at, facts in expected.items() if facts["status"] == "READY"}
    assert result.statuses == {
        at: tuple(map(tuple, facts["reasons"])) for at, facts in expected.items()
    }
    assert set(result.blocked()) == expected.keys() - ready.keys()
    assert [(key, day_text(on), close) for key, on, close in result.balances.rows()] == [
        (at, *row) for at, facts in sorted(ready.items()) for row in facts["balances"]
    ]
    assert [
        (key, day_text(on), config.keys[key].reorder_threshold, close)
        for key, on, close in result.alerts.rows()
    ] == [(at, *row) for at, facts in sorted(ready.items()) for row in facts["alerts"]]
    assert [tuple(conflict) for conflict in result.conflicts] == [
        (at, *row) for at, facts in sorted(expected.items()) for row in facts["conflicts"]
    ]
    assert [
        {"partition": each.partition, "offset": each.offset, "code": each.code}
        for each in result.rejections
    ] == case["expect"]["rejections"]


@pytest.mark.parametrize(("config", "case"), shared_cases("inventory-records.json"))
def test_the_shared_records(config, case):
    if "repeat" in case:
        value = (case["repeat"]["text"] * case["repeat"]["times"]).encode()
    elif "value_base64" in case:
        value = base64.b64decode(case["value_base64"], validate=True)
    else:
        value = case["value"].encode()
    raw_key = base64.b64decode(case["key_base64"]) if "key_base64" in case else None
    records = [Line(value, raw_key)]
    result = compute(
        parse_configuration(config), [given_records(records, partition=case["partition"])]
    )
    assert [tuple(each) for each in result.rejections] == (
        [] if case["code"] is None else [(case["partition"], 0, case["code"], raw_key, value)]
    )
    assert len(result.statuses) == (case["code"] is None)


# Against a fold written here, record by record and with Python's integers


def folded(config, records, aside):
    """Statuses, balances, alerts, conflicts and codes, each the plainest way there is."""
    said = defaultdict(lambda: defaultdict(lambda: defaultdict(set)))
    codes = {}
    for offset, (record, raw_key) in enumerate(records):
        stock_key = tuple(record["stock_key"].values())
        at = config.number_of(stock_key)
        instant = parse_instant(record["valid_time"])
        cancelled = record["kind"] == "CANCEL"
        for code, holds in {
            "SET_ASIDE": offset in aside,
            "IDENTITY": "" in (record["txn_id"], *stock_key),
            "REVISION": record["revision"] <= 0,
            "KIND": record["kind"] not in {"NEW", "AMEND", "CANCEL"},
            "CANCEL_QUANTITY": cancelled and record["qty"] != 0,
            "VALID_TIME": instant < config.origin or instant.day > 2932896,
            "UNKNOWN_KEY": at is None,
            "KEY_MISMATCH": raw_key not in {None, StockKey(*stock_key).encoded.encode()},
            "ROUTING": at is not None and config.keys[at].partition != 0,
        }.items():
            if holds:
                codes[offset] = code
                break
        else:
            assertion = (record["kind"], instant, record["qty"])
            said[at][record["txn_id"]][record["revision"]].add(assertion)
    statuses, balances, alerts, conflicts = {}, [], [], []
    for at in sorted(said):
        reasons, moves = [], defaultdict(int)
        for txn_id, revisions in sorted(said[at].items(), key=lambda item: item[0].encode()):
            conflicts += [(at, txn_id, n) for n in sorted(revisions) if len(revisions[n]) > 1]
            highest = max(revisions)
            if len(revisions[highest]) > 1:
                reasons.append((txn_id, highest))
                continue
            ((kind, instant, qty),) = revisions[highest]
            if kind != "CANCEL":
                moves[instant.day] += qty
        statuses[at] = tuple(reasons)
        close = config.keys[at].opening_balance
        for on in [] if reasons else sorted(moves):
            before, close = close, close + moves[on]
            balances.append((at, on, close))
            if before >= config.keys[at].reorder_threshold > close:
                alerts.append((at, on, close))
    return statuses, balances, alerts, conflicts, codes


TIMES = ["T00:00:00Z", "T23:59:59.999999999Z", "T00:00:00+01:00", "T12:00:00Z"]
SIZES = st.one_of(st.integers(-60, 60), st.sampled_from([MAX, MIN, MAX // 2, 2**53 + 1]))


@st.composite
def drawn_records(draw):
    qty = draw(SIZES)
    kind = draw(st.sampled_from(["NEW", "AMEND", "CANCEL"]))
    record = document(
        ("P", draw(st.sampled_from(["é", "e\u0301", "off"]))),
        draw(st.sampled_from(["A", "b", "é"])),
        draw(st.integers(1, 3)),
        kind,
        day_text(day(draw(st.integers(1, 3)))) + draw(st.sampled_from(TIMES)),
        0 if kind == "CANCEL" else qty,
    )
    strange = st.sampled_from(
        [{"txn_id": ""}, {"revision": -1}, {"kind": "New"}, {"kind": "CANCEL", "qty": qty}]
    )
    if draw(st.integers(0, 9)) == 0:
        record |= draw(strange)
    keys = [None, None, StockKey(*record["stock_key"].values()).encoded.encode(), b"\xff"]
    return record, draw(st.sampled_from(keys))


@given(
    st.lists(drawn_records(), max_size=25),
    st.sets(st.integers(0, 24), max_size=2),
    st.sampled_from([0, 5, MAX, MIN]),
    st.integers(-50, 50),
)
def test_the_oracle_agrees_with_a_plain_fold(records, aside, opening, threshold):
    keys = [
        {
            "stock_key": {"item": "P", "location": location},
            "opening_balance": opening,
            "reorder_threshold": threshold,
            "partition": partition,
        }
        for location, partition in (("é", 0), ("e\u0301", 0), ("elsewhere", 1))
    ]
    config = parse_configuration(configuration(partitions=2) | {"keys": keys})
    statuses, balances, alerts, conflicts, codes = folded(config, records, aside)
    given_ = given_records([Line(encoded(*line[:1]), line[1]) for line in records], aside=aside)
    if any(not MIN <= close <= MAX for _, _, close in balances):
        with pytest.raises(OracleError):
            compute(config, [given_])
        return
    result = compute(config, [given_])
    assert result.statuses == statuses
    assert list(result.statuses) == sorted(statuses)
    assert list(result.balances.rows()) == balances
    assert list(result.alerts.rows()) == alerts
    assert [tuple(each) for each in result.conflicts] == conflicts
    assert {each.offset: each.code for each in result.rejections} == codes
