"""`ledger`, `bank`: every store that the package has of each, one after the other."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from amends_pipeline_tests.contracts.bank_bench import NOON, MemoryBankBench, TableBankBench
from amends_pipeline_tests.contracts.bench import provisioned
from amends_pipeline_tests.contracts.ledgers import MemoryLedger, TableLedger


@pytest.fixture(params=["memory", "postgres"])
def ledger(request):
    if request.param == "memory":
        yield MemoryLedger()
        return
    url = request.getfixturevalue("tables_url")
    with ExitStack() as opened:
        tables = TableLedger(url, opened)
        yield tables
    tables.empty()


@pytest.fixture
def bench(ledger):
    """A namespace over one partition with keys a, b and c."""
    return provisioned(ledger)


@pytest.fixture(params=["memory", "postgres"])
def bank(request):
    """A live journal with one stream open, at noon."""
    if request.param == "memory":
        bench = MemoryBankBench()
        bench.open()
        yield bench
        return
    bench = TableBankBench(request.getfixturevalue("tables_url"))
    try:
        bench.set_clock(NOON)
        bench.open()
        yield bench
    finally:
        bench.clean()
