"""View, outbox, quarantine, namespaces, status, verify, explain: what they print."""

from __future__ import annotations

import base64
import json

import pytest

from amends_pipeline.ports import SourceRecord
from amends_pipeline_tests.tables import configuration

STORY = """
    A r1 NEW day 1 -50
    A r2 AMEND day 1 -30
    B r1 NEW day 2 -20
    C r1 NEW day 3 50
    C r2 CANCEL day 3
    A r2 AMEND day 1 -30
    D r1 NEW day 2 5
    D r2 NEW day 4 5
    b/C r1 NEW day 3 -5
    b/C r1 NEW day 3 -6
    malformed
"""


@pytest.fixture
def told(amends):
    """The story, drained record by record."""
    assert amends.drained(STORY, "--slice-records", 1).status == 0
    return amends


def test_outbox_says_what_was_acknowledged(amends):
    amends.drained("A r1 NEW day 1 5")
    unit = amends.ledger.tables.namespace("main").units[0]
    unit.acknowledged = 1
    lines = amends.on("outbox", "--json").documents
    assert [(line["partition"], line["sequence"], line["acknowledged"]) for line in lines] == [
        (0, 0, True),
        (0, 1, False),
    ]
    assert [line["envelope"]["type"] for line in lines] == ["BalanceStated", "KeyStatusStated"]
    assert amends.on("outbox").rows[1:] == [
        "0 0 yes BalanceStated DEMO-PART DEPOT-A 2026-01-01 1 105 0 A 1",
        "0 1 no KeyStatusStated DEMO-PART DEPOT-A 1 READY 0 A 1",
    ]


def test_a_withdrawal_has_no_value(amends):
    amends.drained("A r1 NEW day 1 5\nA r2 CANCEL day 1", "--slice-records", 1)
    last = "0 2 yes BalanceRetracted DEMO-PART DEPOT-A 2026-01-01 2 1 A 2"
    assert amends.on("outbox").rows[-1] == last


def test_quarantine_keeps_every_byte(amends):
    value = bytes(range(256)).replace(b"\n", b"") + b"x" * 200
    amends.on("append", "-", given=value)
    amends.on("drain")
    [line] = amends.on("quarantine", "--json").documents
    assert base64.b64decode(line.pop("value")) == value
    assert line == {"partition": 0, "offset": 0, "code": "MALFORMED", "key": None}
    text = amends.on("quarantine").text
    assert text.isascii()
    assert text.rstrip().endswith("... (455 bytes)")


def test_raw_keys_are_told_in_base64(amends):
    amends.ledger.source("depot-feed-1").append([SourceRecord(0, b"\xff", b"{")])
    amends.on("drain")
    assert amends.on("quarantine", "--json").documents[0]["key"] == "/w=="


@pytest.mark.parametrize("command", ["view", "outbox", "quarantine"])
def test_nothing_is_an_empty_stream_and_a_word_for_people(amends, command):
    assert amends.on(command, "--json").out == b""
    assert amends.on(command).text.startswith("no")


def test_namespaces_are_listed_by_name(bare):
    assert bare("namespaces", "--json").out == b""
    assert bare("namespaces").text == "no namespaces\n"
    bare.provision(configuration(namespace="second"))
    bare.provision(configuration(namespace="first"))
    lines = bare("namespaces", "--json").documents
    assert [(line["namespace"], line["source"], line["partitions"]) for line in lines] == [
        ("first", "depot-feed-1", 1),
        ("second", "depot-feed-1", 1),
    ]
    first, second = bare("namespaces").rows[1:]
    assert first.startswith("first depot-feed-1 1 ")
    assert second.startswith("second depot-feed-1 1 ")


def test_provisioning_twice_changes_nothing_and_another_configuration_is_refused(bare):
    path = bare.folder / "config.json"
    path.write_text(json.dumps(configuration()))
    first = bare("provision", path, "--json").document
    second = bare("provision", path, "--json").document
    assert (first.pop("created"), second.pop("created")) == (True, False)
    assert first == second
    assert (first["namespace"], first["partitions"], first["keys"]) == ("main", 1, 2)
    assert "there already" in bare("provision", path).text
    path.write_text(json.dumps(configuration(opening=99)))
    assert bare("provision", path).status == 2


