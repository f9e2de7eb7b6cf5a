from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread

import pytest

from amends_pipeline.inventory.view_batch import moves_of
from amends_pipeline.kernel.errors import Fenced, FrontierMoved, Held
from amends_pipeline.ports import Role, Unit
from amends_pipeline_tests.contracts.bench import STORY, provisioned
from amends_pipeline_tests.envelopes import batch, envelope
from amends_pipeline_tests.tables import configuration

ROW = envelope("a day 9 balance v1 5, by Z r1 at 0")


@pytest.fixture
def busy(bench):
    """A bench with something decided, something pending and something in the view."""
    bench.drain(STORY)
    bench.work("A r3 AMEND day 1 -1\n B r3 AMEND day 4 -7")
    bench.append("C r1 NEW day 1 -1")
    return bench


def commit(bench, token):
    bench.store.commit(token, bench.decide())


def commit_nothing(bench, token):
    bench.store.commit(token, [])


def acknowledge(bench, token):
    bench.store.acknowledge(token, bench.progress().acknowledged, 1)


def commit_view(bench, token):
    at = bench.progress().view_next
    bench.store.commit_view(token, at, at + 1, {ROW.output_id: ROW}, "a stop")


def advance_view(bench, token):
    at = bench.progress().view_next
    moves = moves_of(bench.config, 0, batch([ROW]))
    assert bench.store.advance_view(token, at, at + 1, moves)


def reset_view(bench, token):
    bench.store.reset_view(token)


WRITES = {
    "commit": (commit, Role.WORKER),
    "commit of nothing": (commit_nothing, Role.WORKER),
    "acknowledge": (acknowledge, Role.RELAY),
    "commit_view": (commit_view, Role.VIEW),
    "advance_view": (advance_view, Role.VIEW),
    "reset_view": (reset_view, Role.VIEW),
}
EACH_WRITE = pytest.mark.parametrize(("write", "role"), WRITES.values(), ids=WRITES)


def test_epochs_rise_with_every_claim(bench):
    assert [bench.claim(Role.RELAY).epoch for _ in range(3)] == [1, 2, 3]
    with bench.store.hold(bench.unit(), Role.RELAY, holder="x") as token:
        assert token.epoch == 4
    assert bench.claim(Role.RELAY).epoch == 5
    assert bench.progress().epochs == {Role.WORKER: 0, Role.RELAY: 5, Role.VIEW: 0}


def test_a_token_names_unit_role_and_configuration(bench):
    token = bench.claim(Role.VIEW)
    assert token == (bench.unit(), Role.VIEW, 1, bench.config.digest)


def test_units_and_roles_have_epochs_of_their_own(ledger):
    bench = provisioned(ledger, configuration(keys="abc", partitions=2))
    other = provisioned(ledger, configuration(keys="abc", partitions=2, namespace="other"))
    for role in Role:
        bench.claim(role, 1)
    bench.claim(Role.WORKER, 1)
    assert bench.progress(1).epochs == {Role.WORKER: 2, Role.RELAY: 1, Role.VIEW: 1}
    for idle in (bench.progress(0), other.progress(0), other.progress(1)):
        assert idle.epochs == dict.fromkeys(Role, 0)


@EACH_WRITE
def test_the_latest_token_is_good(busy, write, role):
    busy.claim(role)
    before = busy.observed()
    write(busy, busy.claim(role))
    assert write is commit_nothing or busy.observed() != before


@EACH_WRITE
def test_a_stale_token_is_refused_and_changes_nothing(busy, write, role):
    token = busy.claim(role)
    busy.claim(role)
    with busy.unchanged(), pytest.raises(Fenced):
        write(busy, token)


@EACH_WRITE
def test_a_token_is_stale_for_another_process_too(busy, write, role):
    token = busy.claim(role)
    later = busy.ledger.reopened().store.claim(busy.unit(), role, holder="later")
    assert later.epoch == token.epoch + 1
    with busy.unchanged(), pytest.raises(Fenced):
        write(type(busy)(busy.ledger.reopened(), busy.config), token)


@EACH_WRITE
@pytest.mark.parametrize("ahead", [1, 1_000])
def test_an_epoch_that_nobody_claimed_is_refused(busy, write, role, ahead):
    token = busy.claim(role)
    with busy.unchanged(), pytest.raises(Fenced):
        write(busy, token._replace(epoch=token.epoch + ahead))


@EACH_WRITE
def test_a_token_of_another_role_is_refused(busy, write, role):
    while len(set((epochs := busy.progress().epochs).values())) > 1:
        busy.claim(min(epochs, key=epochs.get))
    tokens = {each: busy.claim(each) for each in Role}
    for other in set(Role) - {role}:
        assert tokens[other].epoch == tokens[role].epoch
        with busy.unchanged(), pytest.raises(Fenced):
            write(busy, tokens[other])


@EACH_WRITE
def test_a_token_of_another_configuration_is_refused(busy, write, role):
    token = busy.claim(role)
    with busy.unchanged(), pytest.raises(Fenced):
        write(busy, token._replace(digest="0" * 64))


@EACH_WRITE
def test_a_claim_of_another_role_fences_nobody(busy, write, role):
    token = busy.claim(role)
    for other in set(Role) - {role}:
        busy.claim(other)
    write(busy, token)


