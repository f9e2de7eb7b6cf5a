"""Bring schema `amends` to the revision that this version of amends needs, and no further."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

import psycopg

from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import AmendsError, DatabaseUnavailable, SchemaTooNew
from amends_pipeline.store.migrations import HEAD
from amends_pipeline.store.postgres import LOCK_CLASS, MIGRATION, Connection, Database

FOLDER: Final = Path(__file__).with_name("migrations")

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
    connection = database.connect()
    try:
        connection.execute(LOCK, (LOCK_CLASS, MIGRATION))
        # "IF NOT EXISTS" would ask for the right to create even where the schema exists.
        if connection.execute(FIND_SCHEMA).fetchone() is None:
            connection.execute(CREATE_SCHEMA)
        _upgrade(database, connection, _revision(connection), to)
    except psycopg.Error as error:
        raise database.translation(error) from None
    finally:
        connection.close()


def _revision(connection: Connection) -> str | None:
    found = connection.execute(FIND_VERSIONS).fetchone()
    row = connection.execute(SELECT_VERSION).fetchone() if found and found[0] else None
    return None if row is None else str(row[0])


def _upgrade(database: Database, connection: Connection, found: str | None, to: str) -> None:
    # Alembic and SQLAlchemy take their time to load, and are needed when there is something to do.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415
    from sqlalchemy import create_engine  # noqa: PLC0415
    from sqlalchemy.exc import DBAPIError  # noqa: PLC0415
    from sqlalchemy.pool import StaticPool  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if found is not None and found not in known:
        raise SchemaTooNew(
            f"{database.where}, schema amends", expected=f"revision {HEAD}", found=shown(found)
        )
    logging.getLogger("alembic").setLevel(logging.WARNING)
    # SQLAlchemy manages transactions by itself, on a connection that leaves them to it.
    connection.autocommit = False
    engine = create_engine(
        "postgresql+psycopg://", creator=lambda: connection, poolclass=StaticPool
    )
    try:
        with engine.connect() as bound:
            config.attributes["connection"] = bound
            command.upgrade(config, to)
            bound.commit()
    except DBAPIError as error:
        raise _ours(database, error.orig) from None


def _ours(database: Database, error: BaseException | None) -> AmendsError:
    if isinstance(error, psycopg.Error):
        return database.translation(error)
    where = f"{database.where}, schema amends"
    return DatabaseUnavailable(where, expected="a migration", found=type(error).__name__)
