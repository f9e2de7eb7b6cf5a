from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest

from amends_pipeline.kernel.errors import (
    DatabaseUnavailable,
    Fenced,
    FrontierMoved,
    Held,
    OutcomeUnknown,
)
from amends_pipeline.ports import Role, SourceRecord
from amends_pipeline_tests.contracts.bench import STORY, Bench
from amends_pipeline_tests.envelopes import envelope
from amends_pipeline_tests.store.postgres_ledger import TestedLedger
from amends_pipeline_tests.store.proxy import proxied

ROW = envelope("a day 9 balance v1 5, by Z r1 at 0")
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
LOCKERS = """
SELECT a.pid FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND a.datname = current_database()
"""


@pytest.fixture
def busy(bench):
    """Something decided, something pending, something in the view, something to decide."""
    bench.drain(STORY)
    bench.work("A r3 AMEND day 1 -1\n B r3 AMEND day 4 -7")
    bench.append("C r1 NEW day 1 -1")
    return bench


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


# --- what each role writes

WRITES = {
    "commit": (Role.WORKER, lambda bench, token: bench.store.commit(token, bench.decide())),
    "acknowledge": (
        Role.RELAY,
        lambda bench, token: bench.store.acknowledge(token, bench.progress().acknowledged, 1),
    ),
    "commit_view": (
        Role.VIEW,
        lambda bench, token: bench.store.commit_view(
            token, bench.progress().view_next, 99, {ROW.output_id: ROW}, "a stop"
        ),
    ),
    "reset_view": (Role.VIEW, lambda bench, token: bench.store.reset_view(token)),
}
EACH_WRITE = pytest.mark.parametrize(("role", "write"), WRITES.values(), ids=WRITES)
PROGRESS = {
    Role.WORKER: "worker_progress",
    Role.RELAY: "relay_progress",
    Role.VIEW: "view_progress",
}


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
    with session(tables, "LOCK TABLE amends.key_head IN EXCLUSIVE MODE"):
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
    take = f"UPDATE amends.{PROGRESS[role]} SET epoch = epoch + 1, holder = 'new'"  # noqa: S608
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
    with session(tables, "LOCK TABLE amends.key_head IN EXCLUSIVE MODE"):
        commits = [pool.submit(busy.store.commit, token, decisions) for _ in range(2)]
        await_waiting(tables, 2)
    errors = [each.exception() for each in commits]
    assert sorted(type(error).__name__ for error in errors) == ["FrontierMoved", "NoneType"]
    (moved,) = filter(None, errors)
    assert (moved.expected, moved.found) == (str(decisions[0].start), str(decisions[0].until))


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
        tables.sql("SELECT pg_terminate_backend(%s)", pid)
        with pytest.raises(DatabaseUnavailable):
            busy.store.commit(token, busy.decide())
        with pytest.raises(DatabaseUnavailable, match="the lock with it"):
            busy.store.commit(token, busy.decide())
        assert tables.dump() == before
        with other.hold(busy.unit(), Role.WORKER, holder="y", wait_seconds=5):
            assert len(tables.sql(LOCKERS)) == 1
    assert busy.progress().next_offset == busy.source.extents()[0].end - 1


def test_an_owner_whose_session_is_lost_may_look_on_a_new_one(busy, tables):
    with busy.store.hold(busy.unit(), Role.WORKER, holder="x") as token:
        tables.sql("SELECT pg_terminate_backend(%s)", tables.sql(LOCKERS)[0][0])
        assert busy.progress().epochs[Role.WORKER] == token.epoch
    assert tables.sql(LOCKERS) == []


# --- a reply that never comes


def held(role, write):
    def under_a_lock(bench):
        with bench.store.hold(bench.unit(), role, holder="x") as token:
            write(bench, token)

    return under_a_lock


def claimed(role, write):
    return lambda bench: write(bench, bench.claim(role))


