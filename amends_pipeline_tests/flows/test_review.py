"""All units, the worst first: who asks for attention, who counts, who is how far behind."""

from __future__ import annotations

import pytest

from amends_pipeline.flows.catch_up import catch_up
from amends_pipeline.flows.drain import Options
from amends_pipeline.flows.judge import judge_unit
from amends_pipeline.flows.review import Concern, Reviewed, review, reviewed
from amends_pipeline.ports import Extent, Unit, Verdict
from amends_pipeline_tests.contracts.bench import provisioned
from amends_pipeline_tests.contracts.ledgers import MemoryLedger
from amends_pipeline_tests.flows.test_rebuild import standing as placed
from amends_pipeline_tests.tables import configuration


def standing(unit: Unit, **members):
    return placed(unit, **({"follows": True} | members))


def verdict(unit: Unit, status: str = "PASS", **members) -> Verdict:
    accepted = status == "PASS"
    plain = Verdict(unit, status, accepted, 10, 20, 0, "2026-01-01T00:00:00Z", "run", "")
    return plain._replace(**members)


MAIN = Unit("main", 0)
CONCERNS = [
    # status, accepted, bound, concern
    ("PASS", True, True, Concern.NONE),
    ("PASS_WITH_EXCLUSIONS", True, True, Concern.NONE),
    ("PASS_WITH_EXCLUSIONS", False, True, Concern.DOUBTFUL),
    ("PASS", False, True, Concern.DOUBTFUL),
    ("PASS", True, False, Concern.DOUBTFUL),
    ("BLOCKED", False, True, Concern.DOUBTFUL),
    ("INCOMPLETE", False, True, Concern.DOUBTFUL),
    ("DRIFT", False, True, Concern.WRONG),
    ("ERROR", False, True, Concern.WRONG),
    ("DRIFT", False, False, Concern.WRONG),
    ("A STATUS TO COME", False, True, Concern.DOUBTFUL),
]


@pytest.mark.parametrize(("status", "accepted", "bound", "concern"), CONCERNS)
def test_a_verdict_asks_for_attention(status, accepted, bound, concern):
    unit = Reviewed(standing(MAIN, bound=bound), verdict(MAIN, status, accepted=accepted))
    assert unit.concern is concern


def test_a_unit_without_a_verdict_asks_for_attention():
    assert Reviewed(standing(MAIN), None).concern is Concern.DOUBTFUL


def test_a_verdict_stands_behind_its_source():
    ends = [(10, 0), (13, 3), (7, 0)]  # the last one is a source that lost records
    for end, behind in ends:
        unit = Reviewed(standing(MAIN, extent=Extent(0, end)), verdict(MAIN))
        assert (unit.behind, unit.concern) == (behind, Concern.NONE)
    assert Reviewed(standing(MAIN, extent=None), verdict(MAIN)).behind == 0
    assert Reviewed(standing(MAIN, first_offset=4), None).behind == 6


def test_the_worst_comes_first_and_those_that_do_not_count_last():
    order = [
        ("b", "ERROR"),
        ("a", "DRIFT"),
        ("h", "BLOCKED"),
        ("d", "INCOMPLETE"),
        ("e", None),
        ("f", "PASS_WITH_EXCLUSIONS"),
        ("c", "PASS"),
        ("g", "PASS"),
        ("off-1", "DRIFT"),
        ("off-0", "PASS"),
    ]
    standings = [
        standing(Unit(name, 0), follows=not name.startswith("off")) for name, _ in sorted(order)
    ]
    verdicts = {Unit(name, 0): verdict(Unit(name, 0), status) for name, status in order if status}
    assert [each.unit.namespace for each in reviewed(standings, verdicts)] == [
        name for name, _ in order
    ]


def test_units_are_those_of_the_ledger_whoever_was_judged():
    ledger = MemoryLedger()
    bench = provisioned(ledger, configuration(partitions=2))
    provisioned(ledger, configuration(partitions=2, namespace="other"), follows=False)
    bench.append("A r1 NEW day 1 -50")
    catch_up(ledger, "main", Options(holder="test"))
    judge_unit(ledger, Unit("main", 1), "run")
    bench.append("A r1 NEW day 1 -50\nA r1 NEW day 1 -50", partition=1)
    assert [
        (str(each.unit), each.follows, each.verdict and each.verdict.status, each.behind)
        for each in review(ledger)
    ] == [
        ("main|p0", True, None, 1),
        ("main|p1", True, "PASS", 2),
        ("other|p0", False, None, 1),
        ("other|p1", False, None, 2),
    ]
