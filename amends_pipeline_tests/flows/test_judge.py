"""Verdicts are kept: by unit, with what they stand on, accepted by what is stored."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amends_pipeline.flows import judge
from amends_pipeline.flows.accept import accept, settled_verdicts, standing_verdicts
from amends_pipeline.flows.catch_up import catch_up
from amends_pipeline.flows.drain import Options, ingest_unit
from amends_pipeline.flows.judge import judge_namespace, judge_unit, keep_failure
from amends_pipeline.flows.verify import verify
from amends_pipeline.inventory.envelope import Family, OutputId
from amends_pipeline.inventory.verify import Manifest, Report
from amends_pipeline.kernel.errors import InputError, UnknownNamespace
from amends_pipeline.kernel.verdict import Status
from amends_pipeline.ports import Unit
from amends_pipeline_tests.contracts.bench import Bench, provisioned
from amends_pipeline_tests.contracts.ledgers import MemoryLedger
from amends_pipeline_tests.inventory.moments import KEY_A, KEY_B, manifest
from amends_pipeline_tests.tables import configuration, day, history

P0, P1 = Unit("main", 0), Unit("main", 1)
NO_ENTRIES = Manifest()


@pytest.fixture
def main() -> Bench:
    return two_partitions()


def two_partitions() -> Bench:
    """Key a lies on partition 0, key b on partition 1."""
    document = configuration(partitions=2)
    document["keys"][1]["partition"] = 1
    return provisioned(MemoryLedger(), document)


def append(main: Bench, text: str) -> None:
    """Append each record to the partition of its key; what does not decode goes to 0."""
    for line in history(text):
        main.append_lines([line], 1 if b"DEPOT-B" in line.value else 0)


def drain(main: Bench, text: str = "") -> None:
    append(main, text)
    assert not catch_up(main.ledger, "main", Options(holder="test")).stopped


def plant(main: Bench, unit: Unit, amount: int = 1) -> None:
    """Add to the balance of a unit's key on day 1, behind everybody's back."""
    view = main.ledger.tables.unit(unit).view
    output = OutputId(Family.BALANCE, unit.partition, day(1))
    view[output] = view[output]._replace(close=view[output].close + amount)


def kept(main: Bench) -> dict[Unit, tuple[str, bool, int, int, int]]:
    return {
        unit: (status, accepted, source_end, output_end, differences)
        for unit, status, accepted, source_end, output_end, differences, *_ in (
            main.ledger.operations.verdicts()
        )
    }


BOTH = """
    A r1 NEW day 1 -50
    b/B r1 NEW day 1 -30
    b/C r1 NEW day 2 -30