COMMITS = {
    **{f"{name}, held": held(role, write) for name, (role, write) in WRITES.items()},
    **{f"{name}, claimed": claimed(role, write) for name, (role, write) in WRITES.items()},
    "append": lambda bench: bench.source.append([SourceRecord(0, None, b"{}")]),
    "output append": lambda bench: bench.ledger.outputs.append(
        bench.unit(), bench.store.pending(bench.unit(), 1)[0].envelopes
    ),
    "set_aside": lambda bench: bench.store.set_aside(bench.unit(), 1_000, "no reason"),
    "create": lambda bench: bench.ledger.source("another").create(2),
}
ASKED, EARNED = b"COMMIT\x00", b"COMMIT\x00"


@pytest.fixture
def way(busy, tables):
    """A proxy, and the same bench reached through it."""
    proxy, url = proxied(tables.url)
    with proxy, TestedLedger(url) as ledger:
        ledger.store.info(busy.config.namespace)
        yield proxy, Bench(ledger, busy.config)


@pytest.mark.parametrize("act", COMMITS.values(), ids=COMMITS)
def test_a_commit_that_was_not_heard_of_is_unknown_and_nothing_is_installed(way, tables, act):
    proxy, bench = way
    proxy.lose_before(ASKED)
    before = tables.dump()
    with pytest.raises(OutcomeUnknown, match="expected a reply to a commit"):
        act(bench)
    assert proxy.cuts == 1
    after = tables.dump()
    for name in PROGRESS.values():  # a claim came before what was lost
        del before[name], after[name]
    assert after == before


@pytest.mark.parametrize("act", COMMITS.values(), ids=COMMITS)
def test_a_commit_whose_reply_was_lost_is_unknown_and_everything_is_installed(way, tables, act):
    proxy, bench = way
    proxy.lose_after(EARNED)
    before = tables.dump()
    with pytest.raises(OutcomeUnknown, match="expected a reply to a commit"):
        act(bench)
    assert proxy.cuts == 1
    assert tables.dump() != before
    assert tables.sql(LOCKERS) == []


@pytest.mark.parametrize("lost", ["before", "after"])
def test_rereading_tells_whether_a_commit_was_installed(way, busy, lost):
    proxy, bench = way
    decisions = bench.decide()
    token = bench.claim()
    if lost == "before":
        proxy.lose_before(ASKED)
    else:
        proxy.lose_after(EARNED)
    with pytest.raises(OutcomeUnknown):
        bench.store.commit(token, decisions)
    if lost == "before":
        assert bench.progress().next_offset == decisions[0].start
        bench.store.commit(token, decisions)
    else:
        with pytest.raises(FrontierMoved):
            bench.store.commit(token, decisions)
    assert busy.progress().next_offset == decisions[-1].until
    assert [sequence for sequence, _, _ in busy.store.outbox(busy.unit())] == list(
        range(decisions[-1].next_sequence)
    )


@pytest.mark.parametrize("lost", ["before", "after"])
def test_a_claim_whose_reply_is_lost_is_unknown(way, busy, lost):
    proxy, bench = way
    epoch = busy.claim().epoch
    if lost == "before":
        proxy.lose_before(b"SET epoch = epoch + 1")
    else:
        proxy.lose_after(b"UPDATE 1\x00")
    with pytest.raises(OutcomeUnknown):
        bench.claim()
    assert busy.progress().epochs[Role.WORKER] == epoch + (lost == "after")


READINGS = {
    "progress": lambda bench: bench.progress(),
    "keys": lambda bench: bench.store.keys(bench.unit(), {0: 0}),
    "outbox": lambda bench: list(bench.store.outbox(bench.unit())),
    "extents": lambda bench: bench.source.extents(),
}


@pytest.mark.parametrize("act", READINGS.values(), ids=READINGS)
def test_a_reading_that_gets_no_reply_says_that_the_database_is_not_there(way, act):
    proxy, bench = way
    proxy.lose_before(b"amends.")
    with pytest.raises(DatabaseUnavailable):
        act(bench)
    act(bench)
