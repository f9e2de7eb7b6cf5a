"""`tables`: a ledger over empty tables, in a database that the whole run shares."""

from __future__ import annotations

import pytest

from amends_pipeline_tests.contracts.bench import STORY, provisioned
from amends_pipeline_tests.store.postgres_ledger import TestedLedger


@pytest.fixture
def tables(tables_url):
    """A ledger that holds nothing."""
    with TestedLedger(tables_url) as ledger:
        yield ledger
    ledger.empty()


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
