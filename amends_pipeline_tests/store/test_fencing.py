from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from queue import Queue

import psycopg
import pytest

from amends_pipeline.flows.append import Line, append
from amends_pipeline.inventory.envelope_columns import together
from amends_pipeline.kernel.errors import (
    DatabaseUnavailable,
    Fenced,
    Held,
    OutcomeUnknown,
    UnknownNamespace,
)
from amends_pipeline.ports import Role
from amends_pipeline.sources import table
from amends_pipeline.store.configurations import configurations
from amends_pipeline.store.namespaces import Namespaces
from amends_pipeline_tests.contracts.bench import STORY, provisioned
from amends_pipeline_tests.store.writes import EACH_WRITE, LOCKERS, PROGRESS

WAITING = """
SELECT count(*) FROM pg_stat_activity
WHERE wait_event_type = 'Lock' AND backend_type = 'client backend' AND datname = current_database()
"""


@pytest.fixture
def other(tables):
    """The store as another process has it."""
    with tables.reopened() as ledger:
        yield ledger.store


@pytest.fixture
def pool():
    with ThreadPoolExecutor() as executor:
        yield executor


def await_waiting(ledger, count=1):
    """Return when so many sessions wait for a lock."""
    until = time.monotonic() + 20
    while ledger.sql(WAITING)[0][0] < count:
        assert time.monotonic() < until, "nobody waits"
        time.sleep(0.01)


@contextmanager
def session(ledger, statement, *parameters):
    """A transaction of another session, which has run a statement and commits at the end."""
    with psycopg.connect(ledger.url) as connection:
        connection.execute(statement, parameters)
        yield connection
        connection.commit()


def without_progress(dump, role):
    return {name: rows for name, rows in dump.items() if name != PROGRESS[role]}


# --- both lock orders


def test_the_old_owner_commits_first_and_then_the_replacement_goes_on(busy):
    old = busy.claim()
    decisions = busy.decide()
    busy.store.commit(old, decisions)
    new = busy.claim()
    busy.append("D r1 NEW day 2 -2")
    with busy.unchanged(), pytest.raises(Fenced, match=r"expected epoch \d+, found \d+ of"):
        busy.store.commit(old, busy.decide())
    busy.store.commit(new, busy.decide())
    assert busy.progress().next_offset == busy.source.extents()[0].end


@EACH_WRITE
def test_the_replacement_claims_first_and_the_old_owner_changes_nothing(busy, role, write):
    old = busy.claim(role)
    busy.claim(role)
    before = busy.ledger.dump()
    with pytest.raises(Fenced):
        write(busy, old)
    assert busy.ledger.dump() == before


def test_a_claim_waits_for_the_commit_that_has_the_row(busy, pool, tables):
    """The old owner has its row lock and is slow to write: its commit stands, the claim is next."""
    old = busy.claim()
    decisions = busy.decide()
    frontier = decisions[-1].until
    with session(tables, "SELECT FROM amends.key_page FOR UPDATE"):
        commit = pool.submit(busy.store.commit, old, decisions)
        await_waiting(tables, 1)
        claim = pool.submit(busy.claim)
        await_waiting(tables, 2)
        assert not commit.done()
        assert not claim.done()
    commit.result()
    assert claim.result().epoch == old.epoch + 1
    assert busy.progress().next_offset == frontier


@EACH_WRITE
def test_a_commit_that_waited_for_a_claim_is_fenced(busy, pool, tables, role, write):
    """The replacement has the row lock when the old owner comes: the old one changes nothing."""
    old = busy.claim(role)
    before = tables.dump()
    take = f"UPDATE amends.{PROGRESS[role]} SET epoch = epoch + 1, holder = 'new'"  # noqa: S608 - a table of a constant
    with session(tables, take):
        commit = pool.submit(write, busy, old)
        await_waiting(tables)
        assert not commit.done()
    with pytest.raises(Fenced, match='of "new"'):
        commit.result()
    assert without_progress(tables.dump(), role) == without_progress(before, role)


