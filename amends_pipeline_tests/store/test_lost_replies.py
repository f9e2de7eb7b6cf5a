"""A reply that never comes: what was asked for may or may not have happened."""

from __future__ import annotations

import pytest

from amends_pipeline.kernel.errors import DatabaseUnavailable, FrontierMoved, OutcomeUnknown
from amends_pipeline.ports import Role, SourceRecord
from amends_pipeline_tests.contracts.bench import Bench
from amends_pipeline_tests.store.postgres_ledger import TestedLedger
from amends_pipeline_tests.store.proxy import proxied
from amends_pipeline_tests.store.writes import LOCKERS, PROGRESS, WRITES


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
COMMIT = b"COMMIT\x00"
GUARDED = b"WITH guarding AS"
"""A small commit is one statement, and no COMMIT is sent."""


def lose_before(proxy, name="commit"):
    proxy.lose_before(GUARDED if name.startswith("commit") and "view" not in name else COMMIT)


def lose_after(proxy, name="commit"):
    if name.startswith("commit") and "view" not in name:
        proxy.lose_after(b"SELECT 1\x00", behind=GUARDED)
    else:
        proxy.lose_after(COMMIT)


@pytest.fixture
def way(busy, tables):
    """A proxy, and the same bench reached through it."""
    proxy, url = proxied(tables.url)
    with proxy, TestedLedger(url) as ledger:
        ledger.store.info(busy.config.namespace)
        yield proxy, Bench(ledger, busy.config)


@pytest.mark.parametrize(("name", "act"), COMMITS.items(), ids=COMMITS)
def test_a_commit_that_was_not_heard_of_is_unknown_and_nothing_is_installed(way, tables, name, act):
    proxy, bench = way
    lose_before(proxy, name)
    before = tables.dump()
    with pytest.raises(OutcomeUnknown, match="expected a reply to a commit"):
        act(bench)
    assert proxy.cuts == 1
    after = tables.dump()
    for table in PROGRESS.values():  # a claim came before what was lost
        del before[table], after[table]
    assert after == before


@pytest.mark.parametrize(("name", "act"), COMMITS.items(), ids=COMMITS)
def test_a_commit_whose_reply_was_lost_is_unknown_and_everything_is_installed(
    way, tables, name, act
):
    proxy, bench = way
    lose_after(proxy, name)
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
        lose_before(proxy)
    else:
        lose_after(proxy)
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
