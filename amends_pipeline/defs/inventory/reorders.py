"""An example of what to build on the view: the stock keys that should be ordered again.

It reads what every reader sees, at one moment, and nothing of the ledger behind it. Copy it: a fact
of your own is a pure function, an entry of `catalog.py` that depends on the view, and an asset that
writes the file of one unit.
"""

import os
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import dagster as dg

from amends_pipeline.defs.catalog import OPEN_REORDERS
from amends_pipeline.defs.inventory.failure import failing_clearly
from amends_pipeline.defs.inventory.metadata import ROW_COUNT, cell, table
from amends_pipeline.defs.partitions import lacking, unit_of
from amends_pipeline.defs.resources import LedgerResource
from amends_pipeline.inventory.config import NamespaceConfig
from amends_pipeline.inventory.envelope import Envelope, Type
from amends_pipeline.kernel.errors import OperationError
from amends_pipeline.kernel.instants import day_text
from amends_pipeline.ports import Unit
from amends_pipeline.store.server import DEFAULT_HOME, HOME_VARIABLE

PREVIEWED_ROWS = 20
"""Rows that the UI shows; the file has them all."""

_COLUMNS = {
    "item": "string",
    "location": "string",
    "since": "string",
    "day": "string",
    "close": "Int64",
    "threshold": "Int64",
    "short_by": "UInt64",  # two signed 64-bit integers can be so far apart
}


class Reorder(NamedTuple):
    """A stock key below its threshold: a row of the file."""

    item: str
    location: str
    since: str | None
    """The day of the crossing; None when the key opened below and never came up."""
    day: str | None
    """The day of the latest close; None when none is published: the key is as it opened."""
    close: int
    threshold: int
    short_by: int


# --- the fact


def below_threshold(
    config: NamespaceConfig, partition: int, visible: Iterable[Envelope]
) -> tuple[Sequence[Reorder], int]:
    """Return what is short in a partition, the largest shortage first, and how many are blocked.

    visible: the rows that readers see, days in order. Conflicting records leave the balance of a
    blocked key in doubt, so it is counted and no more.
    """
    keys = config.keys
    alerts: dict[int, int] = {}
    latest: dict[int, Envelope] = {}
    enough: dict[int, int] = {}
    blocked = set()
    for row in visible:
        if keys[row.key].partition != partition:
            continue
        if row.type == Type.ALERT_RAISED:
            alerts[row.key] = row.day
        elif row.type == Type.BALANCE_STATED:
            latest[row.key] = row
            if row.close >= keys[row.key].reorder_threshold:
                enough[row.key] = row.day
        elif row.type == Type.BLOCKED_STATED:
            blocked.add(row.key)
    short = []
    for key, (stock_key, opening, threshold, home) in enumerate(keys):
        close, day = (latest[key].close, latest[key].day) if key in latest else (opening, None)
        if home != partition or key in blocked or close >= threshold:
            continue
        since = alerts.get(key)
        if since is not None and since < enough.get(key, since):
            since = None  # it came back after that alert
        days = _text(since), _text(day)
        short.append(Reorder(*stock_key, *days, close, threshold, threshold - close))
    # Equal shortages stay in the order of their keys.
    return sorted(short, key=lambda row: -row.short_by), len(blocked)


def _text(day: int | None) -> str | None:
    return None if day is None else day_text(day)


# --- the file


def path_of(unit: Unit, home: str | None) -> Path:
    """Return the path of a unit's file; `home` is AMENDS_HOME unless given."""
    folder = Path(home or os.environ.get(HOME_VARIABLE) or DEFAULT_HOME)
    return folder / "exports" / unit.namespace / f"p{unit.partition}" / "open_reorders.parquet"


def write(path: Path, rows: Sequence[Reorder]) -> None:
    """Put the rows into a Parquet file, which is complete whenever it is there.

    Raises OperationError.
    """
    import pandas as pd  # noqa: PLC0415 - half a second that every run of other assets would pay

    frame = pd.DataFrame(rows, columns=[*_COLUMNS]).astype(_COLUMNS)
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        frame.to_parquet(part, index=False)
        part.replace(path)
    except OSError as error:
        found = error.strerror or type(error).__name__
        raise OperationError(f"{path}", expected="a file to write", found=found) from error
    finally:
        with suppress(OSError):  # it is gone, when all went well
            part.unlink()


# --- the asset


@dg.multi_asset(
    name="open_reorders",
    description="Write the stock keys of a unit that are below their threshold now.",
    specs=[OPEN_REORDERS],
)
def open_reorders(
    context: dg.AssetExecutionContext, ledger: LedgerResource
) -> dg.MaterializeResult[None]:
    """One snapshot, one file; a unit that its namespace does not have gets none."""
    described: dg.TableSchema = OPEN_REORDERS.metadata["dagster/column_schema"]
    rows: Sequence[Reorder] = ()
    blocked = frontier = 0
    file, version = "", "none"
    with failing_clearly():
        unit = unit_of(context.partition_key)
        with ledger.open() as opened, opened.store.snapshot(unit.namespace) as moment:
            note = lacking(moment.info(), unit)
            if not note:
                config = moment.config()
                frontier = moment.progress()[unit.partition].view_next
                rows, blocked = below_threshold(config, unit.partition, moment.visible())
                path = path_of(unit, ledger.home).absolute()
                write(path, rows)
                file, version = str(path), f"{config.digest[:16]}@{frontier}"
                note = f"The view as it is at output offset {frontier}."
    return dg.MaterializeResult(
        metadata={
            "note": note,
            "preview": table(
                {column.name: column.description or "" for column in described.columns},
                [_shown(row) for row in rows[:PREVIEWED_ROWS]],
            ),
            "file": file,
            ROW_COUNT: len(rows),
            "excluded_blocked_keys": blocked,
            "view_next_offset": frontier,
        },
        data_version=dg.DataVersion(version),
    )


def _shown(row: Reorder) -> dict[str, str]:
    return {
        name: "" if value is None else cell(str(value)) for name, value in row._asdict().items()
    }
