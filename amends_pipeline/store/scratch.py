"""A database that one command fills from nothing, on the private server and never on the user's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psycopg
from psycopg import sql

from amends_pipeline.kernel.errors import Held
from amends_pipeline.store.server import URL_VARIABLE, Server, connect_info

MAINTENANCE: Final = "postgres"
TRY_LOCK: Final = "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))"
DROP: Final = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")


@contextmanager
def fresh_database(name: str, home: Path | None = None) -> Iterator[Server]:
    """Make the database anew for a block; afterwards it stays, to be looked at.

    home: takes the place of AMENDS_HOME. AMENDS_POSTGRES_URL is not looked at. Raises Held while
    another process works in the same database, DatabaseUnavailable.
    """
    private = {name: value for name, value in os.environ.items() if name != URL_VARIABLE}
    with connect_info(home, private, database=MAINTENANCE) as server:
        try:
            connection = psycopg.connect(server.ledger_url, autocommit=True)
        except psycopg.Error as error:
            raise server.unavailable(error) from None
        with connection:
            _drop(server, connection, name)
            with connect_info(home, private, database=name) as fresh:
                yield fresh


def _drop(server: Server, connection: psycopg.Connection, name: str) -> None:
    try:
        row = connection.execute(TRY_LOCK, (name,)).fetchone()
        if row is None or not row[0]:
            found = "another process that does"
            raise Held(f"database {name}", expected="nobody to work in it", found=found)
        connection.execute(DROP.format(sql.Identifier(name)))
    except psycopg.Error as error:
        raise server.unavailable(error) from None
