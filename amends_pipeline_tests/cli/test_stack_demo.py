"""The demo of a stack: what it makes, and what it leaves alone."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest

from amends_pipeline.cli import stack_demo
from amends_pipeline.cli.stack_demo import DEMO, SOURCE, Filling, configuration, provisioned
from amends_pipeline.flows.append import Line, append
from amends_pipeline.flows.catch_up import catch_up
from amends_pipeline.flows.drain import Options
from amends_pipeline.flows.provision import provision
from amends_pipeline.inventory.config import parse_configuration
from amends_pipeline.inventory.envelope import STATUS_DAY
from amends_pipeline.kernel.errors import DatabaseUnavailable, OutcomeUnknown
from amends_pipeline.kernel.instants import day_text
from amends_pipeline_tests import tables
from amends_pipeline_tests.contracts.ledgers import MemoryLedger

SECONDS = 60.0


def comes_true(condition, seconds=SECONDS):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.02)
    return False


@pytest.fixture
def ledger():
    return MemoryLedger()


@pytest.fixture
def instance():
    """What Dagster is told of partitions, by name."""
    partitions = {}
    return SimpleNamespace(partitions=partitions, add_dynamic_partitions=partitions.__setitem__)


def provision_other(ledger, **members):
    provision(ledger, parse_configuration(tables.configuration(**members)))


def ends(ledger):
    return [extent.end for extent in ledger.source(SOURCE).extents()]


def work(ledger):
    catch_up(ledger, DEMO, Options(holder="a test"), lambda _: None)


def seen(ledger):
    """What readers see: days with their close, alerts marked."""
    config = ledger.store.config(DEMO)
    days = {}
    with ledger.store.snapshot(DEMO) as snapshot:
        for row in snapshot.visible():
            if row.day != STATUS_DAY:
                place = (config.keys[row.key].stock_key.item, day_text(row.day))
                days.setdefault(place, []).append(row.close)
    return {
        f"{item} {day}": f"{closes[0]}{' alert' * (len(closes) - 1)}"
        for (item, day), closes in days.items()
    }


def test_the_demo_is_made_where_there_is_none(ledger, instance):
    assert provisioned(ledger)
    assert ledger.store.info(DEMO).follows
    assert provisioned(ledger)
    Filling(ledger, instance)
    assert instance.partitions == {"namespace": ["demo"], "source_partition": ["p0", "p1"]}


@pytest.mark.parametrize(
    ("namespace", "source", "theirs"),
    [
        ("main", "feed", False),
        ("demo", "feed", True),  # their namespace
        ("demo", SOURCE, True),
        ("main", SOURCE, True),  # their source, of one partition
    ],
)
def test_what_is_somebody_elses_is_left_as_it_is(ledger, namespace, source, theirs):
    provision_other(ledger, namespace=namespace, source=source)
    before = ledger.store.info(namespace)
    assert provisioned(ledger) is not theirs
    assert ledger.store.info(namespace) == before
    assert {info.namespace for info in ledger.store.namespaces()} == (
        {namespace} if theirs else {namespace, DEMO}
    )


def test_history_comes_first_and_corrections_when_readers_have_it(ledger, instance, monkeypatch):
    monkeypatch.setattr(stack_demo, "POLL_SECONDS", 0.01)
    provisioned(ledger)
    filling = threading.Thread(target=Filling(ledger, instance).run, daemon=True)
    filling.start()
    assert comes_true(lambda: ends(ledger) == [3, 3])
    time.sleep(0.1)
    assert ends(ledger) == [3, 3]
    work(ledger)
    assert seen(ledger) == {
        "DEMO-BOLT 2026-01-01": "280",
        "DEMO-BOLT 2026-01-02": "190",
        "DEMO-BOLT 2026-01-04": "120 alert",
        "DEMO-PART 2026-01-01": "50 alert",
        "DEMO-PART 2026-01-02": "30",
        "DEMO-PART 2026-01-03": "80",
    }
    filling.join(SECONDS)
    assert ends(ledger) == [5, 4]
    work(ledger)
    assert seen(ledger) == {
        "DEMO-BOLT 2026-01-01": "280",
        "DEMO-BOLT 2026-01-03": "220",
        "DEMO-BOLT 2026-01-04": "150",
        "DEMO-PART 2026-01-01": "70",
        "DEMO-PART 2026-01-02": "50 alert",
    }


def test_the_next_stack_goes_on_where_the_demo_was_left(ledger, instance):
    provisioned(ledger)
    first = Filling(ledger, instance)
    first.stop()
    first.run()
    assert ends(ledger) == [3, 3]
    work(ledger)
    for _ in range(2):
        Filling(ledger, instance).run()
        assert ends(ledger) == [5, 4]


@pytest.mark.parametrize("error", [DatabaseUnavailable, OutcomeUnknown])
def test_a_database_that_is_away_is_waited_for(ledger, instance, monkeypatch, error):
    monkeypatch.setattr(stack_demo, "POLL_SECONDS", 0.01)
    provisioned(ledger)
    failures = [error("database", expected="a server", found="none")] * 3

    def unreliable(*arguments):
        if failures:
            raise failures.pop()
        return append(*arguments)

    monkeypatch.setattr(stack_demo, "append", unreliable)
    filling = Filling(ledger, instance)
    thread = threading.Thread(target=filling.run, daemon=True)
    thread.start()
    assert comes_true(lambda: ends(ledger) == [3, 3])
    filling.stop()
    thread.join(SECONDS)
    assert not thread.is_alive()


@pytest.mark.parametrize("after_stages", [0, 1])
def test_who_appends_to_the_demo_has_it_for_himself(ledger, instance, after_stages):
    provisioned(ledger)
    if after_stages:
        stopped = Filling(ledger, instance)
        stopped.stop()
        stopped.run()
    append(ledger, DEMO, [Line("by hand", 1, b"no record")])
    work(ledger)
    before = ends(ledger)
    Filling(ledger, instance).run()
    assert ends(ledger) == before


def test_the_demo_is_a_configuration_like_any_other():
    config = parse_configuration(configuration())
    assert (config.namespace, config.source, config.partitions) == (DEMO, SOURCE, 2)
