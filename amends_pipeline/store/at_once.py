"""Several writes as one statement: one message, one round trip, all or none.

psycopg and the server spend more on a small statement than on its one row, so that a late
correction is mostly the price of its statements. PostgreSQL runs the writes of a WITH all against
the same snapshot, which is why no two of them may touch one row.
"""

from __future__ import annotations

from typing import Any, Protocol

from psycopg.errors import DivisionByZero

from amends_pipeline.store.postgres import Connection, Parameters, Unmet


class Executes(Protocol):
    """What writes are handed to: a connection, or `AtOnce`, which keeps them for later."""

    def execute(self, query: str, params: Parameters = ..., /) -> Any:  # noqa: ANN401 - nobody looks at it
        """Run a statement, or have it run with the others."""


class AtOnce:
    """Writes that are put together. None of them may return rows or touch what another touches.

    guard: an UPDATE that finds one row if all of them may take effect.
    """

    def __init__(self, guard: str, parameters: Parameters) -> None:
        self._statements = [f"guarding AS ({guard} RETURNING 1)"]
        self._parameters = list(parameters)

    def execute(self, query: str, params: Parameters = (), /) -> None:
        """Keep a statement."""
        self._statements.append(f"write_{len(self._statements)} AS ({query})")
        self._parameters += params

    def run(self, connection: Connection) -> None:
        """Run all of them. Raises Unmet when the guard finds no row; nothing is changed then."""
        # The row that was not found is divided by: an error takes back all the rest.
        statement = f"WITH {', '.join(self._statements)} SELECT 1 / count(*) FROM guarding"  # noqa: S608 - constants of the callers
        try:
            connection.execute(statement, self._parameters, binary=True)
        except DivisionByZero:
            raise Unmet from None