def test_of_two_who_commit_the_same_decision_one_does(busy, pool, tables):
    token = busy.claim()
    decisions = busy.decide()
    with session(tables, "LOCK TABLE amends.key_page IN EXCLUSIVE MODE"):
        commits = [pool.submit(busy.store.commit, token, decisions) for _ in range(2)]
        await_waiting(tables, 2)
    errors = [each.exception() for each in commits]
    assert sorted(type(error).__name__ for error in errors) == ["FrontierMoved", "NoneType"]
    (moved,) = filter(None, errors)
    assert (moved.expected, moved.found) == (str(decisions[0].start), str(decisions[0].until))


def test_who_appends_is_told_when_another_append_takes_long(known, tables, pool, monkeypatch):
    told, lines = Queue(), [Line("file", 1, b"{}")]

    def appended():
        return append(known.ledger, "main", lines, waiting=told.put)

    monkeypatch.setattr(table, "TOLD_AFTER_SECONDS", 0.05)
    with session(tables, "SELECT FROM amends.source_partition FOR UPDATE"):
        waits = pool.submit(appended)
        assert told.get(timeout=20) == "depot-feed-1"
    assert waits.result().ends == [11], "behind the ten records of the story"
    assert told.empty()
    monkeypatch.setattr(table, "TOLD_AFTER_SECONDS", 3600)
    assert appended().ends == [12]
    assert told.empty()


# --- a namespace that is not what it was

BEGINNINGS = {
    "progress": lambda bench: bench.progress(),
    "info": lambda bench: bench.store.info("main"),
    "config": lambda bench: bench.store.config("main"),
    "claim": lambda bench: bench.claim(),
    "hold": lambda bench: bench.store.hold(bench.unit(), Role.VIEW, holder="x").__enter__(),
    "snapshot": lambda bench: bench.store.snapshot("main").__enter__(),
}


@pytest.fixture
def known(tables):
    """A namespace that this process has worked on."""
    bench = provisioned(tables, follows=False)
    bench.work(STORY)
    return bench


@pytest.mark.parametrize("begin", BEGINNINGS.values(), ids=BEGINNINGS)
def test_a_namespace_that_another_process_removed_is_unknown(known, tables, begin):
    with tables.reopened() as other:
        other.operations.remove("main")
    with pytest.raises(UnknownNamespace):
        begin(known)


@pytest.mark.parametrize("back", [True, False])
def test_an_owner_whose_namespace_was_removed_is_fenced(known, tables, back):
    token = known.claim()
    with tables.reopened() as other:
        other.operations.remove("main")
        if back:
            provisioned(other, follows=False)
    before = tables.dump()
    with pytest.raises(Fenced if back else UnknownNamespace):
        known.store.commit(token, [])
    assert tables.dump() == before


