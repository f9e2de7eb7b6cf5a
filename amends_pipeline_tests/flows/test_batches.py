"""Batches of columns, made ready ahead and written behind, say what slice after slice says."""

from __future__ import annotations

import threading
from time import sleep

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.flows import ahead, ingest
from amends_pipeline.flows.ahead import Ahead, Wanted
from amends_pipeline.flows.ingest import Worker
from amends_pipeline.flows.provision import provision
from amends_pipeline.inventory import identities, weighing
from amends_pipeline.inventory.config import parse_configuration
from amends_pipeline.kernel.errors import DatabaseUnavailable, Fenced
from amends_pipeline.ports import Role, SourceRecord, Unit
from amends_pipeline_tests.contracts.ledgers import MemoryLedger
from amends_pipeline_tests.inventory.test_batch import busy
from amends_pipeline_tests.tables import configuration, history

MAIN = Unit("main", 0)
NEVER = 10**9


class Watched:
    """A store that takes its time, fails when told to, and counts what it is asked for."""

    def __init__(self, store, *, seconds=0.0, failing=None) -> None:
        self._store = store
        self._seconds = seconds
        self._failing = failing
        self.asked = []

    def __getattr__(self, name):
        return getattr(self._store, name)

    def commit(self, token, decisions):
        sleep(self._seconds)
        self._store.commit(token, decisions)

    def commit_begun(self, token, evidence, decided):
        sleep(self._seconds)
        self._store.commit_begun(token, evidence, decided)

    def in_force(self, unit, keys, txn_ids):
        self.asked.append(len(keys))
        if len(self.asked) == self._failing:
            raise DatabaseUnavailable("database", expected="an answer", found="none")
        return self._store.in_force(unit, keys, txn_ids)


def ledger_of(lines):
    ledger = MemoryLedger()
    provision(ledger, parse_configuration(configuration(keys="ab")))
    ledger.source("depot-feed-1").append([SourceRecord(0, None, line.value) for line in lines])
    return ledger


def worker(ledger, store, *, slice_records=1, commit_records=1):
    token = ledger.store.claim(MAIN, Role.WORKER, holder="test")
    source, config = ledger.source("depot-feed-1"), ledger.store.config("main")
    return Worker(store, source, token, config, slice_records, commit_records)


def outcome(ledger):
    """Everything that is stored of the unit."""
    store = ledger.store
    envelopes = [envelope for _, _, envelope in store.outbox(MAIN)]
    evidence = [store.evidence(MAIN, key) for key in (0, 1)]
    return envelopes, [(list(e.authorities), list(e.observations)) for e in evidence]


def one_by_one(lines, slice_records=1):
    ledger = ledger_of(lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingest, "BATCH_RECORDS", NEVER)
        worker(ledger, ledger.store, slice_records=slice_records).run(len(lines))
    return outcome(ledger)


@given(
    lines=busy(),
    before=st.integers(0, 40),
    sizes=st.tuples(st.integers(1, 4), st.integers(1, 9), st.integers(1, 4)),
    limits=st.tuples(st.sampled_from([1, 5]), st.sampled_from([1, 2, 32])),
    seconds=st.sampled_from([0, 0.0005]),
)
def test_whatever_the_sizes(lines, before, sizes, limits, seconds):
    together, rounds = limits
    slice_records, commit_records, read_records = sizes
    before = min(before, len(lines)) // slice_records * slice_records
    ledger = ledger_of(lines)
    cut = {"slice_records": slice_records, "commit_records": commit_records}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ahead, "READ_RECORDS", read_records)
        patch.setattr(ingest, "BATCH_RECORDS", together)
        # The fewer, the more batches go slice by slice after all.
        patch.setattr(weighing, "MOST_ROUNDS", rounds)
        # Two workers: only the first knows that nothing was decided before it.
        for until in (before, len(lines)):
            store = Watched(ledger.store, seconds=seconds)
            worker(ledger, store, **cut).run(until)
    assert outcome(ledger) == one_by_one(lines, slice_records)


LATER = history("""
    A r1 NEW day 1 -1
    B r1 NEW day 2 -1
    A r2 AMEND day 3 -2
    C r1 NEW day 3 -1
    A r3 CANCEL day 3
    B r1 NEW day 2 -1
    A r4 AMEND day 2 -7
    D r1 NEW day 9 -1
    A r4 AMEND day 2 -8
    B r2 AMEND day 4 -1
""")


@pytest.fixture
def together(monkeypatch):
    monkeypatch.setattr(ingest, "BATCH_RECORDS", 1)


