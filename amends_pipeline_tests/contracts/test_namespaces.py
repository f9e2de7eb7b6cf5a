from __future__ import annotations

import pytest

from amends_pipeline.inventory.config import default_partition, parse_configuration
from amends_pipeline.inventory.refold import EVERY_DAY
from amends_pipeline.kernel.errors import (
    ConfigurationError,
    ForeignIncarnation,
    InputError,
    UnknownNamespace,
)
from amends_pipeline.ports import NamespaceInfo, Progress, Role, Unit
from amends_pipeline_tests.contracts.bench import SOURCE, STORY, decision, provisioned
from amends_pipeline_tests.strategies import AWKWARD_KEYS
from amends_pipeline_tests.tables import STOCK_KEYS, configuration


def provision(ledger, document, incarnation=None):
    config = parse_configuration(document)
    incarnation = incarnation or ledger.source(config.source).incarnation()
    firsts = [0] * config.partitions
    return ledger.store.provision(config, incarnation, firsts, follows=True)


def placed(partition: int | None, letter: str = "a", **members) -> dict:
    """A namespace `other` over two partitions whose one key lies where it is said to."""
    document = configuration(keys=letter, partitions=2, namespace="other", **members)
    del document["keys"][0]["partition"]
    if partition is not None:
        document["keys"][0]["partition"] = partition
    return document


def test_a_namespace_is_as_it_was_provisioned(ledger):
    document = configuration(keys="abc", partitions=3, namespace="x" * 63)
    bench = provisioned(ledger, document, first_offsets=[7, 0, 2**40], follows=False)
    config, store = bench.config, ledger.store
    incarnation = ledger.source(SOURCE).incarnation()
    assert store.info("x" * 63) == NamespaceInfo(
        *("x" * 63, SOURCE, 3, config.digest, incarnation, (7, 0, 2**40), False)
    )
    assert store.config("x" * 63) == config
    assert store.config("x" * 63).digest == config.digest
    epochs = {Role.WORKER: 0, Role.RELAY: 0, Role.VIEW: 0}
    assert [bench.progress(partition) for partition in range(3)] == [
        Progress(first, 0, 0, 0, None, epochs) for first in (7, 0, 2**40)
    ]
    binding = store.source_binding(SOURCE)
    assert (binding.source, binding.incarnation, binding.partitions) == (SOURCE, incarnation, 3)


def test_hostile_keys_and_extreme_numbers_are_kept(ledger):
    document = configuration(origin="0001-01-01T00:00:00.000000001Z", partitions=4)
    keys = [
        {
            "stock_key": {"item": item, "location": location},
            "opening_balance": [-(2**63), 2**63 - 1][at % 2],
            "reorder_threshold": [2**63 - 1, -(2**63)][at % 2],
        }
        for at, (item, location) in enumerate(AWKWARD_KEYS)
    ]
    bench = provisioned(ledger, document | {"keys": keys})
    kept = ledger.store.config("main")
    assert kept == bench.config
    assert [key.stock_key for key in kept.keys] == sorted(
        AWKWARD_KEYS,
        key=lambda key: bench.config.keys[bench.config.number_of(key)].stock_key.encoded,
    )
    for number, key in enumerate(kept.keys):
        unit = bench.unit(key.partition)
        assert ledger.store.keys(unit, {number: EVERY_DAY})[number].opening == key.opening_balance


def test_provisioning_again_changes_nothing(bench):
    bench.drain(STORY)
    store, source = bench.store, bench.source
    with bench.unchanged():
        again = store.provision(bench.config, source.incarnation(), [5], follows=False)
    assert again is False
    assert bench.store.info("main").follows is True


@pytest.mark.parametrize(
    "document",
    [
        configuration(keys="ab"),
        configuration(keys="abc", opening=101),
        configuration(keys="abc", threshold=61),
        configuration(keys="abc", origin="2026-01-01T00:00:01Z"),
        configuration(keys="abc", source="depot-feed-2"),
    ],
    ids=["fewer keys", "another opening", "another threshold", "another origin", "another source"],
)
def test_another_digest_under_a_live_name_is_refused(bench, document):
    bench.drain(STORY)
    bench.ledger.source("depot-feed-2").create(1)
    with bench.unchanged(), pytest.raises(ConfigurationError):
        provision(bench.ledger, document)
    assert bench.ledger.store.source_binding("depot-feed-2") is None


def test_another_number_of_partitions_than_the_source_has_is_refused(bench):
    with bench.unchanged(), pytest.raises(ConfigurationError):
        provision(bench.ledger, configuration(namespace="other", partitions=2))
    assert [info.namespace for info in bench.store.namespaces()] == ["main"]


