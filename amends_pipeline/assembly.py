"""A ledger in PostgreSQL: the store and the logs on both sides of it, over one database."""

from __future__ import annotations

from typing import Self

from amends_pipeline.outputs.table import TableOutputLog
from amends_pipeline.ports import LedgerStore, Operations, OutputLog, SourceLog
from amends_pipeline.ports.bank import BankJournal
from amends_pipeline.sources.table import TableSource
from amends_pipeline.store.bank import PostgresBank
from amends_pipeline.store.inventory import PostgresStore
from amends_pipeline.store.migrate import check
from amends_pipeline.store.migrate import migrate as migrate_database
from amends_pipeline.store.namespaces import Namespaces
from amends_pipeline.store.operations import PostgresOperations
from amends_pipeline.store.postgres import Database


class PostgresLedger:
    """A `Ledger` whose store, source logs and output log are tables of one database.

    `bank` is the live journal of the bank ledger in the same database.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        namespaces = Namespaces(database)
        self.store: LedgerStore = PostgresStore(database, namespaces)
        self.outputs: OutputLog = TableOutputLog(database, namespaces)
        self.operations: Operations = PostgresOperations(database, namespaces)
        self.bank: BankJournal = PostgresBank(database)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def source(self, name: str) -> SourceLog:
        """The log of a source, whether it was created yet or not."""
        return TableSource(self._database, name)

    def close(self) -> None:
        """Close the kept connections."""
        self._database.close()


def open_ledger(url: str, *, migrate: bool = True) -> PostgresLedger:
    """Open the ledger in the database that `url` names, for psycopg 3.

    migrate: bring the schema up to date first; otherwise it must be so already.

    Raises DatabaseUnavailable, SchemaTooNew, InputError.
    """
    database = Database(url)
    try:
        (migrate_database if migrate else check)(database)
    except BaseException:
        database.close()
        raise
    return PostgresLedger(database)
