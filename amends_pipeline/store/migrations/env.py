"""What Alembic runs. `store/upgrade.py` hands it a connection that holds the migration lock."""

from __future__ import annotations

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    version_table="alembic_version",
    version_table_schema="amends",
)
with context.begin_transaction():
    context.run_migrations()
