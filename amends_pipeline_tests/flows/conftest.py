"""`ledger`: in memory and on PostgreSQL, without a namespace; `harbour` over it."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from amends_pipeline_tests.contracts.ledgers import MemoryLedger, TableLedger
from amends_pipeline_tests.flows.harbour import Harbour


@pytest.fixture(params=["memory", "postgres"])
def ledger(request):
    if request.param == "memory":
        yield MemoryLedger()
        return
    with ExitStack() as opened:
        tables = TableLedger(request.getfixturevalue("tables_url"), opened)
        yield tables
    tables.empty()


@pytest.fixture
def harbour(ledger, tmp_path):
    return Harbour(ledger, tmp_path / "landing")


@pytest.fixture
def quiet(tmp_path):
    """A harbour over a ledger in memory, for what does not depend on it."""
    return Harbour(MemoryLedger(), tmp_path / "landing")
