"""Where all units stand, in one look."""

from __future__ import annotations

import pytest

from amends_pipeline.ports import Extent, Role, Unit
from amends_pipeline_tests.contracts.bench import STORY, provisioned
from amends_pipeline_tests.tables import configuration


def of(ledger, namespace: str, partition: int = 0):
    [found] = [each for each in ledger.store.standing() if each.unit == Unit(namespace, partition)]
    return found


def test_a_ledger_without_namespaces_has_no_units(ledger):
    assert list(ledger.store.standing()) == []


def test_units_come_by_namespace_and_partition(ledger):
    for name, follows in (("b", False), ("a", True)):
        document = configuration(keys="abc", partitions=2, namespace=name)
        provisioned(ledger, document, follows=follows, first_offsets=[3, 4])
    standing = ledger.store.standing()
    assert [str(each.unit) for each in standing] == ["a|p0", "a|p1", "b|p0", "b|p1"]
    assert [each.follows for each in standing] == [True, True, False, False]
    assert [each.first_offset for each in standing] == [3, 4, 3, 4]
    assert {each.source for each in standing} == {"depot-feed-1"}


def test_a_unit_stands_where_its_roles_and_logs_do(bench):
    bench.drain(STORY)
    bench.work("A r3 AMEND day 1 -1")
    bench.append("B r3 AMEND day 4 -7")
    standing = of(bench.ledger, "main")
    assert standing.extent == Extent(0, 12)
    assert standing.progress == bench.progress()
    assert standing.progress.next_offset == 11
    assert standing.output_end == bench.ledger.outputs.end(bench.unit())
    assert (standing.bound, standing.holder) == (True, None)


@pytest.mark.parametrize(
    ("stage", "behind", "on_its_way"),
    [
        ("nothing", False, False),
        ("appended", True, False),
        ("decided", True, True),
        ("published", True, True),
        ("applied", False, False),
    ],
)
def test_a_unit_is_behind_until_readers_have_everything(bench, stage, behind, on_its_way):
    steps = {
        "appended": lambda: bench.append("A r1 NEW day 1 -50"),
        "decided": bench.work,
        "published": bench.publish,
        "applied": bench.project,
    }
    for name, step in steps.items():
        if stage == "nothing":
            break
        step()
        if name == stage:
            break
    standing = of(bench.ledger, "main")
    assert (standing.behind, standing.on_its_way) == (behind, on_its_way)


def test_what_the_source_does_is_seen(bench):
    bench.append(STORY)
    bench.ledger.skip("depot-feed-1", 0, 5)
    bench.ledger.forget("depot-feed-1", 0, 4)
    assert of(bench.ledger, "main").extent == Extent(4, 15)
    bench.ledger.recreate("depot-feed-1")
    standing = of(bench.ledger, "main")
    assert (standing.extent, standing.bound) == (Extent(0, 0), False)


@pytest.mark.parametrize("role", list(Role))
def test_the_holder_of_a_lock_is_named_while_it_is_held(ledger, role):
    bench = provisioned(ledger, configuration(keys="abc", partitions=2))
    with bench.store.hold(bench.unit(1), role, holder="warm worker 7"):
        assert of(ledger, "main", 1).holder == "warm worker 7"
        assert of(ledger.reopened(), "main", 1).holder == "warm worker 7"
        assert of(ledger, "main", 0).holder is None
    assert of(ledger, "main", 1).holder is None


def test_who_claims_without_the_lock_holds_nothing(bench):
    bench.claim()
    assert of(bench.ledger, "main").holder is None
