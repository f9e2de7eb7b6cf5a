"""`tables`: a ledger over empty tables, in a database that the whole run shares."""

from __future__ import annotations

import uuid

import psycopg
import pytest
from psycopg import sql

from amends_pipeline_tests.contracts.bench import STORY, provisioned
from amends_pipeline_tests.store.postgres_ledger import TestedLedger


@pytest.fixture(scope="session")
def store_url(postgres_server):
    """A database with our tables, for tests that leave none of it broken."""
    lease, name = postgres_server.lease, f"store_{uuid.uuid4().hex}"
    with psycopg.connect(lease.url("postgres"), autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    TestedLedger(lease.url(name)).close()
    return lease.url(name)


@pytest.fixture
def tables(store_url):
    """A ledger that holds nothing."""
    with TestedLedger(store_url) as ledger:
        ledger.empty()
        yield ledger


@pytest.fixture
def bench(tables):
    """A namespace over one partition with keys a, b and c."""
    return provisioned(tables)


@pytest.fixture
def busy(bench):
    """Something decided, something pending, something in the view, something to decide."""
    bench.drain(STORY)
    bench.work("A r3 AMEND day 1 -1\n B r3 AMEND day 4 -7")
    bench.append("C r1 NEW day 1 -1")
    return bench
