"""Whatever is killed: the server comes back or goes, and what was committed is there."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import time
from contextlib import ExitStack

import psycopg
import pytest

from amends_pipeline.store import embedded, keeper
from amends_pipeline.store.embedded import Lease
from amends_pipeline_tests.conftest import SETTINGS
from amends_pipeline_tests.store.embedded.programs import (
    WRITE,
    answers,
    ask,
    comes_true,
    is_gone,
    keeper_of,
    kill,
    postmaster_of,
    processes_of,
    start,
    tell,
)

CHAOS_ROUNDS = int(os.environ.get("AMENDS_CHAOS_ROUNDS", "2"))  # each kills everything once


@pytest.fixture
def started():
    """Takes note of processes; whatever becomes of the test, none of them is left."""
    with ExitStack() as noted:

        def note(process):
            noted.enter_context(process)
            noted.callback(process.kill)
            return process

        yield note


def test_a_killed_keeper_takes_the_server_along_and_ensure_brings_both_back(lease):
    first = keeper_of(lease.home)
    kill(first)
    assert comes_true(lambda: not processes_of(lease.home))
    lease.ensure()
    assert keeper_of(lease.home) != first
    assert ask(lease, "select number from kept") == 7


def test_a_watched_lease_brings_a_killed_server_back_by_itself(lease, monkeypatch):
    monkeypatch.setattr(embedded, "WATCH_SECONDS", 0.1)
    lease.watch()
    first = postmaster_of(lease.home)
    kill(keeper_of(lease.home), first)
    assert comes_true(lambda: postmaster_of(lease.home) not in {None, first} and answers(lease))


def test_the_keeper_starts_a_killed_postmaster_again(lease):
    first, number = keeper_of(lease.home), postmaster_of(lease.home)
    kill(number)
    assert comes_true(lambda: postmaster_of(lease.home) not in {None, number} and answers(lease))
    assert keeper_of(lease.home) == first


def test_a_backend_that_outlives_everything_is_no_obstacle(lease):
    with psycopg.connect(lease.url("postgres")) as connection:
        stuck = connection.info.backend_pid
        os.kill(stuck, signal.SIGSTOP)  # it holds the shared memory, and answers to SIGKILL alone
        kill(keeper_of(lease.home), postmaster_of(lease.home))
        lease.ensure()
        assert stuck not in processes_of(lease.home)
        assert ask(lease, "select number from kept") == 7


@pytest.mark.parametrize("whose", ["a stranger", "a zombie", "nobody", "no number"])
def test_what_a_power_loss_leaves_is_no_obstacle(lived_in, started, whose):
    with Lease(lived_in, 0.0, SETTINGS) as lease:
        socket = lease.folder / "socket"
        kill(keeper_of(lived_in), *processes_of(lived_in))
    assert comes_true(lambda: not processes_of(lived_in))
    other = started(subprocess.Popen(["sleep", "60"]))
    if whose in {"a zombie", "nobody"}:
        other.kill()
    if whose == "nobody":
        other.wait()
    number = "what?" if whose == "no number" else str(other.pid)
    for path in (lease.folder / "data" / "postmaster.pid", socket / ".s.PGSQL.5432.lock"):
        _, *lines = path.read_text().split("\n") if path.exists() else ["", ""]
        path.write_text("\n".join([number, *lines]))
    with Lease(lived_in, 0.0, SETTINGS) as lease:
        assert ask(lease, "select number from kept") == 7
    assert other.poll() is None or whose in {"a zombie", "nobody"}, "a stranger is left alone"
    assert is_gone(lived_in)


def test_a_broken_off_initdb_leaves_nothing_that_matters(home):
    (home / "postgres" / "data.new.77").mkdir(parents=True)
    (home / "postgres" / "data.new.77" / "PG_VERSION").write_text("7")
    (home / "postgres").chmod(0o711)
    with Lease(home, 0.0, SETTINGS) as lease:
        assert ask(lease, "select 1") == 1
    assert not (home / "postgres" / "data.new.77").exists()


def test_a_taken_away_socket_comes_back(lease):
    path = lease.folder / "socket" / f".s.PGSQL.{keeper.PORT}"
    time.sleep(2 * keeper.BEAT_SECONDS)  # the keeper has seen it
    path.unlink()
    assert comes_true(lambda: answers(lease))


def test_the_keeper_stops_the_server_in_good_order_on_sigterm(lease):
    os.kill(keeper_of(lease.home), signal.SIGTERM)
    assert is_gone(lease.home)
    assert "database system is shut down" in (lease.folder / "server.log").read_text()[-400:]


def test_nothing_acknowledged_is_lost_whatever_is_killed(lived_in, started, tmp_path):
    chance = random.Random(20261130)  # noqa: S311 - drawn kills, not secrets
    kills = chance.sample(
        ["writer", "keeper", "postmaster", "all"] * CHAOS_ROUNDS, CHAOS_ROUNDS * 4
    )
    told, writers, names = tmp_path / "told", [], itertools.count()
    told.touch()
    with Lease(lived_in, 0.0) as lease:
        tell(lease, "create table written (name text, number int, primary key (name, number))")
        for what in kills:
            while len(writers) < 2:
                writers.append(started(start(WRITE, lived_in, next(names), told)))
            size = told.stat().st_size
            assert comes_true(lambda size=size: told.stat().st_size > size + 100), (
                "no writer writes"
            )
            time.sleep(chance.uniform(0.0, 0.2))
            assert {writer.poll() for writer in writers} == {None}, "a writer gave up"
            victims = {"all": writers, "writer": writers[:1]}.get(what, [])
            roles = [keeper_of] if what in {"keeper", "all"} else []
            roles += [postmaster_of] if what in {"postmaster", "all"} else []
            for role in roles:
                # What was killed the round before may be on its way out still.
                assert comes_true(lambda role=role: kill(role(lived_in)))
            assert kill(*(writer.pid for writer in victims))
            for writer in tuple(victims):
                writer.communicate()
                writers.remove(writer)
        for writer in writers:
            writer.kill()
            writer.communicate()
        lease.ensure()
        with psycopg.connect(lease.url("postgres")) as connection:
            rows = connection.execute("select name || ' ' || number from written").fetchall()
            connection.execute("drop table written")
    acknowledged = told.read_text().split("\n")[:-1]
    assert set(acknowledged) <= {row for (row,) in rows}
    assert len(acknowledged) == len(set(acknowledged)) > 0
    assert is_gone(lived_in)
