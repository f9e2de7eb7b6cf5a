"""`ledger`: every ledger that the package has, one after the other."""

from __future__ import annotations

import uuid

import psycopg
import pytest
from psycopg import sql

from amends_pipeline.assembly import open_ledger
from amends_pipeline_tests.contracts.bench import provisioned
from amends_pipeline_tests.contracts.ledgers import MemoryLedger
from amends_pipeline_tests.store.postgres_ledger import TestedLedger


@pytest.fixture(scope="session")
def template_database(postgres_server):
    """A database with our tables, migrated once; every test gets a copy."""
    lease, name = postgres_server.lease, f"tables_{uuid.uuid4().hex}"
    with psycopg.connect(lease.url("postgres"), autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    open_ledger(lease.url(name)).close()
    return name


@pytest.fixture(params=["memory", "postgres"])
def ledger(request):
    if request.param == "memory":
        yield MemoryLedger()
        return
    with TestedLedger(request.getfixturevalue("database_url")) as tables:
        yield tables


@pytest.fixture
def bench(ledger):
    """A namespace over one partition with keys a, b and c."""
    return provisioned(ledger)
