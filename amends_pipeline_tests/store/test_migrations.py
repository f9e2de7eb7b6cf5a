from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from psycopg import conninfo, sql

from amends_pipeline.assembly import open_ledger
from amends_pipeline.kernel.errors import DatabaseUnavailable, SchemaTooNew
from amends_pipeline.store.migrate import migrate, revision
from amends_pipeline.store.migrations import HEAD
from amends_pipeline.store.postgres import Database
from amends_pipeline.store.upgrade import FOLDER
from amends_pipeline_tests.contracts.bank_bench import TableBankBench
from amends_pipeline_tests.contracts.bench import STORY, Bench, provisioned

COLUMNS = """
SELECT c.table_name, array_agg(c.column_name::text) FROM information_schema.columns c
JOIN information_schema.tables t USING (table_schema, table_name)
WHERE t.table_schema = 'amends' AND t.table_type = 'BASE TABLE'
    AND t.table_name <> 'alembic_version' GROUP BY c.table_name
"""
OBJECTS = """
SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
"""


def query(url, statement, *parameters):
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement, parameters)
        return cursor.fetchall() if cursor.description else []


@pytest.fixture
def database(database_url):
    database = Database(database_url)
    yield database
    database.close()


def revisions():
    config = Config()
    config.set_main_option("script_location", str(FOLDER))
    return [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()][
        ::-1
    ]


def test_the_head_is_the_last_revision_and_revisions_are_numbered():
    """A newer schema is told from an older one by its number."""
    numbered = revisions()
    assert numbered[-1] == HEAD
    assert numbered == [f"{number:04d}" for number in range(1, len(numbered) + 1)]


def test_an_empty_database_is_migrated_and_everything_lives_in_the_schemas_of_the_ledgers(
    database, database_url
):
    assert revision(database) is None
    migrate(database)
    assert revision(database) == HEAD
    names = [name for (name,) in query(database_url, OBJECTS)]
    assert "amends.alembic_version" in names
    assert "amends_bank.stream" in names
    assert [name for name in names if not name.startswith(("amends.", "amends_bank."))] == []


def test_migrating_again_changes_nothing(database, database_url):
    migrate(database)
    before = query(database_url, OBJECTS)
    migrate(database)
    assert query(database_url, OBJECTS) == before


def copy_rows(ledger, url):
    """Fill the tables and columns that another database has with what a ledger holds."""
    with psycopg.connect(ledger.url) as old, psycopg.connect(url) as new:
        new.execute("SET session_replication_role = replica")  # in any order of tables
        for table, names in new.execute(COLUMNS):
            columns = sql.SQL(", ").join(map(sql.Identifier, names))
            parts = sql.Identifier("amends", table), columns
            with (
                old.cursor().copy(sql.SQL("COPY {} ({}) TO STDOUT").format(*parts)) as reading,
                new.cursor().copy(sql.SQL("COPY {} ({}) FROM STDIN").format(*parts)) as writing,
            ):
                for part in reading:
                    writing.write(part)


@pytest.mark.parametrize("released", ["0001", "0003"])
def test_a_ledger_of_an_earlier_revision_is_upgraded_with_all_it_holds(
    bench, database, database_url, released
):
    bench.drain(STORY, size=3)
    before = bench.observed()
    migrate(database, to=released)
    copy_rows(bench.ledger, database_url)
    with pytest.raises(DatabaseUnavailable, match=f"expected revision {HEAD}"):
        open_ledger(database_url, migrate=False)
    with open_ledger(database_url) as ledger:
        upgraded = Bench(ledger, bench.config)
        assert upgraded.observed() == before
        upgraded.drain("D r1 NEW day 4 -4")
    assert revision(database) == HEAD
    assert len(query(database_url, "SELECT * FROM amends.balance")) > 0


def test_a_ledger_without_a_bank_gets_one(bench, database, database_url):
    bench.drain(STORY)
    migrate(database, to="0003")
    copy_rows(bench.ledger, database_url)
    migrate(database)
    bank = TableBankBench(database_url)
    try:
        assert bank.open() is True
        bank.posted("first")
        assert bank.export().balance("ADA") == 100
    finally:
        bank.close()


@pytest.mark.parametrize("number", ["0099", "9999"])
@pytest.mark.parametrize("migrating", [True, False])
def test_a_schema_of_a_later_version_is_refused_untouched(
    database, database_url, number, migrating
):
    migrate(database)
    query(database_url, "UPDATE amends.alembic_version SET version_num = %s", number)
    query(database_url, "DROP VIEW amends.balance")
    before = query(database_url, OBJECTS)
    with pytest.raises(SchemaTooNew, match=f'expected revision {HEAD}, found "{number}"'):
        open_ledger(database_url, migrate=migrating)
    assert query(database_url, OBJECTS) == before


def test_a_database_that_was_never_migrated_is_told_apart(database_url):
    with pytest.raises(DatabaseUnavailable, match=f"expected revision {HEAD}, found none"):
        open_ledger(database_url, migrate=False)


def test_of_many_who_open_a_fresh_database_one_migrates_it(database_url):
    with ThreadPoolExecutor(6) as pool:
        ledgers = list(pool.map(lambda _: open_ledger(database_url), range(6)))
    for ledger in ledgers:
        assert ledger.store.namespaces() == []
        ledger.close()
    assert query(database_url, "SELECT version_num FROM amends.alembic_version") == [(HEAD,)]


def test_a_migration_says_nothing(database, caplog, capfd):
    with caplog.at_level(logging.INFO):
        logging.getLogger("alembic").setLevel(logging.NOTSET)
        migrate(database)
    assert caplog.messages == []
    assert capfd.readouterr() == ("", "")


def test_a_user_without_the_right_to_create_schemas_uses_those_that_are_there(
    postgres_server, database_url
):
    name = conninfo.conninfo_to_dict(database_url)["dbname"]
    query(database_url, "DROP ROLE IF EXISTS guest")
    query(database_url, "CREATE ROLE guest LOGIN")
    guest = database_url.replace("postgres@", "guest@")
    try:
        with pytest.raises(DatabaseUnavailable, match="permission denied"):
            open_ledger(guest)
        query(database_url, "CREATE SCHEMA amends AUTHORIZATION guest")
        query(database_url, "CREATE SCHEMA amends_bank AUTHORIZATION guest")
        with open_ledger(guest) as ledger:
            provisioned(ledger).drain(STORY)
    finally:
        query(postgres_server.lease.url(name), "DROP OWNED BY guest")
        query(postgres_server.lease.url("postgres"), "DROP ROLE guest")


def test_a_failed_migration_leaves_what_was_there(database, database_url):
    migrate(database, to="0001")
    query(database_url, "CREATE VIEW amends.balance AS SELECT 1 AS mine")
    before = query(database_url, OBJECTS)
    with pytest.raises(DatabaseUnavailable, match='relation "balance" already exists'):
        migrate(database)
    assert query(database_url, OBJECTS) == before
    assert revision(database) == "0001"
