"""What the UI shows of an asset before it was ever made: words, columns, places."""

from __future__ import annotations

import re
from pathlib import Path

import dagster as dg
import psycopg
import pytest

import amends_pipeline
from amends_pipeline.definitions import defs
from amends_pipeline.defs.catalog import BANK, EXAMPLES, GROUP
from amends_pipeline.defs.partitions import SOURCE_PARTITIONS, STREAMS, UNITS
from amends_pipeline.defs.schemas import READER_VIEWS, ledger_uri

SPECS = {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}
STORED = sorted(set(SPECS) - {"open_reorders", "bank_balances"})
# Words with a picture in Dagster 1.13; any other is shown as a plain tag.
PICTURED_KINDS = {"postgres", "table", "pandas", "parquet"}


@pytest.mark.parametrize("name", sorted(SPECS))
def test_each_asset_says_what_it_is_and_whose(name):
    spec = SPECS[name]
    bank = name.startswith("bank_")
    assert spec.group_name == (EXAMPLES if name == "open_reorders" else BANK if bank else GROUP)
    assert all(owner.startswith("team:") for owner in spec.owners)
    assert spec.owners
    assert len(spec.kinds) <= 3  # Dagster takes no more
    assert spec.kinds & PICTURED_KINDS
    partitions = {"source_log": SOURCE_PARTITIONS}
    assert spec.partitions_def == partitions.get(name, STREAMS if bank else UNITS)
    assert spec.code_version or name == "source_log"


@pytest.mark.parametrize("name", sorted(SPECS))
def test_a_description_is_one_sentence_of_plain_text(name):
    description = SPECS[name].description
    assert re.fullmatch(r"[A-Z][^.]*\.", description)
    assert not re.search(r"[*_`#<>\[\]|~\n]", description)
    assert len(description) < 160


def test_descriptions_of_steps_checks_and_jobs_are_plain_text_too():
    described = [
        *(check.description for each in defs.asset_checks for check in each.check_specs),
        *(job.description for job in defs.jobs),
    ]
    assert len(described) >= 3
    for description in described:
        assert description.endswith(".")
        assert not re.search(r"[*`#<>\[\]~\n]", description)


@pytest.mark.parametrize("name", STORED)
def test_an_asset_in_the_database_names_its_table_and_where_it_is(name):
    metadata = SPECS[name].metadata
    schema = "amends_bank" if name.startswith("bank_") else "amends"
    assert re.fullmatch(rf"{schema}\.[a-z_]+", metadata["dagster/table_name"])
    assert metadata["dagster/uri"] == ledger_uri({})  # the tests name no server


@pytest.mark.parametrize("name", sorted(set(SPECS) - {"source_log"}))
def test_an_asset_leads_to_the_function_that_makes_it(name):
    [reference] = SPECS[name].metadata["dagster/code_references"].code_references
    path = Path(reference.file_path)
    assert path.is_relative_to(Path(amends_pipeline.__file__).parent)
    line = path.read_text().splitlines()[reference.line_number - 1]
    assert line.startswith(("@dg.multi_asset", "def "))


# --- columns

COLUMNS = """
SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""


def columns_of(table: str, url: str) -> list[tuple[str, str]]:
    """(name, type) as the migrated database has them."""
    with psycopg.connect(url) as connection:
        return connection.execute(COLUMNS, [table]).fetchall()


def shown(schema: dg.TableSchema) -> list[tuple[str, str]]:
    assert all(column.description for column in schema.columns)
    return [(column.name, column.type) for column in schema.columns]


@pytest.mark.parametrize("name", STORED)
def test_the_columns_that_an_asset_shows_are_those_of_its_table(name, tables_url):
    metadata = SPECS[name].metadata
    stored = columns_of(metadata["dagster/table_name"], tables_url)
    assert shown(metadata["dagster/column_schema"]) == stored


@pytest.mark.parametrize("view", sorted(READER_VIEWS))
def test_the_view_shows_the_columns_of_what_readers_query(view, tables_url):
    schema = SPECS["materialized_view"].metadata[f"columns_of_{view}"].schema
    assert shown(schema) == columns_of(f"amends.{view}", tables_url)


def test_checkpoints_show_the_columns_of_their_sets(tables_url):
    schema = SPECS["bank_checkpoints"].metadata["columns_of_checkpoint_set"].schema
    assert shown(schema) == columns_of("amends_bank.checkpoint_set", tables_url)


# --- where

SECRET = "hunter2-and-more"


@pytest.mark.parametrize(
    ("url", "uri"),
    [
        (None, "postgresql:///amends"),
        ("", "postgresql:///amends"),
        ("postgresql://db.example:5433/stock", "postgresql://db.example:5433/stock"),
        ("postgres://clerk@db/stock", "postgresql://db/stock"),
        (f"postgresql://clerk:{SECRET}@db:5432/stock", "postgresql://db:5432/stock"),
        (f"postgresql+psycopg2://clerk:{SECRET}@db", "postgresql://db/"),
        (f"postgresql://clerk:{SECRET}@[::1]:5432/stock", "postgresql://[::1]:5432/stock"),
        (f"postgresql://clerk:{SECRET}@one:1,two:2/stock", "postgresql://one:1,two:2/stock"),
        (f"postgresql:///stock?host=/run&password={SECRET}", "postgresql:///stock"),
        (f"postgresql://db/stock?user=clerk&password={SECRET}", "postgresql://db/stock"),
        # What libpq would cut in the middle of a password.
        (f"postgresql://clerk:a@{SECRET}@db/stock", "postgresql://db/stock"),
        (f"postgresql://clerk:a/{SECRET}@db/stock", "postgresql://db/stock"),
        (f"postgresql://clerk:{SECRET}", "postgresql:///"),
        (f"host=db password={SECRET}", "postgresql:///"),
        (f"postgresql://clerk:a?{SECRET}", "postgresql:///"),
        (SECRET, "postgresql:///"),
    ],
)
def test_the_address_of_the_database_is_shown_without_user_and_password(url, uri):
    environment = {} if url is None else {"AMENDS_POSTGRES_URL": url}
    assert ledger_uri(environment) == uri
    assert SECRET not in ledger_uri(environment)