AWAY = 1 - default_partition(STOCK_KEYS["a"], 2)
HOME = default_partition(STOCK_KEYS["a"], 2)
C_AWAY = 1 - default_partition(STOCK_KEYS["c"], 2)


@pytest.mark.parametrize(
    ("first", "second", "agreed"),
    [
        (placed(None), placed(None), True),
        (placed(None), placed(HOME), True),
        (placed(HOME), placed(None), True),
        (placed(AWAY), placed(AWAY), True),
        (placed(AWAY), placed(None), False),
        (placed(AWAY), placed(HOME), False),
        (placed(None), placed(AWAY), False),
        (placed(AWAY), placed(None, "c"), True),
        (placed(AWAY), placed(C_AWAY, "c"), False),
        (placed(AWAY), placed(AWAY, threshold=1, opening=-1), True),
    ],
)
def test_namespaces_over_a_source_agree_where_a_key_lies(ledger, first, second, agreed):
    provisioned(ledger, first | {"namespace": "first"})
    if agreed:
        assert provision(ledger, second)
        assert ledger.store.config("other") == parse_configuration(second)
        return
    with pytest.raises(ConfigurationError):
        provision(ledger, second)
    with pytest.raises(UnknownNamespace):
        ledger.store.info("other")


def test_a_later_namespace_adds_no_route(ledger):
    provisioned(ledger, placed(None, "a") | {"namespace": "first"})
    provision(ledger, placed(None, "c"))
    routes = ledger.store.source_binding(SOURCE).routes
    for letter in "abc":
        default = default_partition(STOCK_KEYS[letter], 2)
        assert routes.get(STOCK_KEYS[letter], default) == default


def test_routes_tell_where_a_key_was_placed(ledger):
    provisioned(ledger, placed(AWAY))
    assert ledger.store.source_binding(SOURCE).routes[STOCK_KEYS["a"]] == AWAY


def test_another_incarnation_than_the_source_was_bound_with_is_refused(bench):
    document = configuration(keys="abc", namespace="other")
    with bench.unchanged(), pytest.raises(ForeignIncarnation):
        provision(bench.ledger, document, incarnation="0" * 32)
    assert [info.namespace for info in bench.store.namespaces()] == ["main"]


def test_namespaces_come_by_name(ledger):
    assert list(ledger.store.namespaces()) == []
    for name in ("b", "a-1", "a", "10", "a0"):
        provisioned(ledger, configuration(namespace=name))
    names = [info.namespace for info in ledger.store.namespaces()]
    assert names == ["10", "a", "a-1", "a0", "b"]


def test_a_source_that_nobody_uses_binds_nobody(bench):
    assert bench.store.source_binding("depot-feed-2") is None


def test_namespaces_over_one_source_share_nothing_else(ledger):
    one = provisioned(ledger)
    other = provisioned(ledger, configuration(keys="abc", namespace="other"))
    with other.unchanged():
        worked = one.claim()
        one.store.commit(worked, [decision(until=3)])
    one.drain(STORY)
    assert other.progress().next_offset == 0
    assert list(other.store.outbox(other.unit())) == []
    other.drain()
    assert len(list(other.store.outbox(other.unit()))) > 0


UNIT_ASKS = {
    "hold": lambda store, unit: store.hold(unit, Role.VIEW, holder="x").__enter__(),
    "claim": lambda store, unit: store.claim(unit, Role.WORKER, holder="x"),
    "progress": lambda store, unit: store.progress(unit),
    "set_asides": lambda store, unit: store.set_asides(unit),
    "set_aside": lambda store, unit: store.set_aside(unit, 0, "x"),
    "authorities": lambda store, unit: store.authorities(unit, [(0, "A")]),
    "keys": lambda store, unit: store.keys(unit, {0: EVERY_DAY}),
    "pending": lambda store, unit: store.pending(unit, 1),
    "view_rows": lambda store, unit: store.view_rows(unit, []),
    "outbox": lambda store, unit: list(store.outbox(unit)),
    "outbox_segments": lambda store, unit: store.outbox_segments(unit),
    "evidence": lambda store, unit: store.evidence(unit, 0),
}


@pytest.mark.parametrize("ask", UNIT_ASKS.values(), ids=UNIT_ASKS)
def test_a_unit_that_is_not_there_is_refused(bench, ask):
    with pytest.raises(UnknownNamespace):
        ask(bench.store, Unit("nobody", 0))
    for partition in (-1, 1):
        with pytest.raises(InputError):
            ask(bench.store, Unit("main", partition))


def test_a_namespace_that_is_not_there_is_refused(ledger):
    store = ledger.store
    for ask in (store.info, store.config, lambda name: store.snapshot(name).__enter__()):
        with pytest.raises(UnknownNamespace):
            ask("nobody")
