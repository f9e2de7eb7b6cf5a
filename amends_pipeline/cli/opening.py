"""The one place where the command line learns what stands behind the ports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amends_pipeline.ports import Ledger


@contextmanager
def opened(home: Path | None) -> Iterator[Ledger]:
    """Open the ledger on the server that AMENDS_POSTGRES_URL names, else on the private one.

    `home` takes the place of AMENDS_HOME where it is given. Raises DatabaseUnavailable,
    SchemaTooNew.
    """
    from amends_pipeline.assembly import open_ledger
    from amends_pipeline.store.server import connect_info

    with connect_info(home) as server, open_ledger(server.ledger_url) as ledger:
        yield ledger


def without_passwords(text: str) -> str:
    """Mask whatever looks like the password of a database in a text that nobody vetted."""
    try:
        from amends_pipeline.store.server import redact
    except ImportError:  # an environment without a driver has met no password
        return text
    return redact(text)
