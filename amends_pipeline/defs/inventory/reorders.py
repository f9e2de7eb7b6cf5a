"""An example of what to build on the view: the stock keys that should be ordered again.

It reads what every reader sees, at one moment, and nothing of the ledger behind it. Copy it: a fact
of your own is a pure function, an entry of `catalog.py` that depends on the view, and an asset that
writes the file of one unit.
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import NamedTuple

import dagster as dg

from amends_pipeline.defs.catalog import OPEN_REORDERS
from amends_pipeline.defs.inventory.failure import failing_clearly
from amends_pipeline.defs.inventory.metadata import cell, table
from amends_pipeline.defs.partitions import lacking, unit_of
from amends_pipeline.defs.resources import LedgerResource
from amends_pipeline.inventory.config import NamespaceConfig
from amends_pipeline.inventory.envelope import Envelope, Type
from amends_pipeline.kernel.display import escape_terminal
from amends_pipeline.kernel.errors import OperationError
from amends_pipeline.kernel.instants import day_text
from amends_pipeline.ports import Unit
from amends_pipeline.store.server import DEFAULT_HOME, HOME_VARIABLE

PREVIEWED_ROWS = 20
"""Rows that the UI shows; all of them are in the file."""

_COLUMNS = {
    "item": "string",
    "location": "string",
    "since": "string",
    "day": "string",
    "close": "Int64",
    "threshold": "Int64",
    "short_by": "UInt64",  # how far apart two signed 64-bit integers can be
}


class Reorder(NamedTuple):
    """A stock key below its threshold: a row of the file."""

    item: str
    location: str
    since: str | None
    """The day of the crossing; None when it opened below and never came up."""
    day: str | None
    """The day of the latest close; None when no day is published: it stands at its opening."""
    close: int
    threshold: int
    short_by: int


class Reorders(NamedTuple):
    """What came of a unit."""

    rows: Sequence[Reorder] = ()
    """The largest shortage first."""
    blocked: int = 0
    """Stock keys that are left out: conflicting records leave their balance in doubt."""
    frontier: int = 0
    """The output offset up to which the view was read."""
    digest: str = ""
    """Of the configuration."""


# --- the fact


def below_threshold(
    config: NamespaceConfig, partition: int, rows: Iterable[Envelope]
) -> tuple[Sequence[Reorder], int]:
    """Find what is short in a partition, and how many stock keys are blocked.

    rows: what readers see, in the order of ids.
    """
    alerts: dict[int, int] = {}
    closes: dict[int, Envelope] = {}
    enough: dict[int, int] = {}  # the latest day at or above the threshold
    blocked = set()
    for row in rows:
        key = config.keys[row.key]
        if key.partition != partition:
            continue
        if row.type == Type.ALERT_RAISED:
            alerts[row.key] = row.day
        elif row.type == Type.BALANCE_STATED:
            closes[row.key] = row
            if row.close >= key.reorder_threshold:
                enough[row.key] = row.day
        elif row.type == Type.BLOCKED_STATED:
            blocked.add(row.key)
    short = []
    for number, (stock_key, opening, threshold, home) in enumerate(config.keys):
        latest = closes.get(number)
        close = opening if latest is None else latest.close
        if home == partition and close < threshold and number not in blocked:
            since = alerts.get(number)
            crossed = since is not None and since > enough.get(number, since - 1)
            short.append(
                Reorder(
                    *stock_key,
                    day_text(since) if since is not None and crossed else None,
                    None if latest is None else day_text(latest.day),
                    close,
                    threshold,
                    threshold - close,
                )
            )
    # A stable sort: equal shortages stay in the order of their keys.
    return sorted(short, key=lambda row: -row.short_by), len(blocked)


# --- the file


def write(path: Path, rows: Sequence[Reorder]) -> None:
    """Write the rows as Parquet, complete or not at all. Raises OperationError."""
    import pandas as pd  # noqa: PLC0415 - half a second that every other run would pay too

    frame = pd.DataFrame(
        {
            name: pd.array([row[at] for row in rows], dtype=kind)
            for at, (name, kind) in enumerate(_COLUMNS.items())
        }
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.") as file:
            frame.to_parquet(file, index=False)
            file.flush()
            os.fsync(file.fileno())
            os.link(file.name, f"{file.name}.whole")
        os.replace(f"{file.name}.whole", path)
    except OSError as error:
        found = escape_terminal(error.strerror or str(error))
        raise OperationError(str(path), expected="to write a file", found=found) from error


# --- the asset


@dg.multi_asset(
    name="open_reorders",
    description="Write the stock keys of a unit that are below their threshold now.",
    specs=[OPEN_REORDERS],
)
def open_reorders(
    context: dg.AssetExecutionContext, ledger: LedgerResource
) -> dg.MaterializeResult[None]:
    """One snapshot, one file for each unit."""
