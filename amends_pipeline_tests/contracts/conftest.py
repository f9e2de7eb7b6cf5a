"""`ledger`: every ledger that the package has, one after the other."""

from __future__ import annotations

import pytest

from amends_pipeline_tests.contracts.bench import provisioned
from amends_pipeline_tests.contracts.ledgers import MemoryLedger


@pytest.fixture(params=["memory"])
def ledger(request):
    return MemoryLedger()


@pytest.fixture
def bench(ledger):
    """A namespace over one partition with keys a, b and c."""
    return provisioned(ledger)
