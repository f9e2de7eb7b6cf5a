from __future__ import annotations

import pytest

from amends_pipeline.inventory.classify import Code
from amends_pipeline.kernel.errors import Fenced, InputError
from amends_pipeline.ports import Role, SetAside
from amends_pipeline_tests.contracts.bench import STORY, decision, provisioned
from amends_pipeline_tests.tables import configuration, history

WHY = "an impossible 64-bit quantity, ticket \u201c4711\u201d"


def asides(bench, partition=0):
    return list(bench.store.set_asides(bench.unit(partition)))


def test_declared_records_come_by_offset(bench):
    for offset in (30, 4, 2**40):
        bench.store.set_aside(bench.unit(), offset, f"{WHY} {offset}")
    expected = [SetAside(offset, f"{WHY} {offset}") for offset in (4, 30, 2**40)]
    assert asides(bench) == expected
    with bench.store.snapshot("main") as snapshot:
        assert list(snapshot.set_asides(0)) == expected
    assert asides(type(bench)(bench.ledger.reopened(), bench.config)) == expected


def test_each_unit_has_its_own(ledger):
    one = provisioned(ledger, configuration(partitions=2))
    other = provisioned(ledger, configuration(partitions=2, namespace="other"))
    one.store.set_aside(one.unit(1), 4, WHY)
    assert (asides(one, 0), asides(one, 1)) == ([], [SetAside(4, WHY)])
    assert (asides(other, 0), asides(other, 1)) == ([], [])


def test_repeating_it_changes_nothing(bench):
    bench.store.set_aside(bench.unit(), 4, WHY)
    with bench.unchanged():
        bench.store.set_aside(bench.unit(), 4, WHY)


def test_another_reason_is_refused(bench):
    bench.store.set_aside(bench.unit(), 4, WHY)
    with bench.unchanged(), pytest.raises(InputError):
        bench.store.set_aside(bench.unit(), 4, "another reason")


@pytest.mark.parametrize("offset", [-1, 0, 9])
def test_a_record_that_the_frontier_has_passed_is_refused(bench, offset):
    bench.store.commit(bench.claim(), [decision(until=10)])
    with bench.unchanged(), pytest.raises(InputError):
        bench.store.set_aside(bench.unit(), offset, WHY)


@pytest.mark.parametrize("offset", [10, 11])
def test_a_record_at_or_after_the_frontier_can_be_set_aside(bench, offset):
    bench.store.commit(bench.claim(), [decision(until=10)])
    bench.store.set_aside(bench.unit(), offset, WHY)
    assert asides(bench) == [SetAside(offset, WHY)]


def test_it_fences_a_worker_that_has_read_the_record_as_input(bench):
    bench.append(STORY)
    token = bench.claim()
    decisions = bench.decide()
    bench.store.set_aside(bench.unit(), 4, WHY)
    with bench.unchanged(), pytest.raises(Fenced):
        bench.store.commit(token, decisions)
    bench.work()
    with bench.store.snapshot("main") as snapshot:
        codes = {each.rejection.offset: each.rejection.code for each in snapshot.quarantine()}
        values = {each.rejection.offset: each.rejection.value for each in snapshot.quarantine()}
    assert codes == {3: Code.MALFORMED, 4: Code.SET_ASIDE}
    assert values[4] == history(STORY)[4].value


def test_it_fences_nobody_else(bench):
    tokens = {role: bench.claim(role) for role in (Role.RELAY, Role.VIEW)}
    bench.store.set_aside(bench.unit(), 4, WHY)
    bench.store.acknowledge(tokens[Role.RELAY], 0, 0)
    bench.store.commit_view(tokens[Role.VIEW], 0, 0, {}, None)