# Each of them relies on what this process remembers of the namespace.
STEPS = {
    "set aside": lambda bench: bench.store.set_aside(bench.unit(), 99, "wrong"),
    "outbox": lambda bench: list(bench.store.outbox(bench.unit())),
    "append": lambda bench: bench.ledger.outputs.append(bench.unit(), together([])),
    "end": lambda bench: bench.ledger.outputs.end(bench.unit()),
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("back", [True, False])
def test_a_step_on_what_another_process_removed_says_so(known, tables, step, back):
    with tables.reopened() as other:
        other.operations.remove("main")
        if back:
            provisioned(other, follows=False)
    before = tables.dump()
    with pytest.raises(Fenced if back else UnknownNamespace) as raised:
        step(known)
    assert raised.value.found == ("another one of that name" if back else 'none of the name "main"')
    assert tables.dump() == before


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_a_step_on_a_unit_whose_rows_are_missing_says_so(known, tables, step):
    tables.sql("DELETE FROM amends.worker_progress")
    tables.sql("DELETE FROM amends.relay_progress")
    tables.sql("DELETE FROM amends.output_end")
    with pytest.raises(DatabaseUnavailable, match="expected its row, found none"):
        step(known)


@pytest.mark.parametrize("begin", ["snapshot", "config"])
def test_a_namespace_that_is_removed_as_it_is_looked_at_is_unknown(
    known, tables, monkeypatch, begin
):
    fresh, removed = Namespaces.fresh, []

    def found_and_removed(self, name):
        home = fresh(self, name)
        if not removed:
            removed.append(name)
            with tables.reopened() as other:
                other.operations.remove(name)
        return home

    monkeypatch.setattr(configurations, "get", lambda _: None)
    monkeypatch.setattr(Namespaces, "fresh", found_and_removed)
    with pytest.raises(UnknownNamespace):
        BEGINNINGS[begin](known)


@pytest.mark.parametrize("begin", list(BEGINNINGS.values())[:4], ids=list(BEGINNINGS)[:4])
def test_a_namespace_that_was_made_anew_is_worked_on_from_its_beginning(known, tables, begin):
    with tables.reopened() as other:
        other.operations.remove("main")
        provisioned(other, follows=False)
    begin(known)
    assert known.progress().next_offset == 0
    known.drain()
    assert known.progress().view_next > 0


# --- the lock


def test_who_waits_is_told_who_holds_the_lock(busy, other):
    told = []
    with busy.store.hold(busy.unit(), Role.WORKER, holder="run 7"):
        with pytest.raises(Held, match='held by "run 7"'):
            other.hold(
                busy.unit(), Role.WORKER, holder="run 8", wait_seconds=0.05, waiting=told.append
            ).__enter__()
        epoch = busy.progress().epochs[Role.WORKER]
    assert told == ["run 7"]
    with other.hold(busy.unit(), Role.WORKER, holder="run 8", wait_seconds=0) as token:
        assert token.epoch == epoch + 1, "who did not get the lock takes no epoch"


def test_a_waiting_owner_gets_the_lock_as_soon_as_it_is_free(busy, other, pool, tables):
    def work():
        with other.hold(busy.unit(), Role.WORKER, holder="second") as token:
            return token.epoch

    with busy.store.hold(busy.unit(), Role.WORKER, holder="first") as token:
        second = pool.submit(work)
        await_waiting(tables)
    assert second.result(timeout=20) == token.epoch + 1


def test_locks_of_units_and_roles_are_apart(busy):
    with (
        busy.store.hold(busy.unit(), Role.WORKER, holder="w", wait_seconds=0),
        busy.store.hold(busy.unit(), Role.RELAY, holder="r", wait_seconds=0),
        busy.store.hold(busy.unit(), Role.VIEW, holder="v", wait_seconds=0),
    ):
        assert len(busy.ledger.sql(LOCKERS)) == 3
    assert busy.ledger.sql(LOCKERS) == []


def test_the_lock_is_free_when_the_block_fails(busy):
    with (
        pytest.raises(ZeroDivisionError),
        busy.store.hold(busy.unit(), Role.WORKER, holder="x"),
    ):
        raise ZeroDivisionError
    assert busy.ledger.sql(LOCKERS) == []


def test_commits_under_a_lock_run_on_the_session_that_holds_it(busy, other, tables):
    with busy.store.hold(busy.unit(), Role.WORKER, holder="x") as token:
        ((pid,),) = tables.sql(LOCKERS)
        before = tables.dump()
        decisions = busy.decide()
        tables.sql("SELECT pg_terminate_backend(%s)", pid)
        with pytest.raises(OutcomeUnknown):
            busy.store.commit(token, decisions)
        with pytest.raises(DatabaseUnavailable, match="the lock with it"):
            busy.store.commit(token, busy.decide())
        assert tables.dump() == before
        with other.hold(busy.unit(), Role.WORKER, holder="y", wait_seconds=5):
            assert len(tables.sql(LOCKERS)) == 1
    assert busy.progress().next_offset == busy.source.extents()[0].end - 1


def test_an_owner_whose_session_is_lost_may_look_on_a_new_one(busy, tables):
    asked = [(0, "A"), (1, "B")]
    seen = busy.store.authorities(busy.unit(), asked)
    with busy.store.hold(busy.unit(), Role.WORKER, holder="x") as token:
        assert busy.store.authorities(busy.unit(), asked) == seen
        tables.sql("SELECT pg_terminate_backend(%s)", tables.sql(LOCKERS)[0][0])
        assert busy.progress().epochs[Role.WORKER] == token.epoch
        assert busy.store.authorities(busy.unit(), asked) == seen
    assert tables.sql(LOCKERS) == []