"""


# --- one unit


def test_a_verdict_is_kept_with_its_boundary_its_judge_its_moment_and_its_report(main):
    drain(main, BOTH)
    plant(main, P1)
    began = datetime.now(UTC)
    report = judge_unit(main.ledger, P1, "run 7")
    [verdict] = main.ledger.operations.verdicts()
    assert verdict[:7] == (P1, "DRIFT", False, 2, 4, 1, verdict.judged_at)
    assert verdict.judged_by == "run 7"
    assert verdict.judged_at.endswith("Z")
    assert abs(datetime.fromisoformat(verdict.judged_at) - began).total_seconds() < 60
    assert Report.model_validate_json(verdict.report) == report
    assert [each.day for each in report.differences] == ["2026-01-01"]


def test_a_run_judges_at_its_boundary_and_a_stand_alone_verification_at_the_source_end(main):
    drain(main, BOTH)
    append(main, "b/D r1 NEW day 3 1")
    assert judge_unit(main.ledger, P1, "run", until=2).status is Status.PASS
    assert kept(main)[P1] == ("PASS", True, 2, 4, 0)
    assert judge_unit(main.ledger, P1, "person").status is Status.INCOMPLETE
    assert kept(main)[P1] == ("INCOMPLETE", False, 3, 4, 0)
    assert judge_unit(main.ledger, P1, "sensor", processed=True).status is Status.PASS
    assert kept(main)[P1] == ("PASS", True, 2, 4, 0)


def test_what_is_on_its_way_to_the_readers_is_no_complete_boundary(main):
    append(main, BOTH)
    ingest_unit(main.ledger, P1, 2, Options(holder="test"))
    report = verify(main.store, "main", partitions=[1], processed=True, wait_seconds=0)
    assert [(each.stage, each.by) for each in report.distance] == [("relay", 4)]


@pytest.mark.parametrize("unit", [Unit("nobody", 0), Unit("main", 2)])
def test_a_unit_that_is_not_there_gets_no_verdict(main, unit):
    with pytest.raises((UnknownNamespace, InputError)):
        judge_unit(main.ledger, unit, "run")
    keep_failure(main.ledger, unit, "whatever", "run")
    assert kept(main) == {}


def test_a_verification_that_failed_is_kept_as_an_error_where_the_unit_stands(main):
    drain(main, BOTH)
    judge_unit(main.ledger, P1, "run 1")
    append(main, "b/D r1 NEW day 3 1")
    keep_failure(main.ledger, P1, "MemoryError: \x1b[31m no", "run 2")
    assert kept(main)[P1] == ("ERROR", False, 3, 4, 0)
    verdict = main.ledger.operations.verdict(P1)
    assert json.loads(verdict.report)["errors"] == ["MemoryError: \x1b[31m no"]
    assert json.loads(verdict.report)["boundary"][0]["worker_next"] == 2


def test_rows_past_a_bound_are_counted_and_not_stored(main, monkeypatch):
    drain(main, BOTH)
    plant(main, P1)
    main.ledger.tables.unit(P1).view[OutputId(Family.BALANCE, 1, day(9))] = (
        main.ledger.tables.unit(P1).view[OutputId(Family.BALANCE, 1, day(1))]._replace(day=day(9))
    )
    monkeypatch.setattr(judge, "KEPT_ROWS", 1)
    report = judge_unit(main.ledger, P1, "run")
    assert len(report.differences) == 2
    verdict = main.ledger.operations.verdict(P1)
    assert verdict.differences == 2
    document = json.loads(verdict.report)
    assert len(document["differences"]) == 1
    assert document["not_compared"][-1]["what"] == "1 further differing rows, which are not stored"


# --- a namespace


def test_a_namespace_s_verification_keeps_a_verdict_of_each_unit(main):
    drain(main, BOTH + "malformed")
    plant(main, P1)
    report = judge_namespace(main.ledger, "main", "amends inventory verify")
    assert (report.status, len(report.boundary)) == (Status.DRIFT, 2)
    assert kept(main) == {
        P0: ("PASS_WITH_EXCLUSIONS", False, 2, 3, 0),
        P1: ("DRIFT", False, 2, 4, 1),
    }


def test_a_unit_that_was_not_compared_keeps_the_verdict_that_it_had(main):
    drain(main, BOTH)
    judge_namespace(main.ledger, "main", "first")
    append(main, "b/D r1 NEW day 3 1")
    assert judge_namespace(main.ledger, "main", "second").status is Status.INCOMPLETE
    assert {each.unit: each.judged_by for each in main.ledger.operations.verdicts()} == {
        P0: "first",
        P1: "second",
    }
    assert kept(main)[P0][:2] == ("PASS", True)
    assert kept(main)[P1][:2] == ("INCOMPLETE", False)


RECORDS = ["A r1 NEW day 1 -50", "b/B r1 NEW day 1 -30", "b/B r1 NEW day 1 -31", "malformed"]


@settings(max_examples=20)  # each of them asks the oracle four times
@given(st.lists(st.sampled_from(RECORDS)), st.sets(st.sampled_from([P0, P1])))
def test_the_verdicts_of_a_whole_namespace_are_those_of_its_units(records, spoilt):
    """Two ways to the same verdicts: the report of the whole taken apart, and one unit each."""
    main = two_partitions()
    drain(main, BOTH + "\n".join(records))
    for unit in spoilt:
        plant(main, unit)
    judge_namespace(main.ledger, "main", "whole")
    together = {each.unit: json.loads(each.report) for each in main.ledger.operations.verdicts()}
    for unit in (P0, P1):
        judge_unit(main.ledger, unit, "unit by unit")
    apart = {each.unit: json.loads(each.report) for each in main.ledger.operations.verdicts()}
    assert together == apart
    assert set(together) == {P0, P1}


# --- consent


EXCLUDING = "malformed; b/X r1 NEW day 1 1; b/X r1 NEW day 1 2; b/X r2 NEW day 1 3"
OF_P0 = manifest({"rejections": [{"partition": 0, "offset": 1, "code": "MALFORMED"}]})
OF_P1 = manifest({"conflicts": [{"stock_key": KEY_B, "txn_id": "X", "revision": 1}]})


def accepted(main: Bench) -> tuple[bool, bool]:
    standing = standing_verdicts(main.ledger)
    return standing[P0].accepted, standing[P1].accepted


def test_what_is_accepted_is_looked_up_when_it_is_asked_for(main):
    drain(main, BOTH + EXCLUDING)
    judge_namespace(main.ledger, "main", "person")
    assert accepted(main) == (False, False)
    accept(main.ledger, "main", OF_P0, partition=0)
    assert accepted(main) == (True, False)
    accept(main.ledger, "main", OF_P1, partition=1)
    assert accepted(main) == (True, True)
    assert set(settled_verdicts(main.ledger)) == set()  # both were recorded as not accepted
    judge_namespace(main.ledger, "main", "person")
    assert set(settled_verdicts(main.ledger)) == {P0, P1}
    assert [each[1] for each in kept(main).values()] == [True, True]
    accept(main.ledger, "main", NO_ENTRIES)
    assert accepted(main) == (False, False)


def test_more_is_accepted_than_is_excluded(main):
    """Exact sets: consent to an exclusion that is no longer there is no consent to its absence."""
    drain(main, BOTH)
    accept(main.ledger, "main", OF_P0, partition=0)
    judge_namespace(main.ledger, "main", "person")
    assert kept(main)[P0][:2] == ("PASS", False)
    assert accepted(main) == (False, True)


def test_consent_for_a_call_is_not_kept(main):
    drain(main, BOTH + EXCLUDING)
    whole = Manifest(rejections=OF_P0.rejections, conflicts=OF_P1.conflicts)
    assert judge_namespace(main.ledger, "main", "person", manifest=whole).accepted
    assert accepted(main) == (False, False)
    assert main.ledger.operations.manifest("main") is None
    accept(main.ledger, "main", whole)
    assert judge_namespace(main.ledger, "main", "person").accepted
    assert not judge_namespace(main.ledger, "main", "person", manifest=NO_ENTRIES).accepted
    assert accepted(main) == (True, True)


def test_the_part_of_one_partition_is_replaced_and_the_others_stay(main):
    other = manifest({"rejections": [{"partition": 0, "offset": 9, "code": "KIND"}]})
    accept(main.ledger, "main", OF_P1)
    accept(main.ledger, "main", OF_P0, partition=0)
    stored = accept(main.ledger, "main", other, partition=0)
    assert (stored.rejections, stored.conflicts) == (other.rejections, OF_P1.conflicts)
    document = json.loads(main.ledger.operations.manifest("main"))
    assert document == stored.model_dump(mode="json")


@pytest.mark.parametrize(
    ("given", "partition", "message"),
    [
        ({"rejections": [{"partition": 2, "offset": 0, "code": "KIND"}]}, None, "partition 2"),
        ({"rejections": [{"partition": 1, "offset": 0, "code": "KIND"}]}, 0, "partition 1"),
        ({"conflicts": [{"stock_key": KEY_A, "txn_id": "A", "revision": 1}]}, 1, "partition 0"),
        ({}, 2, "found 2"),
        ({}, -1, "found -1"),
    ],
)
def test_consent_to_what_lies_elsewhere_is_refused(main, given, partition, message):
    accept(main.ledger, "main", OF_P0)
    with pytest.raises(InputError, match=message):
        accept(main.ledger, "main", manifest(given), partition)
    assert accepted_document(main) == OF_P0.model_dump(mode="json")


def accepted_document(main: Bench) -> dict:
    return json.loads(main.ledger.operations.manifest("main"))


def test_a_report_of_another_version_is_not_accepted_and_does_no_harm(main):
    drain(main, BOTH + EXCLUDING)
    judge_namespace(main.ledger, "main", "person")
    accept(main.ledger, "main", OF_P0)
    old = main.ledger.operations.verdict(P0)._replace(report='{"version":0}', accepted=True)
    main.ledger.operations.record_verdict(old)
    assert accepted(main) == (False, False)
    assert P0 not in settled_verdicts(main.ledger)