def test_status_before_and_after_a_drain(amends):
    amends.append(STORY)
    [unit] = amends.on("status", "--json").document["partitions"]
    assert (unit["source_end"], unit["worker_next"], unit["lag"]) == (11, 0, 11)
    amends.on("drain")
    status = amends.on("status", "--json").document
    assert status["partitions"] == [
        {
            "partition": 0,
            "source_start": 0,
            "source_end": 11,
            "worker_next": 11,
            "lag": 0,
            "pending": 0,
            "output_end": 7,
            "view_next": 7,
            "view_lag": 0,
            "view_stop": None,
            "quarantined": 1,
            "set_asides": [],
        }
    ]
    assert (status["lag"], status["quarantined"]) == (0, 1)
    assert status["blocked"] == [
        {
            "partition": 0,
            "stock_key": {"item": "DEMO-PART", "location": "DEPOT-B"},
            "reasons": [{"txn_id": "C", "revision": 1}],
        }
    ]
    assert amends.on("status").rows[-1] == "0 DEMO-PART DEPOT-B C revision 1"


def test_status_lists_what_was_set_aside(amends):
    amends.append("A r1 NEW day 1 5")
    amends.on("set-aside", "--partition", 0, "--offset", 0, "--reason", "keyed twice")
    [unit] = amends.on("status", "--json").document["partitions"]
    assert unit["set_asides"] == [{"offset": 0, "reason": "keyed twice"}]
    assert amends.on("status").rows[-1] == "0 0 keyed twice"


# --- verify


def test_a_manifest_accepts_exactly_the_exclusions_it_names(amends):
    amends.drained(
        "A r1 NEW day 1 -50\nmalformed\nB r1 NEW day 1 1\nB r1 NEW day 1 2\nB r2 NEW day 1 3"
    )
    alone = amends.on("verify", "--json")
    assert (alone.status, alone.document["status"]) == (1, "PASS_WITH_EXCLUSIONS")
    assert alone.document["accepted"] is False
    path = amends.folder / "manifest.json"
    manifest = {member: alone.document[member] for member in ("rejections", "conflicts")}
    path.write_text(json.dumps(manifest))
    accepted = amends.on("verify", "--accept", path, "--json")
    assert (accepted.status, accepted.document["accepted"]) == (0, True)
    assert amends.on("verify", "--accept", path).text.startswith("PASS_WITH_EXCLUSIONS, accepted\n")
    manifest["rejections"][0]["offset"] = 0
    path.write_text(json.dumps(manifest))
    assert amends.on("verify", "--accept", path).status == 1


def test_a_negative_verdict_prints_the_whole_report(told):
    report = told.on("verify", "--json")
    assert report.status == 1
    assert report.err == ""
    assert list(report.document)[:6] == [
        "status",
        "accepted",
        "boundary",
        "differences",
        "rejections",
        "conflicts",
    ]
    assert report.document["status"] == "BLOCKED"
    text = told.on("verify").text
    assert text.startswith("BLOCKED, not accepted\n")
    assert "\n1 rejected record:\n" in text
    assert "\n1 conflict:\n" in text


def test_people_are_shown_a_part_of_many_rows_and_programs_all(amends):
    amends.drained("\n".join(["malformed"] * 250))
    text = amends.on("verify").text
    assert "\n250 rejected records:\n" in text
    assert "\n... and 50 more; --json has them all\n" in text
    assert text.count("MALFORMED") == 200
    assert len(amends.on("verify", "--json").document["rejections"]) == 250


def test_people_are_shown_which_rows_differ(amends):
    amends.drained("A r1 NEW day 1 5")
    view = amends.ledger.tables.namespace("main").units[0].view
    for output, envelope in view.items():
        if envelope.close:
            view[output] = envelope._replace(close=99)
    result = amends.on("verify")
    assert result.status == 1
    assert "\n1 difference:\n" in result.text
    row = "balance DEMO-PART DEPOT-A 2026-01-01 0 close 105 close 99"
    assert row in result.rows


def test_an_incomplete_boundary_says_how_far_it_is(amends):
    amends.append("A r1 NEW day 1 5")
    result = amends.on("verify")
    assert result.status == 1
    assert result.text.startswith(
        "INCOMPLETE, not accepted\n  partition 0: worker_next 0 is 1 short of the boundary 1\n"
    )


# --- explain


def explained(amends, location, day, *arguments):
    return amends.on("explain", *arguments, "DEMO-PART", location, day)


