"""`ledger`: in memory and on PostgreSQL, a fresh database for each test; `harbour` over it."""

from __future__ import annotations

import uuid
from contextlib import ExitStack

import psycopg
import pytest

from amends_pipeline.assembly import open_ledger
from amends_pipeline_tests.contracts.ledgers import MemoryLedger, TableLedger
from amends_pipeline_tests.flows.harbour import Harbour


@pytest.fixture(scope="session")
def template_database(postgres_server):
    """A database with our tables, to be copied."""
    lease, name = postgres_server.lease, f"flows_{uuid.uuid4().hex}"
    with psycopg.connect(lease.url("postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
    open_ledger(lease.url(name)).close()
    return name


@pytest.fixture(params=["memory", "postgres"])
def ledger(request):
    if request.param == "memory":
        yield MemoryLedger()
        return
    with ExitStack() as opened:
        yield TableLedger(request.getfixturevalue("database_url"), opened)


@pytest.fixture
def harbour(ledger, tmp_path):
    return Harbour(ledger, tmp_path / "landing")


@pytest.fixture
def quiet(tmp_path):
    """A harbour over a ledger in memory, for what does not depend on it."""
    return Harbour(MemoryLedger(), tmp_path / "landing")
