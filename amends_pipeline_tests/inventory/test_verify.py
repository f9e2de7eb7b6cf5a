"""Every status of a report, stated by hand, in its order of precedence, and what is accepted."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from amends_pipeline.inventory.verify import Manifest
from amends_pipeline.kernel.verdict import Status
from amends_pipeline.ports import Extent
from amends_pipeline_tests.inventory.moments import (
    BLOCKED,
    CORRECTED,
    CORRECTED_ROWS,
    EXCLUDING,
    EXCLUSIONS,
    KEY_A,
    KEY_B,
    ONE,
    Moment,
    differing,
    manifest,
    verified,
)

MAX = 2**63 - 1


def test_pass():
    report = verified(Moment(CORRECTED, CORRECTED_ROWS))
    assert json.loads(report.to_json()) == {
        "status": "PASS",
        "accepted": True,
        "boundary": [
            {
                "partition": 0,
                "source_end": 4,
                "worker_next": 4,
                "pending": 0,
                "output_end": 8,
                "view_next": 8,
            }
        ],
        "differences": [],
        "rejections": [],
        "conflicts": [],
        "distance": [],
        "not_compared": [{"what": "versions, causes and order of publication", "stock_key": None}],
        "errors": [],
    }


def test_pass_with_exclusions_is_accepted_with_exactly_its_manifest():
    report = verified(EXCLUDING)
    written = json.loads(report.to_json())
    assert written["status"] == "PASS_WITH_EXCLUSIONS"
    assert written["accepted"] is False
    assert written["differences"] == []
    assert {name: written[name] for name in EXCLUSIONS} == EXCLUSIONS
    assert verified(EXCLUDING, manifest=manifest(EXCLUSIONS)).accepted
    turned = {name: entries[::-1] for name, entries in EXCLUSIONS.items()}
    assert verified(EXCLUDING, manifest=manifest(turned)).accepted


@pytest.mark.parametrize(
    "changes",
    [
        {"rejections": []},
        {"conflicts": []},
        {"rejections": [{"partition": 0, "offset": 11, "code": "IDENTITY"}]},
        {"rejections": [{"partition": 1, "offset": 11, "code": "MALFORMED"}]},
        {"conflicts": [{"stock_key": KEY_B, "txn_id": "A", "revision": 1}]},
        {
            "conflicts": [
                *EXCLUSIONS["conflicts"],
                {"stock_key": KEY_A, "txn_id": "A", "revision": 2},
            ]
        },
    ],
)
def test_another_manifest_accepts_nothing(changes):
    assert not verified(EXCLUDING, manifest=manifest(EXCLUSIONS | changes)).accepted


def test_pass_is_not_accepted_when_exclusions_were_expected():
    moment = Moment(CORRECTED, CORRECTED_ROWS)
    assert verified(moment, manifest=Manifest()).accepted
    assert not verified(moment, manifest=manifest(EXCLUSIONS)).accepted


def test_blocked_does_not_judge_frozen_rows_and_says_so():
    report = verified(
        BLOCKED,
        manifest=manifest({"conflicts": [{"stock_key": KEY_A, "txn_id": "B", "revision": 1}]}),
    )
    assert (report.status, report.accepted, report.differences) == (Status.BLOCKED, False, ())
    assert json.loads(report.to_json())["not_compared"][1:] == [
        {"what": "balances and alerts of a blocked key", "stock_key": KEY_A}
    ]


def test_blocked_comes_before_drift_and_keeps_the_differences():
    moment = replace(BLOCKED, visible_=BLOCKED.visible_.replace("102", "103"))
    report = verified(moment)
    assert report.status is Status.BLOCKED
    assert differing(report) == [("balance", KEY_B, "2026-01-01", {"close": 102}, {"close": 103})]


@pytest.mark.parametrize(
    ("changes", "stage", "by", "says"),
    [
        ({"worker_next": 1}, "worker", 3, "worker_next 1 is 3 short of the boundary 4"),
        ({"worker_next": 5}, "worker", -1, "worker_next 5 is past the boundary 4"),
        ({"pending": 2}, "relay", 2, "2 outbox rows are pending"),
        ({"view_next": 3}, "view", 5, "view_next 3 is 5 short of the output end 8"),
        ({"view_next": 9}, "view", -1, "view_next 9 is past the output end 8"),
        (
            {"extent": Extent(2, 4)},
            "source",
            2,
            "the source starts at 2, after 0, where the namespace starts",
        ),
    ],
)
def test_incomplete_says_the_distance_and_compares_nothing(changes, stage, by, says):
    report = verified(Moment(CORRECTED, "b READY", **changes))
    written = json.loads(report.to_json())
    assert (written["status"], written["accepted"]) == ("INCOMPLETE", False)
    assert written["distance"] == [
        {"stage": stage, "partition": 0, "by": by, "says": f"partition 0: {says}"}
    ]
    assert written["differences"] == []
    assert [each["what"] for each in written["not_compared"]] == [
        "anything: there is no complete boundary to compare at"
    ]


def test_incomplete_adds_up_what_is_missing():
    report = verified(Moment(CORRECTED, worker_next=0, pending=20, view_next=0))
    assert [(each.stage, each.by) for each in report.distance] == [
        ("worker", 4),
        ("relay", 20),
        ("view", 8),
    ]


@pytest.mark.parametrize(
    ("changes", "stage", "says"),
    [
        ({"incarnation": "i-2"}, "incarnation", "incarnation i-2 is not i-1, as provisioned"),
        (
            {"digest": "0" * 64},
            "configuration",
            f"configuration {ONE.digest} is not {'0' * 64}, as provisioned",
        ),
    ],
)
def test_incomplete_when_the_source_or_configuration_is_another(changes, stage, says):
    moment = Moment(CORRECTED, CORRECTED_ROWS, **changes)
    report = verified(moment)
    assert report.status is Status.INCOMPLETE
    assert [(each.stage, each.partition, each.says) for each in report.distance] == [
        (stage, None, says)
    ]
    assert moment.read == [], "records of another source are no evidence"


def test_incomplete_comes_before_blocked_and_keeps_the_diagnosis():
    report = verified(replace(BLOCKED, pending=1))
    assert report.status is Status.INCOMPLETE
    assert [each.txn_id for each in report.conflicts] == ["B"]


def test_error_when_the_oracle_fails_even_at_an_incomplete_boundary():
    records = f"A r1 NEW day 2 {MAX}"
    report = verified(Moment(records, worker_next=0))
    assert (report.status, report.accepted) == (Status.ERROR, False)
    assert report.errors == (
        (
            'oracle, item "DEMO-PART" at location "DEPOT-A" on 2026-01-02:'
            f" expected a close that fits a signed 64-bit integer, found {MAX + 100}"
        ),
    )
    assert [each.stage for each in report.distance] == ["worker"]


def test_error_when_the_view_stopped_even_with_blocked_keys():
    report = verified(replace(BLOCKED, view_next=3, stop="version 1 twice"))
    assert report.status is Status.ERROR
    assert report.errors == ("partition 0: the view stopped at 3: version 1 twice",)
    assert [each.txn_id for each in report.conflicts] == ["B"]
