"""Dagster's own storage, on the private server and on the user's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import psycopg
import pytest

from amends_pipeline.defs.storage import AmendsStorage
from amends_pipeline.kernel.errors import DatabaseUnavailable
from amends_pipeline_tests.conftest import make_home, remove_home

ROOT = Path(__file__).resolve().parents[2]
CONFIGURATION = """
storage:
  custom: {module: amends_pipeline.defs.storage, class: AmendsStorage, config: {}}
telemetry: {enabled: false}
"""
COUNT_RUNS = """
import dagster as dg
with dg.DagsterInstance.get() as instance:
    print(len(instance.get_runs()))
"""


@dg.asset
def apples() -> int:
    return 3


@pytest.fixture
def dagster_home(tmp_path, monkeypatch):
    (tmp_path / "dagster.yaml").write_text(CONFIGURATION)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    return tmp_path


def tables(url):
    question = (
        "select table_schema || '.' || table_name from information_schema.tables"
        " where table_schema not in ('pg_catalog', 'information_schema')"
    )
    with psycopg.connect(url) as connection:
        return {name for (name,) in connection.execute(question)}


def test_a_run_is_kept_on_the_private_server(postgres_server, dagster_home):
    with dg.DagsterInstance.get() as instance:
        before = len(instance.get_runs())
        assert dg.materialize([apples], instance=instance).success
        assert instance.get_latest_materialization_event(apples.key) is not None
    with dg.DagsterInstance.get() as instance:
        assert len(instance.get_runs()) == before + 1
    url = postgres_server.dagster_url.replace("+psycopg2", "")
    assert {"public.runs", "public.event_logs", "public.alembic_version"} <= tables(url)
    assert not {name for name in tables(postgres_server.ledger_url) if name.endswith(".runs")}


def test_on_the_users_server_every_table_is_in_the_schema_dagster(
    database_url, dagster_home, monkeypatch
):
    # Another Dagster, of another release, has its tables in the same database: they are not ours.
    with psycopg.connect(database_url) as connection:
        connection.execute("create table runs (other text)")
        connection.execute("create table alembic_version as select 'other' as version_num")
    before = tables(database_url)
    monkeypatch.setenv("AMENDS_POSTGRES_URL", database_url)
    with dg.DagsterInstance.get() as instance:
        assert dg.materialize([apples], instance=instance).success
        instance.optimize_for_webserver(statement_timeout=5000, pool_recycle=60, max_overflow=2)
        assert len(instance.get_runs()) == 1
        made, expected = instance.run_storage.alembic_version()
        assert made == expected
        instance.upgrade()
    ours = tables(database_url) - before
    assert {"dagster.runs", "dagster.event_logs", "dagster.alembic_version"} <= ours
    assert {name.split(".")[0] for name in ours} == {"dagster"}
    with psycopg.connect(database_url) as connection:
        assert connection.execute("select * from alembic_version").fetchall() == [("other",)]


def test_processes_that_start_at_once_on_an_empty_home_all_find_their_tables(dagster_home):
    home = make_home()
    environment = os.environ | {"AMENDS_HOME": str(home)}
    command = [sys.executable, "-c", COUNT_RUNS]
    processes = [
        subprocess.Popen(command, cwd=ROOT, env=environment, stdout=-1, stderr=-1, text=True)
        for _ in range(2)
    ]
    told = [process.communicate() for process in processes]
    remove_home(home)
    assert [output for output, _ in told] == ["0\n", "0\n"], told
    assert not [complaint for _, complaint in told if "Retrying" in complaint]


def test_a_server_that_cannot_be_had_is_an_error_of_ours(dagster_home, monkeypatch):
    monkeypatch.setenv("AMENDS_POSTGRES_URL", "postgresql://clerk:hidden@127.0.0.1:1/shop")
    with pytest.raises(DatabaseUnavailable, match="Connection refused") as refusal:
        AmendsStorage()
    assert "hidden" not in str(refusal.value)
