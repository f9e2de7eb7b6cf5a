"""The upgrade by Alembic. It is slow to import, so only who has something to upgrade imports it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

import psycopg
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool

from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import AmendsError, DatabaseUnavailable, SchemaTooNew
from amends_pipeline.store.migrations import HEAD
from amends_pipeline.store.postgres import Connection, Database

FOLDER: Final = Path(__file__).with_name("migrations")


def upgrade(database: Database, connection: Connection, found: str | None, to: str) -> None:
    """Upgrade the schema, which is at revision `found`, over a connection that holds the lock.

    The connection no longer commits by itself afterwards. Raises SchemaTooNew when `found` is not
    a revision of this version of amends, DatabaseUnavailable when the database refuses.
    """
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
