"""What every test can ask for: a private PostgreSQL server, a fresh database, Hypothesis set up.

Tests never touch a server or a home of the user's: the two variables that name them are replaced
for the whole run, and for every process that a test starts. Each worker of pytest-xdist has a
server of its own.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
import uuid
from pathlib import Path

import hypothesis
import psycopg
import pytest
from psycopg import sql

from amends_pipeline.store.server import HOME_VARIABLE, URL_VARIABLE, connect_info

hypothesis.settings.register_profile("dev", deadline=None, print_blob=True)
hypothesis.settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))

# Rooms whose stated cases are held to the coverage in pyproject.toml.
MEASURED = {"bank", "contracts", "inventory", "kernel"}

# A power loss in the middle of a test has nothing to lose.
SETTINGS = {"fsync": "off", "full_page_writes": "off"}


def make_home():
    """Make a short folder for a private server that user nobody can reach: root's tests need it."""
    home = Path(tempfile.mkdtemp(prefix="amends-test-"))
    home.chmod(0o711)
    return home


def remove_home(home):
    """Delete a home; its keeper notices and ends the server, after which nothing writes there."""
    for _ in range(100):
        shutil.rmtree(home, ignore_errors=True)
        if not home.exists():
            return
        time.sleep(0.05)


def pytest_configure(config):
    home = make_home()
    os.environ.pop(URL_VARIABLE, None)
    os.environ[HOME_VARIABLE] = str(home)
    config.add_cleanup(lambda: remove_home(home))


def is_watched(item):
    """Tell whether coverage counts what a test reaches: it states a case of the rules."""
    room, *_ = item.path.relative_to(Path(__file__).parent).parts
    drawn = getattr(item.obj, "is_hypothesis_test", False)
    return room in MEASURED and "postgres" not in item.name and not drawn


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Run what coverage does not count unwatched, in half the time.

    pytest-cov's own marker for this does nothing in a worker's process: of the two watchers that it
    starts there, it stops one.
    """
    watcher = sys.gettrace()
    unwatched = item.config.getoption("cov_source", None) and not is_watched(item)
    if unwatched:
        sys.settrace(None)
    try:
        return (yield)
    finally:
        if unwatched:
            sys.settrace(watcher)


def pytest_terminal_summary(terminalreporter):
    """Show what tests reported: `record_property("report", text)`, also from a worker's process."""
    for ended in terminalreporter.stats.get("passed", ()):
        for name, text in ended.user_properties:
            if name == "report" and ended.when == "call":
                terminalreporter.section(ended.nodeid.rpartition("::")[2])
                terminalreporter.write_line(text)


@pytest.fixture(scope="session")
def postgres_server():
    """The private server of this test process, a `Server`, in the home that AMENDS_HOME names."""
    with connect_info(linger=0.0, settings=SETTINGS) as server:
        yield server


@pytest.fixture(scope="session")
def tables_url(postgres_server):
    """A database with our tables, which every test leaves empty: quicker than a fresh one each."""
    from amends_pipeline.assembly import open_ledger  # noqa: PLC0415 - the rules need no database

    lease, name = postgres_server.lease, f"tables_{uuid.uuid4().hex}"
    with psycopg.connect(lease.url("postgres"), autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    open_ledger(lease.url(name)).close()
    return lease.url(name)


@pytest.fixture
def database_url(postgres_server):
    """The psycopg URL of an empty database that no other test sees, dropped after the test."""
    lease, name = postgres_server.lease, f"test_{uuid.uuid4().hex}"
    create = "create database {} template template0 strategy file_copy"
    with psycopg.connect(lease.url("postgres"), autocommit=True) as connection:
        connection.execute(sql.SQL(create).format(sql.Identifier(name)))
        yield lease.url(name)
        connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))
