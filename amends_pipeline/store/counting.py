"""How many rows a unit has, for people who look at its assets."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from psycopg.errors import QueryCanceled

from amends_pipeline.ports import Counted
from amends_pipeline.store.postgres import Connection

# A million rows take some 100 ms when they are in memory. A correction must not wait for more.
SET_TIMEOUT: Final = "SET LOCAL statement_timeout = '3s'"
COUNTS: Final[Mapping[Counted, str]] = {
    Counted.TRANSACTIONS: "SELECT count(*) FROM amends.authority WHERE unit_id = %(unit)s",
    Counted.OBSERVATIONS: "SELECT count(*) FROM amends.observation WHERE unit_id = %(unit)s",
    Counted.QUARANTINED: "SELECT count(*) FROM amends.quarantine WHERE unit_id = %(unit)s",
    Counted.PAGES: "SELECT count(*) FROM amends.key_page WHERE unit_id = %(unit)s",
    Counted.OUTPUTS: "SELECT count(*) FROM amends.view_row WHERE unit_id = %(unit)s",
    Counted.VISIBLE: (
        "SELECT count(*) FROM amends.view_row WHERE unit_id = %(unit)s AND type NOT IN (2, 4)"
    ),
}


def read_counts(
    connection: Connection, unit_id: int, counted: Collection[Counted]
) -> Mapping[Counted, int]:
    """Count rows; nothing when it takes too long. The connection has a transaction open."""
    kinds = list(counted)
    if not kinds:
        return {}
    connection.execute(SET_TIMEOUT)
    statement = f"SELECT {', '.join(f'({COUNTS[each]})' for each in kinds)}"
    try:
        row = connection.execute(statement, {"unit": unit_id}, binary=True).fetchone()
    except QueryCanceled:
        return {}
    return dict(zip(kinds, row or (), strict=True))
