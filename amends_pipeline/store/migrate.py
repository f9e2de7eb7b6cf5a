"""Bring schema `amends` to the revision that this version of amends needs, and no further."""

from __future__ import annotations

from typing import Final

import psycopg

from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import DatabaseUnavailable, SchemaTooNew
from amends_pipeline.store.migrations import HEAD
from amends_pipeline.store.postgres import LOCK_CLASS, MIGRATION, Connection, Database

LOCK: Final = "SELECT pg_advisory_lock(%s::int4, %s::int4)"
FIND_SCHEMA: Final = "SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'amends'"
CREATE_SCHEMA: Final = "CREATE SCHEMA amends"
FIND_VERSIONS: Final = "SELECT to_regclass('amends.alembic_version') IS NOT NULL"
SELECT_VERSION: Final = "SELECT version_num FROM amends.alembic_version"


def revision(database: Database) -> str | None:
    """The revision that the schema is at; None when nothing was migrated yet."""
    with database.read() as connection:
        return _revision(connection)


def check(database: Database) -> None:
    """Raise DatabaseUnavailable or SchemaTooNew unless the schema is at the right revision."""
    found = revision(database)
    if found == HEAD:
        return
    where = f"{database.where}, schema amends"
    kind = SchemaTooNew if found is not None and found > HEAD else DatabaseUnavailable
    raise kind(where, expected=f"revision {HEAD}", found=shown(found) if found else "none")


def migrate(database: Database, to: str = HEAD) -> None:
    """Upgrade the schema, unless it is there already. Others who migrate wait meanwhile.

    Raises SchemaTooNew when a later version of amends has migrated it.
    """
    if revision(database) == to:
        return
    from amends_pipeline.store.upgrade import upgrade  # noqa: PLC0415 - slow, and seldom needed

    connection = database.connect()
    try:
        connection.execute(LOCK, (LOCK_CLASS, MIGRATION))
        # "IF NOT EXISTS" would ask for the right to create even where the schema exists.
        if connection.execute(FIND_SCHEMA).fetchone() is None:
            connection.execute(CREATE_SCHEMA)
        upgrade(database, connection, _revision(connection), to)
    except psycopg.Error as error:
        raise database.translation(error) from None
    finally:
        connection.close()


def _revision(connection: Connection) -> str | None:
    found = connection.execute(FIND_VERSIONS).fetchone()
    row = connection.execute(SELECT_VERSION).fetchone() if found and found[0] else None
    return None if row is None else str(row[0])
