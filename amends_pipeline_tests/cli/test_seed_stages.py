"""The worked correction, stage by stage, through the command line. Expected values: fixtures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

SEED = Path(__file__).parents[2] / "fixtures/inventory/seed"
STAGES = json.loads((SEED / "days.json").read_text())["stages"]


def days_of(lines):
    """Days with close and alert, as `days.json` has them."""
    found = {}
    for envelope in lines:
        day = envelope["output_id"].get("day")
        if envelope["type"] == "BalanceStated":
            found[day] = {"day": day, "close": envelope["payload"]["close"], "alert": day in found}
        elif envelope["type"] == "AlertRaised":
            found[day] = None
    return [found[day] for day in sorted(found)]


@pytest.mark.parametrize(
    ("cut", "envelopes"),
    [(("--slice-records", 1), "envelopes-slice-1.jsonl"), ((), "envelopes-default.jsonl")],
)
def test_each_stage_shows_its_days_and_publishes_its_envelopes(bare, cut, envelopes):
    assert bare("provision", SEED / "config.json").status == 0
    expected = (SEED / envelopes).read_bytes().splitlines()
    records = 0
    for stage in STAGES:
        new = stage["worker_next"] - records
        records += new
        appended = bare.on("append", SEED / stage["file"], "--json")
        assert appended.document == {"appended": new, "ends": [records]}
        drained = bare.on("drain", *cut, "--json")
        assert drained.status == 0
        assert drained.document["worker"]["accepted"] == new

        view = bare.on("view", "--json")
        assert days_of(view.documents) == stage["days"]

        outbox = bare.on("outbox", "--json").out.splitlines()
        assert outbox == [
            b'{"partition":0,"sequence":%d,"acknowledged":true,"envelope":%b}' % (sequence, raw)
            for sequence, raw in enumerate(expected[: stage["view_next"]])
        ]

        verified = bare.on("verify", "--json")
        assert verified.status == 0
        assert verified.document["status"] == "PASS"
        assert verified.document["boundary"] == [
            {
                "partition": 0,
                "source_end": stage["worker_next"],
                "worker_next": stage["worker_next"],
                "pending": 0,
                "output_end": stage["view_next"],
                "view_next": stage["view_next"],
            }
        ]


def test_the_view_prints_the_stored_envelopes_byte_for_byte(bare):
    bare("provision", SEED / "config.json")
    bare.on("append", *(SEED / stage["file"] for stage in STAGES))
    bare.on("drain", "--slice-records", 1)
    known = (SEED / "envelopes-slice-1.jsonl").read_bytes().splitlines()
    alert_of_day_2, balance_of_day_1, balance_of_day_2, status = (
        known[6],
        known[7],
        known[8],
        known[2],
    )
    assert bare.on("view", "--json").out.splitlines() == [
        alert_of_day_2,
        balance_of_day_1,
        balance_of_day_2,
        status,
    ]


def test_people_see_the_same_in_a_table(bare):
    bare("provision", SEED / "config.json")
    bare.on("append", SEED / "before.jsonl")
    bare.on("drain")
    assert bare.on("view").text == (
        "family      item       location  day         value  version  cause offset\n"
        "alert       DEMO-PART  DEPOT-A   2026-01-01  50           1             0\n"
        "balance     DEMO-PART  DEPOT-A   2026-01-01  50           1             0\n"
        "balance     DEMO-PART  DEPOT-A   2026-01-02  30           1             1\n"
        "balance     DEMO-PART  DEPOT-A   2026-01-03  80           1             2\n"
        "key-status  DEMO-PART  DEPOT-A               READY        1             0\n"
    )
