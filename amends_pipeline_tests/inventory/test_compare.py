"""Drift: a planted difference of each kind is found, and every differing row is listed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from amends_pipeline.inventory.verify import Report
from amends_pipeline.kernel.verdict import Status
from amends_pipeline.ports import ConflictRef
from amends_pipeline_tests.inventory.moments import (
    BLOCKED,
    CORRECTED,
    CORRECTED_ROWS,
    EXCLUDING,
    KEY_A,
    KEY_B,
    TWO,
    Moment,
    differing,
    quarantined,
    verified,
)

DRIFTS = {
    "a balance is another": (
        {"a day 3: 100": "a day 3: 99"},
        [("balance", KEY_A, "2026-01-03", {"close": 100}, {"close": 99})],
    ),
    "a balance is not there": (
        {"a day 1: 70": ""},
        [("balance", KEY_A, "2026-01-01", {"close": 70}, None)],
    ),
    "a balance should not be there": (
        {"a day 3: 100": "a day 3: 100\na day 4: 100\nb day 1: 0"},
        [
            ("balance", KEY_A, "2026-01-04", None, {"close": 100}),
            ("balance", KEY_B, "2026-01-01", None, {"close": 0}),
        ],
    ),
    "a balance is there twice, once wrong": (
        {"a day 3: 100": "a day 3: 100\na day 3: 101\na day 3: 100"},
        [
            ("balance", KEY_A, "2026-01-03", None, {"close": 100}),
            ("balance", KEY_A, "2026-01-03", None, {"close": 101}),
        ],
    ),
    "an alert was not withdrawn": (
        {"a day 1: 70": "a day 1: 70, alert"},
        [("alert", KEY_A, "2026-01-01", None, {"threshold": 60, "close": 70})],
    ),
    "an alert is missing": (
        {"50, alert": "50"},
        [("alert", KEY_A, "2026-01-02", {"threshold": 60, "close": 50}, None)],
    ),
    "a status is missing": (
        {"a READY": ""},
        [("status", KEY_A, None, {"status": "READY", "reasons": []}, None)],
    ),
    "a status is another": (
        {"a READY": "a BLOCKED by Z r3"},
        [
            (
                "status",
                KEY_A,
                None,
                {"status": "READY", "reasons": []},
                {"status": "BLOCKED", "reasons": [{"txn_id": "Z", "revision": 3}]},
            )
        ],
    ),
    "an untouched key has a status": (
        {"a READY": "a READY\nb READY"},
        [("status", KEY_B, None, None, {"status": "READY", "reasons": []})],
    ),
    "several at once, statuses first": (
        {"a READY": "b READY", "50, alert": "51, alert"},
        [
            ("status", KEY_A, None, {"status": "READY", "reasons": []}, None),
            ("status", KEY_B, None, None, {"status": "READY", "reasons": []}),
            (
                "alert",
                KEY_A,
                "2026-01-02",
                {"threshold": 60, "close": 50},
                {"threshold": 60, "close": 51},
            ),
            ("balance", KEY_A, "2026-01-02", {"close": 50}, {"close": 51}),
        ],
    ),
}


@pytest.mark.parametrize(("changes", "expected"), DRIFTS.values(), ids=DRIFTS)
def test_drift_in_what_readers_see(changes, expected):
    rows = CORRECTED_ROWS
    for old, new in changes.items():
        assert old in rows
        rows = rows.replace(old, new)
    report = verified(Moment(CORRECTED, rows))
    assert (report.status, report.accepted) == (Status.DRIFT, False)
    assert differing(report) == expected


def test_drift_in_the_reasons_of_a_blocked_key_stays_blocked():
    rows = BLOCKED.visible_.replace("by B r1", "by B r2")
    report = verified(replace(BLOCKED, visible_=rows))
    assert report.status is Status.BLOCKED
    assert [(kind, found) for kind, _, _, _, found in differing(report)] == [
        ("status", {"status": "BLOCKED", "reasons": [{"txn_id": "B", "revision": 2}]})
    ]


def rejected(report):
    return [
        (each["partition"], each["offset"], each["expected"], each["found"])
        for each in json.loads(report.to_json())["differences"]
        if each["kind"] == "rejection"
    ]


MALFORMED = {"code": "MALFORMED", "key": None, "value": "ew=="}


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ([], [(0, 0, MALFORMED, None)]),
        (
            [quarantined(0, "IDENTITY")],
            [(0, 0, MALFORMED, {"code": "IDENTITY", "key": None, "value": "ew=="})],
        ),
        (
            [quarantined(0, "MALFORMED", value=b"{ ")],
            [(0, 0, MALFORMED, {"code": "MALFORMED", "key": None, "value": "eyA="})],
        ),
        (
            [quarantined(0, "MALFORMED", raw_key=b"")],
            [(0, 0, MALFORMED, {"code": "MALFORMED", "key": "", "value": "ew=="})],
        ),
        (
            [quarantined(7, "MALFORMED"), quarantined(0, "MALFORMED")],
            [(0, 7, None, MALFORMED)],
        ),
        (
            [quarantined(0, "MALFORMED"), quarantined(0, "MALFORMED")],
            [(0, 0, None, MALFORMED)],
        ),
        (
            [quarantined(0, "MALFORMED", partition=1)],
            [(0, 0, MALFORMED, None), (1, 0, None, MALFORMED)],
        ),
    ],
    ids=["lost", "code", "value", "key", "one too many", "twice", "elsewhere"],
)
def test_drift_in_quarantine(stored, expected):
    report = verified(Moment("malformed", quarantine_=stored, namespace=TWO))
    assert report.status is Status.DRIFT
    assert rejected(report) == expected


def test_drift_in_conflicts_superseded_ones_too():
    records = "A r1 NEW day 1 1\nA r1 NEW day 1 2\nA r2 NEW day 1 3"
    stored = [
        ConflictRef("DEMO-PART", "DEPOT-B", "A", 1),
        ConflictRef("DEMO-PART", "gone", "A", 1),
        ConflictRef("DEMO-PART", "DEPOT-A", "A", 2),
    ]
    report = verified(Moment(records, "a READY\na day 1: 103", conflicts_=stored))
    assert report.status is Status.DRIFT
    first, second = ({"txn_id": "A", "revision": revision} for revision in (1, 2))
    assert differing(report) == [
        ("conflict", KEY_A, None, first, None),
        ("conflict", KEY_A, None, None, second),
        ("conflict", KEY_B, None, None, first),
        ("conflict", {"item": "DEMO-PART", "location": "gone"}, None, None, first),
    ]


def test_every_differing_row_is_listed():
    records = "\n".join(f"T{at} r1 NEW day {at} 1" for at in range(1, 601))
    rows = "\n".join(f"a day {at}: {100 + at + at % 2}" for at in range(600, 0, -1))
    report = verified(Moment(records, f"a READY\n{rows}"))
    assert report.status is Status.DRIFT
    assert [(each.kind, each.expected.close, each.found.close) for each in report.differences] == [
        ("balance", 100 + at, 101 + at) for at in range(1, 601, 2)
    ]
    assert len(report.differences) == 300


def test_facts_of_differences_read_as_text():
    rows = CORRECTED_ROWS.replace("a READY", "a BLOCKED by Z r3").replace("50, alert", "51, alert")
    report = verified(Moment(CORRECTED + "malformed", rows))
    assert [(str(each.expected), str(each.found)) for each in report.differences] == [
        ("READY", 'BLOCKED ("Z" revision 3)'),
        ('MALFORMED, no key, value "ew=="', "None"),
        ("close 50 below 60", "close 51 below 60"),
        ("close 50", "close 51"),
    ]


def test_a_report_survives_being_written_and_read():
    rows = CORRECTED_ROWS.replace("a READY", "a BLOCKED by Z r3").replace("50, alert", "51, alert")
    for moment in (
        Moment(CORRECTED + "malformed", rows),
        EXCLUDING,
        BLOCKED,
        Moment(CORRECTED, stop="x", pending=3),
    ):
        report = verified(moment)
        assert Report.model_validate_json(report.to_json()) == report
