"""The way from an asset to its ledger."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
from pydantic import Field

from amends_pipeline.assembly import open_ledger
from amends_pipeline.ports import Ledger
from amends_pipeline.ports.bank import BankJournal
from amends_pipeline.store.server import DEFAULT_HOME, HOME_VARIABLE, connect_info


class LedgerResource(dg.ConfigurableResource):  # type: ignore[type-arg] # it hands out itself
    """The ledger on the server that the environment names, opened when an asset asks for it.

    Nothing in the configuration is secret: the address and the password of a server stay in the
    environment, where `store.server` reads them.
    """

    home: str | None = Field(
        default=None,
        description="Folder of the private server. By default AMENDS_HOME, else .amends.",
    )
    database: str | None = Field(
        default=None,
        description="Database of the ledgers. By default amends, or the one that the URL names.",
    )

    @contextmanager
    def open(self) -> Iterator[Ledger]:
        """Open the ledger for a block. Raises DatabaseUnavailable, SchemaTooNew."""
        home = None if self.home is None else Path(self.home)
        with (
            connect_info(home, database=self.database) as server,
            open_ledger(server.ledger_url) as ledger,
        ):
            yield ledger


def resource_over(ledger: Ledger) -> LedgerResource:
    """Make the resource of a ledger that is open already: the demo's, or one in memory."""

    class OpenLedger(LedgerResource):
        """Hands out that ledger, again and again."""

        @contextmanager
        def open(self) -> Iterator[Ledger]:
            """Hand it out for a block, and leave it open."""
            yield ledger

    return OpenLedger()


class BankResource(dg.ConfigurableResource):  # type: ignore[type-arg] # it hands out itself
    """The live journal of the bank ledger, in the database of the other ledgers."""

    home: str | None = Field(
        default=None,
        description=(
            "Folder of the private server, and of the exports below bank. By default AMENDS_HOME,"
            " else .amends."
        ),
    )
    database: str | None = Field(
        default=None,
        description="Database of the ledgers. By default amends, or the one that the URL names.",
    )

    @contextmanager
    def open(self) -> Iterator[BankJournal]:
        """Open the journal for a block. Raises DatabaseUnavailable, SchemaTooNew."""
        home = None if self.home is None else Path(self.home)
        with (
            connect_info(home, database=self.database) as server,
            open_ledger(server.ledger_url) as ledger,
        ):
            yield ledger.bank

    def folder(self, stream_id: str) -> Path:
        """Return where the exports of a stream lie, whose name is an identifier."""
        home = Path(self.home or os.environ.get(HOME_VARIABLE) or DEFAULT_HOME)
        return (home / "bank" / stream_id).absolute()


def bank_over(journal: BankJournal, home: Path) -> BankResource:
    """Make the resource of a journal that is open already, with its exports below a folder."""

    class OpenJournal(BankResource):
        """Hands out that journal, again and again."""

        @contextmanager
        def open(self) -> Iterator[BankJournal]:
            """Hand it out for a block, and leave it open."""
            yield journal

    return OpenJournal(home=str(home))
