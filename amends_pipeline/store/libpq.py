"""What libpq, PostgreSQL's client library, takes from the environment of a process.

A parameter that a URL names goes before libpq's variables; what it does not name, they decide. On a
user's server that is theirs to say: PGPASSFILE or PGSSLROOTCERT may be part of the way there. To
the private server there is one way and no other, and a variable meant for another server would
bar it.

Some variables go before every parameter. They are taken out of the environment of the process, and
so of all that it starts, its psycopg2 included.
"""

from __future__ import annotations

import os
from typing import Final

from psycopg import pq

# Sent to the server behind the `options`, which they overrule.
OF_A_SESSION: Final = frozenset({"PGTZ", "PGDATESTYLE", "PGGEQO"})
# PGSERVICE cannot be overruled by naming no service, and another libpq may be psycopg2's, which
# reads what psycopg's has no parameter for.
_UNLISTED: Final = frozenset({"PGSERVICE", "PGSERVICEFILE", "PGSYSCONFDIR", "PGREALM"})

# What a role or a database has set must not change what ours and Dagster's sessions do. Without
# standard strings psycopg doubles the backslash of every bytea that it sends as text.
SESSION: Final = (
    "-c timezone=UTC -c datestyle=ISO,MDY -c default_transaction_read_only=off"
    r" -c default_transaction_isolation=read\ committed -c standard_conforming_strings=on"
)


def forget_all() -> None:
    """Take every variable of libpq out of this process's environment."""
    listed = {option.envvar.decode() for option in pq.Conninfo.get_defaults() if option.envvar}
    _forget(OF_A_SESSION | _UNLISTED | listed)


def forget_session() -> None:
    """Take out those that no parameter of a connection overrules."""
    _forget(OF_A_SESSION)


def _forget(names: frozenset[str]) -> None:
    for name in names:
        os.environ.pop(name, None)
