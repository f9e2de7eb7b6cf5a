from __future__ import annotations

import os
import traceback
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import conninfo

from amends_pipeline.assembly import open_ledger
from amends_pipeline.kernel.errors import (
    AmendsError,
    DatabaseUnavailable,
    InputError,
    UnknownNamespace,
)
from amends_pipeline.ports import Role, Unit
from amends_pipeline.store.postgres import KEPT_CONNECTIONS, Database
from amends_pipeline_tests.contracts.bench import STORY, provisioned
from amends_pipeline_tests.tables import configuration

PASSWORD = "s3cret&word"
OURS = """
SELECT pid FROM pg_stat_activity WHERE application_name = 'amends' AND datname = current_database()
"""


@pytest.fixture
def database(tables_url):
    database = Database(tables_url)
    yield database
    database.close()


def pid(connection):
    return connection.execute("SELECT pg_backend_pid()").fetchone()[0]


def read_pid(database):
    with database.read() as connection:
        return pid(connection)


# --- errors in our words


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://user:{PASSWORD}@[half",
        f"postgresql://user:{PASSWORD}%zz@host/db",
        f"host=h password='{PASSWORD}",
        f"postgresql://h/db?passwort={PASSWORD}",
    ],
)
def test_a_url_that_cannot_be_read_is_not_shown(url):
    with pytest.raises(InputError, match="database URL: expected one that libpq") as caught:
        open_ledger(url)
    assert PASSWORD not in "".join(traceback.format_exception(caught.value))


REFUSING = {
    "no such folder": {"host": "/nowhere"},
    "no such port": {"host": "localhost", "port": "1"},
    "no such host": {"host": "name.invalid"},
    "no such database": {"dbname": PASSWORD},
    "no such user": {"user": PASSWORD},
    "no such setting": {"options": f"-c geqo={PASSWORD}"},
}


@pytest.mark.parametrize("parts", REFUSING.values(), ids=REFUSING)
def test_a_server_that_does_not_serve_is_told_without_the_password(tables_url, parts):
    whole = {"password": PASSWORD, "connect_timeout": 2}
    url = conninfo.make_conninfo(tables_url, **(whole | parts))
    with pytest.raises(DatabaseUnavailable, match="expected a PostgreSQL server") as caught:
        open_ledger(url)
    assert PASSWORD not in str(caught.value).replace(f"database {PASSWORD}", "")
    assert repr(PASSWORD) not in repr(Database(url))


def test_an_error_of_the_server_tells_its_number(database):
    with (
        pytest.raises(DatabaseUnavailable, match=r"does not exist \(SQLSTATE 42883\)"),
        database.read() as connection,
    ):
        connection.execute("SELECT no_such_function()")


def test_no_driver_error_stands_behind_ours(database):
    with pytest.raises(AmendsError) as caught, database.read() as connection:
        connection.execute("SELECT 1 FROM nowhere")
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("name", ["none", "\x00", "\ud800", "é", "", "a" * 5_000, "'; drop"])
def test_a_namespace_of_any_name_is_unknown(tables, name):
    for ask in (
        tables.store.info,
        tables.store.config,
        lambda it: tables.store.progress(Unit(it, 0)),
    ):
        with pytest.raises(UnknownNamespace):
            ask(name)


@pytest.mark.parametrize("reason", ["\x00", "a\x00b", "\ud800"])
def test_a_reason_that_cannot_be_stored_is_an_input_error(bench, tables, reason):
    before = tables.dump()
    with pytest.raises(InputError, match="values that PostgreSQL can store"):
        bench.store.set_aside(bench.unit(), 5, reason)
    assert tables.dump() == before


def test_a_number_that_cannot_be_stored_is_an_input_error(bench):
    with pytest.raises(InputError, match="values that PostgreSQL can store"):
        bench.store.set_aside(bench.unit(), 2**63, "too far")


@pytest.mark.parametrize("holder", ["", "a\x00b", "\ud800", "😀" * 3_000, "'; drop"])
def test_a_holder_may_have_any_name(bench, holder):
    with bench.store.hold(bench.unit(), Role.VIEW, holder=holder) as token:
        assert token.epoch == 1


# --- transactions