def test_a_balance_is_explained_by_what_contributes_and_what_does_not(told):
    why = explained(told, "DEPOT-A", "2026-01-03", "--json").document
    assert (why["balance"], why["computed"], why["status"]) == (50, 50, "READY")
    assert why["published"] == {"day": "2026-01-02", "close": 50, "alert": True}
    assert (why["opening_balance"], why["reorder_threshold"]) == (100, 60)
    assert [
        (each["txn_id"], each["revision"], each["offset"], each["day"], each["qty"], each["close"])
        for each in why["contributing"]
    ] == [("A", 2, 1, "2026-01-01", -30, 70), ("B", 1, 2, "2026-01-02", -20, 50)]
    assert [
        (each["txn_id"], each["revision"], each["offset"], each["why"], each["by_offset"])
        for each in why["not_contributing"]
    ] == [
        ("A", 1, 0, "superseded", 1),
        ("A", 2, 5, "duplicate", 1),
        ("C", 1, 3, "cancelled", 4),
        ("C", 2, 4, "cancellation", None),
        ("D", 1, 6, "superseded", 7),
        ("D", 2, 7, "later", None),
    ]
    assert why["conflicts"] == []


def test_a_blocked_balance_is_explained_by_its_conflicts(told):
    why = explained(told, "DEPOT-B", "2026-01-03", "--json").document
    assert (why["balance"], why["computed"], why["status"]) == (95, 100, "BLOCKED")
    assert why["reasons"] == [{"txn_id": "C", "revision": 1}]
    [conflict] = why["conflicts"]
    assert conflict["current"] is True
    assert [(each["offset"], each["qty"]) for each in conflict["assertions"]] == [(8, -5), (9, -6)]


def test_people_read_the_explanation(told):
    text = explained(told, "DEPOT-A", "2026-01-03").text
    assert text.startswith(
        "DEMO-PART at DEPOT-A, end of 2026-01-03: 50\n"
        "  carried over from 2026-01-02\n"
        "  partition 0, source records before offset 11\n"
        "  READY\n"
        "\n"
        "Opening 100, and contributing:\n"
        "valid time            txn_id  revision  kind   offset  quantity  close\n"
        "2026-01-01T12:00:00Z  A              2  AMEND       1       -30     70\n"
        "2026-01-02T12:00:00Z  B              1  NEW         2       -20     50\n"
    )
    text = explained(told, "DEPOT-B", "2026-01-03").text
    assert "BLOCKED by C revision 1" in text
    assert "Conflicts of the key:" in text
    assert "an alert" in explained(told, "DEPOT-A", "2026-01-02").text
    assert "the opening balance" in explained(told, "DEPOT-A", "2025-12-31").text


def test_a_long_explanation_shows_people_the_end_and_programs_everything(amends):
    amends.drained("\n".join(f"T{number} r1 NEW day 1 1" for number in range(150)))
    text = explained(amends, "DEPOT-A", "2026-01-01").text
    assert "  50 earlier transactions, up to a close of 150 (--json has them)\n" in text
    assert len([line for line in text.splitlines() if " NEW " in line]) == 100
    why = explained(amends, "DEPOT-A", "2026-01-01", "--json").document
    assert len(why["contributing"]) == 150


def working_meanwhile(amends, times):
    """Have a worker commit while a key is being read, so many times."""
    store = amends.ledger.store
    read = store.evidence
    left = [times]

    def evidence(unit, key):
        found = read(unit, key)
        if left[0]:
            left[0] -= 1
            amends.drained(f"W{left[0]} r1 NEW day 1 1")
        return found

    store.evidence = evidence


def test_an_explanation_rests_on_one_state_of_the_key(told):
    working_meanwhile(told, 2)
    why = explained(told, "DEPOT-A", "2026-01-01", "--json").document
    assert why["worker_next"] == 13
    assert (why["balance"], why["computed"]) == (72, 72)
    assert [each["txn_id"] for each in why["contributing"]] == ["A", "W0", "W1"]


def test_a_worker_that_never_rests_is_told(told):
    working_meanwhile(told, 1_000)
    result = explained(told, "DEPOT-A", "2026-01-01")
    assert result.status == 3
    assert result.err == (
        "error: worker of main|p0:"
        " expected a frontier that rests while a key is read, found commits\n"
    )


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("DEMO-PART", "DEPOT-A", "yesterday"), 'DAY: expected a day such as 2026-01-31, found "y'),
        (("DEMO-PART", "DEPOT-A", "2026-02-30"), "DAY: expected a day such as 2026-01-31"),
        (("DEMO-PART", "DEPOT-A", "0000-01-01"), "DAY: expected a day such as 2026-01-31"),
        (
            ("DEMO-PART", "depot-a", "2026-01-01"),
            'stock key, found item "DEMO-PART" at location "depot-a"',
        ),
    ],
)
def test_a_question_that_has_no_answer_is_wrong_input(amends, arguments, complaint):
    result = amends.on("explain", *arguments)
    assert result.status == 2
    assert complaint in result.err
