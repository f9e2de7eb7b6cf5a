"""The ledgers that are held to the contract, and what only a test does to them."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field

from amends_pipeline.outputs.memory import MemoryOutputLog
from amends_pipeline.ports import Unit
from amends_pipeline.sources.memory import MemorySource
from amends_pipeline.store.memory import MemoryStore
from amends_pipeline.store.memory_bank import BankTables, MemoryBank
from amends_pipeline.store.memory_operations import MemoryOperations
from amends_pipeline.store.memory_tables import MemoryTables
from amends_pipeline_tests.store.postgres_ledger import TestedLedger


@dataclass
class MemoryLedger:
    """A ledger over tables in memory."""

    tables: MemoryTables = field(default_factory=MemoryTables)
    bank_tables: BankTables = field(default_factory=BankTables)

    def __post_init__(self):
        self.store = MemoryStore(self.tables)
        self.outputs = MemoryOutputLog(self.tables)
        self.operations = MemoryOperations(self.tables)
        self.bank = MemoryBank(self.bank_tables)

    def source(self, name: str) -> MemorySource:
        return MemorySource(self.tables, name)

    # What a test does to it

    def reopened(self) -> MemoryLedger:
        """The same ledger as another process finds it."""
        return MemoryLedger(self.tables, self.bank_tables)

    def skip(self, source: str, partition: int, count: int) -> None:
        """Give the next `count` source offsets to nobody."""
        self.source(source).skip(partition, count)

    def forget(self, source: str, partition: int, before: int) -> None:
        """Stop retaining source records before an offset."""
        self.source(source).forget(partition, before)

    def recreate(self, source: str) -> None:
        """Lose a source log and make it anew under another incarnation."""
        self.source(source).recreate()

    def spoil(self, unit: Unit) -> None:
        """Put a row into the output log that is no envelope."""
        self.outputs.append_bytes(unit, [b"{}"])


class TableLedger(TestedLedger):
    """A ledger over tables in PostgreSQL, closed with whatever was opened beside it."""

    def __init__(self, url: str, opened: ExitStack):
        super().__init__(url)
        self._opened = opened
        opened.callback(self.close)

    def reopened(self) -> TableLedger:
        """The same ledger as another process finds it."""
        return TableLedger(self.url, self._opened)