INSERT = "INSERT INTO amends.source_log VALUES (DEFAULT, 'x', 'y', 1)"


def raising(transaction):
    transaction.execute(INSERT)
    raise ZeroDivisionError


def failing(transaction):
    transaction.execute(INSERT)
    transaction.execute(INSERT)


def failing_in_a_pipeline(transaction):
    with transaction.connection.pipeline():
        transaction.execute(INSERT)
        transaction.execute(INSERT)
        transaction.commit()


def swallowing(transaction):
    transaction.execute(INSERT)
    with pytest.raises(psycopg.Error):
        transaction.execute("SELECT 1/0")


@pytest.mark.parametrize(
    ("work", "error"),
    [
        (raising, ZeroDivisionError),
        (failing, DatabaseUnavailable),
        (failing_in_a_pipeline, DatabaseUnavailable),
        (swallowing, DatabaseUnavailable),
    ],
)
def test_work_that_fails_leaves_nothing_and_its_connection_is_used_again(
    database, tables, work, error
):
    first = read_pid(database)
    with pytest.raises(error), database.write("SELECT 1") as transaction:
        work(transaction)
    assert tables.sql("SELECT * FROM amends.source_log") == []
    assert read_pid(database) == first


def test_work_that_does_not_fail_is_committed(database, tables):
    with database.write("SELECT 1") as transaction:
        assert transaction.first == [(1,)]
        transaction.execute(INSERT)
    assert len(tables.sql("SELECT * FROM amends.source_log")) == 1


# --- kept connections


def test_connections_are_used_again_and_few_are_kept(database):
    first = read_pid(database)
    assert read_pid(database) == first
    with ThreadPoolExecutor(KEPT_CONNECTIONS + 3) as pool:
        blocks = [database.read() for _ in range(KEPT_CONNECTIONS + 3)]
        connections = list(pool.map(lambda block: block.__enter__(), blocks))
        assert len({pid(each) for each in connections}) == len(blocks)
        list(pool.map(lambda block: block.__exit__(None, None, None), blocks))
    assert sum(not each.closed for each in connections) == KEPT_CONNECTIONS


def test_a_kept_connection_that_the_server_closed_is_not_used(database, tables):
    first = read_pid(database)
    tables.sql("SELECT pg_terminate_backend(%s, 5000)", first)
    assert read_pid(database) != first


def test_a_connection_that_breaks_in_a_block_is_not_kept(database, tables):
    first = read_pid(database)

    def broken():
        with database.read() as connection:
            tables.sql("SELECT pg_terminate_backend(%s, 5000)", first)
            connection.execute("SELECT 1")

    with pytest.raises(DatabaseUnavailable):
        broken()
    assert read_pid(database) != first


def test_a_forked_child_leaves_the_connections_of_its_parent_alone(database, monkeypatch):
    first = read_pid(database)
    kept = database._idle[0]  # noqa: SLF001 - the parent's
    with monkeypatch.context() as child:
        child.setattr(os, "getpid", lambda: -1)
        assert read_pid(database) != first
        database.close()
    assert not kept.closed
    kept.close()


def test_closing_closes_what_is_kept(database, tables):
    read_pid(database)
    before = len(tables.sql(OURS))
    database.close()
    assert len(tables.sql(OURS)) <= before
    assert read_pid(database)


def test_several_threads_work_on_several_units(tables):
    bench = provisioned(tables, configuration(keys="abc", partitions=3))
    tables.store.config("main")

    def work(partition):
        token = bench.claim(partition=partition)
        for _ in range(5):
            bench.append("malformed", partition)
            bench.store.commit(token, bench.decide(partition=partition))
        return bench.progress(partition).next_offset

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(work, range(3))) == [5, 5, 5]


def test_a_reader_who_stops_half_way_leaves_no_transaction(bench, tables):
    bench.drain(STORY)
    reader = bench.store.outbox(bench.unit())
    next(reader)
    reader.close()
    with bench.store.snapshot("main") as snapshot:
        next(iter(snapshot.visible()))
    idle = "SELECT count(*) FROM pg_stat_activity WHERE state ~ '^idle in'"
    assert tables.sql(idle) == [(0,)]