# The lock


def test_a_holder_keeps_others_out_and_is_named(bench):
    with bench.store.hold(bench.unit(), Role.WORKER, holder="run 17 of anna"):
        with pytest.raises(Held, match="run 17 of anna"):
            hold_at_once(bench, Role.WORKER)
        assert bench.progress().epochs[Role.WORKER] == 1
    hold_at_once(bench, Role.WORKER)
    assert bench.progress().epochs[Role.WORKER] == 2


def hold_at_once(bench, role, partition=0):
    with bench.store.hold(bench.unit(partition), role, holder="other", wait_seconds=0):
        pass


def test_a_holder_keeps_another_process_out(bench):
    other = type(bench)(bench.ledger.reopened(), bench.config)
    with (
        bench.store.hold(bench.unit(), Role.VIEW, holder="anna"),
        pytest.raises(Held, match="anna"),
    ):
        hold_at_once(other, Role.VIEW)
    hold_at_once(other, Role.VIEW)


def test_other_roles_and_units_are_free(ledger):
    bench = provisioned(ledger, configuration(keys="abc", partitions=2))
    other = provisioned(ledger, configuration(keys="abc", partitions=2, namespace="other"))
    with bench.store.hold(bench.unit(0), Role.WORKER, holder="anna"):
        hold_at_once(bench, Role.RELAY)
        hold_at_once(bench, Role.VIEW)
        hold_at_once(bench, Role.WORKER, 1)
        hold_at_once(other, Role.WORKER)


def test_a_holder_can_write_and_can_be_fenced(busy):
    with busy.store.hold(busy.unit(), Role.WORKER, holder="anna") as token:
        commit(busy, token)
        busy.append("D r1 NEW day 1 -1")
        busy.claim(Role.WORKER)
        with busy.unchanged(), pytest.raises(Fenced):
            commit(busy, token)


def test_a_failure_inside_the_block_frees_the_lock(bench):
    with pytest.raises(KeyError), bench.store.hold(bench.unit(), Role.RELAY, holder="anna"):
        raise KeyError
    hold_at_once(bench, Role.RELAY)


def test_a_token_outlives_its_block_until_the_next_claim(busy):
    with busy.store.hold(busy.unit(), Role.WORKER, holder="anna") as token:
        pass
    commit(busy, token)


def test_whoever_waits_is_told_for_whom_and_comes_next(bench):
    told, tokens, waiting = [], [], Event()

    def wait():
        def say(holder):
            told.append(holder)
            waiting.set()

        with bench.store.hold(bench.unit(), Role.WORKER, holder="bert", waiting=say) as token:
            tokens.append(token)

    thread = Thread(target=wait)
    with bench.store.hold(bench.unit(), Role.WORKER, holder="anna") as first:
        thread.start()
        assert waiting.wait(30)
        assert tokens == []
    thread.join(30)
    assert not thread.is_alive()
    assert "anna" in told[0]
    assert tokens[0].epoch == first.epoch + 1


def test_waiting_ends_when_its_time_is_over(bench):
    told = []
    waiter = bench.store.hold(
        bench.unit(), Role.WORKER, holder="bert", wait_seconds=0.05, waiting=told.append
    )
    with (
        bench.store.hold(bench.unit(), Role.WORKER, holder="anna"),
        pytest.raises(Held, match="anna"),
        waiter,
    ):
        pass
    assert told
    assert "anna" in told[0]


def test_of_two_workers_with_one_view_of_the_head_only_one_commits(busy):
    busy.append("A r4 AMEND day 1 -7\n A r4 AMEND day 1 -9")
    first = busy.claim()
    seven = busy.decide()
    second = busy.claim()
    busy.store.commit(second, busy.decide())
    with busy.unchanged(), pytest.raises(Fenced):
        busy.store.commit(first, seven)


def test_of_commits_at_the_same_time_only_one_is_kept(busy):
    busy.append("A r4 AMEND day 1 -7")
    token, decisions = busy.claim(), busy.decide()

    def try_commit(_):
        try:
            busy.store.commit(token, decisions)
        except FrontierMoved:
            return "moved"
        return "kept"

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(try_commit, range(4)))
    assert sorted(results) == ["kept", "moved", "moved", "moved"]
    expected = busy.progress().next_sequence
    assert expected == decisions[-1].next_sequence
    assert len(list(busy.store.outbox(busy.unit()))) == expected


def test_claims_at_the_same_time_get_epochs_of_their_own(bench):
    with ThreadPoolExecutor(4) as pool:
        tokens = list(pool.map(lambda _: bench.claim(Role.VIEW), range(12)))
    assert sorted(token.epoch for token in tokens) == list(range(1, 13))


def test_holders_at_the_same_time_come_one_after_the_other(bench):
    inside, seen = [], []

    def work(name):
        with bench.store.hold(bench.unit(), Role.WORKER, holder=str(name)) as token:
            inside.append(name)
            seen.append((len(inside), token.epoch))
            inside.remove(name)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(12)))
    assert seen == [(1, epoch) for epoch in range(1, 13)]


def test_a_unit_reads_as_namespace_and_partition():
    assert str(Unit("main", 3)) == "main|p3"