def test_a_commit_holds_fewer_records_where_they_cause_much(together, monkeypatch):
    """The first two are a quarter; then as many records as cause about so many envelopes."""
    monkeypatch.setattr(ingest, "COMMIT_ENVELOPES", 24)
    days = [*range(20, 0, -1), *[30] * 40]
    lines = history("\n".join(f"T{at} r1 NEW day {day} 1" for at, day in enumerate(days)))
    ledger, told = ledger_of(lines), []
    working = worker(ledger, ledger.store, commit_records=16)
    working.on_commit = told.extend
    working.run(len(lines))
    assert outcome(ledger) == one_by_one(lines)
    assert [each.accepted for each in told[:2]] == [4, 4]
    # The key is READY, and the last four days restate 1 to 4 days, the four before them 5 to 8.
    assert [len(each.envelopes) for each in told[:2]] == [1 + 10, 26]
    # A batch is begun when the one before it is taken, so that it goes by what is known then.
    assert [each.accepted for each in told[2:4]] == [4 * 24 // 11, 4 * 24 // 26]
    assert told[-2].accepted == 16


def test_what_was_decided_since_the_store_was_asked_counts(together):
    ledger = ledger_of(LATER)
    worker(ledger, Watched(ledger.store, seconds=0.002)).run(len(LATER))
    assert outcome(ledger) == one_by_one(LATER)
    assert len(outcome(ledger)[0]) == 2 + 1 + 2 + 1 + 2 + 0 + 2 + 1 + 1 + 0


def test_a_worker_that_begins_the_unit_asks_only_for_what_came_before(together):
    ledger = ledger_of(LATER)
    first, second = Watched(ledger.store), Watched(ledger.store)
    worker(ledger, first).run(6)
    worker(ledger, second).run(len(LATER))
    assert first.asked == [0, 0, 1, 0, 1, 1]
    assert second.asked == [1, 1, 1, 1]


def test_transactions_of_equal_hashes_are_told_apart(together, monkeypatch):
    for module in (identities, ingest):
        monkeypatch.setattr(module, "hashes", lambda numbers, _: np.zeros(len(numbers), np.uint64))
    ledger = ledger_of(LATER)
    worker(ledger, ledger.store, commit_records=3).run(len(LATER))
    assert outcome(ledger) == one_by_one(LATER)


@pytest.mark.parametrize("failing", range(1, len(LATER) + 1))
def test_what_precedes_a_failure_stays_and_the_next_run_goes_on(together, failing):
    ledger = ledger_of(LATER)
    store = Watched(ledger.store, failing=failing)
    working = worker(ledger, store)
    with pytest.raises(DatabaseUnavailable):
        working.run(len(LATER))
    assert ledger.store.progress(MAIN).next_offset == failing - 1
    working.run(len(LATER))
    assert outcome(ledger) == one_by_one(LATER)


def test_an_owner_that_is_fenced_while_it_decides_commits_nothing(together):
    ledger = ledger_of(LATER)

    class Fencing(Watched):
        def commit_begun(self, token, evidence, decided):
            def fenced():
                decision = decided()
                if decision.start == 3:
                    self.claim(MAIN, Role.WORKER, holder="another")
                return decision

            self._store.commit_begun(token, evidence, fenced)

    with pytest.raises(Fenced):
        worker(ledger, Fencing(ledger.store)).run(len(LATER))
    assert ledger.store.progress(MAIN).next_offset == 3
    worker(ledger, ledger.store).run(len(LATER))
    assert outcome(ledger) == one_by_one(LATER)


def test_only_what_was_asked_for_is_taken_from_ahead():
    made = []

    def gather(wanted):
        made.append(wanted)
        return wanted

    one, two = Wanted(0, 9, 3), Wanted(3, 9, 3)
    with Ahead(gather) as batches:
        batches.ask(one)
        assert batches.take(one) == one
        batches.ask(one)
        assert batches.take(two) == two
        assert batches.take(two) == two
        batches.ask(two)
        assert batches.take(two._replace(limit=1)) == two
        batches.ask(one)
    assert made[-1] in {one, two}
    assert made[:2] in ([one, one], [one, two])


def test_how_a_batch_that_nobody_takes_ends_does_not_matter():
    def gather(wanted):
        raise DatabaseUnavailable("database", expected="an answer", found="none")

    with Ahead(gather) as batches:
        batches.ask(Wanted(0, 9, 3))
        batches.forget()
        batches.ask(Wanted(0, 9, 3))
        with pytest.raises(DatabaseUnavailable):
            batches.take(Wanted(0, 9, 3))
        batches.ask(Wanted(0, 9, 3))


def test_its_thread_ends_when_waiting_for_it_is_interrupted():
    begun = threading.Event()

    def gather(wanted):
        begun.set()
        raise KeyboardInterrupt

    batches = Ahead(gather)
    batches.ask(Wanted(0, 9, 3))
    assert begun.wait(10)
    with pytest.raises(KeyboardInterrupt), batches:
        pass
    assert not [each for each in threading.enumerate() if each.name.startswith("ahead")]
