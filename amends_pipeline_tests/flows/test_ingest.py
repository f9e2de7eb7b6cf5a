"""Where a commit ends changes nothing: slices, envelopes and causes are those of the log alone."""

from __future__ import annotations

from time import sleep

import pytest

from amends_pipeline.flows import ingest
from amends_pipeline.flows.append import Line, append
from amends_pipeline.flows.drain import Options, drain_unit
from amends_pipeline.flows.ingest import Worker
from amends_pipeline.flows.provision import provision
from amends_pipeline.inventory.config import parse_configuration
from amends_pipeline.kernel.errors import ConfigurationError
from amends_pipeline.ports import Role, Unit
from amends_pipeline_tests.contracts.ledgers import MemoryLedger
from amends_pipeline_tests.tables import configuration, history

MAIN = Unit("main", 0)
STEADY = "\n".join(f"A{number} r1 NEW day 1 -1" for number in range(20))
# Key a opens at the upper end: it leaves the range for one record, at the end of a batch or not.
BRINK = "\n".join(
    [*(f"b/B{n} r1 NEW day 1 1" for n in range(9)), "A r1 NEW day 1 1", "C r1 NEW day 1 -1"]
    + [f"b/D{n} r1 NEW day 1 1" for n in range(9)]
)


def published(text, slice_records, commit_records):
    document = configuration()
    if text == BRINK:
        document["keys"][0]["opening_balance"] = 2**63 - 1
    ledger = MemoryLedger()
    provision(ledger, parse_configuration(document))
    lines = [Line("log", at, entry.value) for at, entry in enumerate(history(text), 1)]
    append(ledger, "main", lines)
    options = Options("test", slice_records=slice_records, commit_records=commit_records)
    done = drain_unit(ledger, MAIN, len(lines), options)
    return done.ingested.decisions, [row[2] for row in ledger.store.outbox(MAIN)]


@pytest.mark.parametrize("together", [1, 6, 1_000])
@pytest.mark.parametrize("text", [STEADY, BRINK], ids=["steady", "brink"])
@pytest.mark.parametrize("slice_records", [1, 2, 3, 7])
def test_the_size_of_a_commit_never_changes_a_result(monkeypatch, text, slice_records, together):
    one_commit = published(text, slice_records, 1_000)
    monkeypatch.setattr(ingest, "BATCH_RECORDS", together)
    for commit_records in (1, 2, 5, 7, 10, 11, 20):
        assert published(text, slice_records, commit_records) == one_commit


def test_slices_hold_as_many_records_as_they_may():
    assert published(STEADY, 3, 7)[0] == 7
    assert published(BRINK, 1, 10)[0] == 19  # the two records of the excess are one decision


def test_a_refused_name_leaves_no_source_behind():
    ledger = MemoryLedger()
    provision(ledger, parse_configuration(configuration()))
    typo = configuration(source="fresh", partitions=3)
    with pytest.raises(ConfigurationError):
        provision(ledger, parse_configuration(typo))
    other = configuration(namespace="other", source="fresh", partitions=2)
    assert provision(ledger, parse_configuration(other)).created


class Slow:
    """A store whose commits take a while, and that counts what it is asked for."""

    def __init__(self, store, seconds=0.003) -> None:
        self._store = store
        self._seconds = seconds
        self.asked = 0

    def __getattr__(self, name):
        return getattr(self._store, name)

    def commit(self, token, decisions):
        sleep(self._seconds)
        self._store.commit(token, decisions)

    def authorities(self, unit, identities):
        self.asked += 1
        return self._store.authorities(unit, identities)


def worked(lines, before, store=lambda ledger: ledger.store) -> tuple[list, object]:
    """The outbox after two workers: the first begins the unit, the second finds it begun."""
    ledger = MemoryLedger()
    provision(ledger, parse_configuration(configuration(keys="ab")))
    append(ledger, "main", [Line("log", at, each.value) for at, each in enumerate(lines, 1)])
    drain_unit(ledger, MAIN, before, Options("first"))
    with ledger.store.hold(MAIN, Role.WORKER, holder="second") as token:
        config = ledger.store.config("main")
        over = store(ledger)
        Worker(over, ledger.source("depot-feed-1"), token, config, 1, 1).run(len(lines))
    return [row[2] for row in ledger.store.outbox(MAIN)], over


