"""The two locks of a stack: who holds them lives, whoever else comes is told, none outlives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack

import psycopg
import pytest

from amends_pipeline.kernel.errors import DatabaseUnavailable, Held
from amends_pipeline.store import stack_locks
from amends_pipeline.store.server import Server
from amends_pipeline.store.stack_locks import StackLocks

HOLDER = "amends up, port 3000, process 7 on desk"
HOLD = """
import sys, time
from amends_pipeline.store.server import Server
from amends_pipeline.store.stack_locks import StackLocks
with StackLocks(Server(sys.argv[1], "", "the database"), "a", "another process"):
    print(flush=True)
    time.sleep(600)
"""
SESSIONS = "SELECT pid FROM pg_stat_activity WHERE application_name = %s"
END_SESSIONS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"


@pytest.fixture
def server(database_url):
    return Server(database_url, "", "the database")


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(stack_locks, "LEAVING_SECONDS", 0.2)


def comes_true(condition, seconds=30.0):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.02)
    return False


def sessions(server):
    with psycopg.connect(server.ledger_url, autocommit=True) as connection:
        return tuple(connection.execute(SESSIONS, (HOLDER,)).fetchall())


def end_sessions(server):
    with psycopg.connect(server.ledger_url, autocommit=True) as connection:
        connection.execute(END_SESSIONS, (HOLDER,))


def test_a_stack_lives_as_long_as_it_holds_its_locks(server):
    with StackLocks(server, "a", HOLDER) as locks:
        assert locks.lives("a")
        assert not locks.lives("b")
    assert not locks.lives("a")


def test_asking_takes_nothing_away(server):
    asking = StackLocks(server, "b", HOLDER)
    assert not asking.lives("a")
    with StackLocks(server, "a", HOLDER):
        assert asking.lives("a")


def test_a_second_stack_is_told_who_is_there(server):
    with StackLocks(server, "a", HOLDER):
        with pytest.raises(Held) as refused, StackLocks(server, "b", "somebody else"):
            pass
        assert refused.value.where == "the database"
        assert refused.value.expected == "no other stack on it"
        assert refused.value.found.startswith(f'"{HOLDER}", since 20')
        assert refused.value.found.endswith(" UTC")
    with StackLocks(server, "b", "somebody else"):
        pass


def test_another_database_of_the_server_may_have_another_stack(server, postgres_server):
    with (
        StackLocks(server, "a", HOLDER),
        StackLocks(postgres_server, "b", HOLDER) as other,
    ):
        assert other.lives("b")
        assert not other.lives("a")


def test_the_locks_of_a_killed_process_are_free(server):
    command = [sys.executable, "-c", HOLD, server.ledger_url]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process, ExitStack() as ending:
        ending.callback(process.kill)
        process.stdout.readline()
        locks = StackLocks(server, "b", HOLDER)
        assert locks.lives("a")
        os.kill(process.pid, signal.SIGKILL)
    assert comes_true(lambda: not locks.lives("a"))
    with locks:
        pass


def test_locks_that_went_with_the_server_are_taken_again(server, monkeypatch):
    monkeypatch.setattr(stack_locks, "BEAT_SECONDS", 0.05)
    with StackLocks(server, "a", HOLDER) as locks:
        first = sessions(server)
        end_sessions(server)
        assert comes_true(lambda: sessions(server) not in {(), first} and locks.lives("a"))
        with pytest.raises(Held), StackLocks(server, "b", "somebody else"):
            pass
        assert locks.lost is None


def test_locks_that_another_stack_took_meanwhile_are_lost(server, monkeypatch):
    monkeypatch.setattr(stack_locks, "BEAT_SECONDS", 0.3)
    monkeypatch.setattr(stack_locks, "RETAKE_SECONDS", 0.2)
    with StackLocks(server, "a", HOLDER) as locks, ExitStack() as other:

        def overtaken():
            end_sessions(server)
            try:  # before the next beat, as a rule
                other.enter_context(StackLocks(server, "b", "somebody else"))
            except Held:
                return False
            return True

        assert comes_true(overtaken)
        assert comes_true(lambda: locks.lost is not None)
        assert '"somebody else"' in str(locks.lost)
        assert not locks.lives("a")


def test_a_server_that_is_gone_is_an_error_of_ours():
    gone = Server("postgresql://me:hunter2@127.0.0.1:1/mine", "", "mine", secrets=("hunter2",))
    locks = StackLocks(gone, "a", HOLDER)
    with pytest.raises(DatabaseUnavailable) as refused, locks:
        pass
    assert "hunter2" not in str(refused.value)
    with pytest.raises(DatabaseUnavailable):
        locks.lives("a")