# The second record asks for an earlier day of a key that the commit on its way has changed.
EARLIER = """
    A1 r1 NEW day 1 -1
    A2 r1 NEW day 2 -1
    A3 r1 NEW day 3 -1
    A4 r1 NEW day 4 -1
    A5 r1 NEW day 5 -1
    A6 r1 NEW day 6 -1
    A7 r1 NEW day 7 -1
    A8 r1 NEW day 8 -1
    L r1 NEW day 8 -5
    M r1 NEW day 2 -7
    N r1 NEW day 1 -9
    L r2 CANCEL day 8
    A3 r2 AMEND day 6 4
    A3 r1 NEW day 3 9
"""


def test_what_a_commit_on_its_way_changes_is_not_read_before_it():
    lines = history(EARLIER)
    at_once = drained(lines)
    assert worked(lines, 8, lambda ledger: Slow(ledger.store))[0] == at_once
    assert len(at_once) == 9 + 1 + 7 + 8 + 1 + 6


def drained(lines, before=8):
    ledger = MemoryLedger()
    provision(ledger, parse_configuration(configuration(keys="ab")))
    append(ledger, "main", [Line("log", at, each.value) for at, each in enumerate(lines, 1)])
    drain_unit(ledger, MAIN, before, Options("first"))
    drain_unit(ledger, MAIN, len(lines), Options("second", slice_records=1, commit_records=1000))
    return [row[2] for row in ledger.store.outbox(MAIN)]


@pytest.mark.parametrize(("before", "asked"), [(0, False), (8, True)])
def test_only_a_worker_that_begins_the_unit_knows_that_nothing_was_decided_before(before, asked):
    _, store = worked(history(EARLIER), before, lambda ledger: Slow(ledger.store, 0))
    assert (store.asked > 0) == asked


def test_a_worker_at_the_first_offset_again_asks_what_others_decided_since():
    ledger = MemoryLedger()
    provision(ledger, parse_configuration(configuration()))
    lines = history("A r1 NEW day 1 -5\nA r1 NEW day 1 -6")
    source = ledger.source("depot-feed-1")
    store = Slow(ledger.store, 0)
    config = ledger.store.config("main")
    worker = Worker(store, source, ledger.store.claim(MAIN, Role.WORKER, holder="a"), config)
    assert worker.run(0) == 0
    append(ledger, "main", [Line("log", at, each.value) for at, each in enumerate(lines, 1)])
    drain_unit(ledger, MAIN, 1, Options("another"))
    later = Worker(store, source, ledger.store.claim(MAIN, Role.WORKER, holder="b"), config)
    assert later.run(2) == 2
    assert store.asked == 1
    assert [envelope.type for _, _, envelope in ledger.store.outbox(MAIN)][-1] == 6


@pytest.mark.parametrize("before", [0, 8])
@pytest.mark.parametrize("limit", ["CACHED_IDENTITIES", "CACHED_DAYS", "CACHED_KEYS"])
def test_a_worker_that_must_forget_decides_the_same(monkeypatch, limit, before):
    lines = history(EARLIER + "b/B r1 NEW day 1 1\nA5 r1 NEW day 5 -2\nb/B r2 CANCEL day 1")
    monkeypatch.setattr(ingest, limit, 0)
    assert worked(lines, before, lambda ledger: Slow(ledger.store))[0] == drained(lines, before)


@pytest.mark.parametrize("together", [1, 1_000])
@pytest.mark.parametrize("limit", ["CACHED_DAYS", "CACHED_KEYS", "CACHED_IDENTITIES"])
def test_a_key_that_is_needed_whole_is_not_forgotten_before_it_is_decided(
    monkeypatch, limit, together
):
    # The key is read from day 200 on, blocks and unblocks, and is needed whole for that.
    lines = history("""
        A r1 NEW day 1 -1
        B r1 NEW day 200 -1
        B r2 AMEND day 200 -2
        B r2 AMEND day 200 -3
        B r3 AMEND day 200 -4
    """)
    monkeypatch.setattr(ingest, limit, 0)
    monkeypatch.setattr(ingest, "BATCH_RECORDS", together)
    ledger = MemoryLedger()
    provision(ledger, parse_configuration(configuration(keys="ab")))
    append(ledger, "main", [Line("log", at, each.value) for at, each in enumerate(lines, 1)])
    for until in (2, 5):
        drain_unit(ledger, MAIN, until, Options("test", slice_records=3, commit_records=3))
    closes = [each.close for _, _, each in ledger.store.outbox(MAIN) if each.type == 3]
    assert closes == [99, 98, 95]
