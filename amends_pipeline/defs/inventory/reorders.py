"""An example of what to build on the view: the stock keys that should be ordered again.

It reads what every reader sees, at one moment, and nothing of the ledger behind it. Copy it: a fact
of your own is a pure function and a file, an entry of `catalog.py` that depends on the view, and an
asset like the one in `refreshing.py`, which follows the view by itself.
"""

import os
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import dagster as dg

from amends_pipeline.defs.catalog import OPEN_REORDERS
from amends_pipeline.defs.inventory.metadata import ROW_COUNT, Metadata, cell, table
from amends_pipeline.inventory.config import NamespaceConfig
from amends_pipeline.inventory.envelope import Envelope, Type
from amends_pipeline.kernel.errors import OperationError
from amends_pipeline.kernel.instants import day_text
from amends_pipeline.ports import Snapshot, Unit
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


class Below(NamedTuple):
    """What is short in a partition."""

    rows: Sequence[Reorder]
    """The largest shortage first; equal ones in the order of their keys."""
    blocked: int
    """Blocked keys. Conflicting records leave their balance in doubt: they are counted, no more."""


def below_threshold(
    config: NamespaceConfig, partitions: Collection[int], visible: Iterable[Envelope]
) -> Mapping[int, Below]:
    """Return what is short in each of some partitions.

    visible: the rows that readers see of the namespace, days in order. They are gone through once.
    """
    keys = config.keys
    alerts: dict[int, int] = {}
    latest: dict[int, Envelope] = {}
    enough: dict[int, int] = {}
    blocked = set()
    for row in visible:
        if keys[row.key].partition not in partitions:
            continue
        if row.type == Type.ALERT_RAISED:
            alerts[row.key] = row.day
        elif row.type == Type.BALANCE_STATED:
            latest[row.key] = row
            if row.close >= keys[row.key].reorder_threshold:
                enough[row.key] = row.day
        elif row.type == Type.BLOCKED_STATED:
            blocked.add(row.key)
    short: dict[int, list[Reorder]] = {partition: [] for partition in partitions}
    for key, (stock_key, opening, threshold, home) in enumerate(keys):
        close, day = (latest[key].close, latest[key].day) if key in latest else (opening, None)
        if home not in short or key in blocked or close >= threshold:
            continue
        since = alerts.get(key)
        if since is not None and since < enough.get(key, since):
            since = None  # it came back after that alert
        days = _text(since), _text(day)
        short[home].append(Reorder(*stock_key, *days, close, threshold, threshold - close))
    counts = Counter(keys[key].partition for key in blocked)
    return {
        partition: Below(sorted(rows, key=lambda row: -row.short_by), counts[partition])
        for partition, rows in short.items()
    }


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


# --- what was made


class Made(NamedTuple):
    """The file of a unit as it was made."""

    note: str
    below: Below = Below((), 0)
    frontier: int = 0
    file: str = ""
    version: str = "none"

    @property
    def metadata(self) -> Metadata:
        """What the asset tells of it; the same keys where there was nothing to make."""
        return {
            "note": self.note,
            "preview": table(
                {column.name: column.description or "" for column in _DESCRIBED.columns},
                [_shown(row) for row in self.below.rows[:PREVIEWED_ROWS]],
            ),
            "file": self.file,
            ROW_COUNT: len(self.below.rows),
            "excluded_blocked_keys": self.below.blocked,
            "view_next_offset": self.frontier,
        }


_DESCRIBED: dg.TableSchema = OPEN_REORDERS.metadata["dagster/column_schema"]


def make(
    moment: Snapshot, namespace: str, partitions: Collection[int], home: str | None
) -> Iterator[tuple[Unit, Made]]:
    """Write the file of each of some units of a namespace, all from one moment.

    Raises OperationError.
    """
    config = moment.config()
    progress = moment.progress()
    for partition, below in below_threshold(config, partitions, moment.visible()).items():
        unit = Unit(namespace, partition)
        frontier = progress[partition].view_next
        path = path_of(unit, home).absolute()
        write(path, below.rows)
        note = f"The view as it is at output offset {frontier}."
        yield unit, Made(note, below, frontier, str(path), version_of(config.digest, frontier))


def version_of(digest: str, frontier: int) -> str:
    """Name the content of a unit's file: the same view has the same."""
    return f"{digest[:16]}@{frontier}"


def _shown(row: Reorder) -> dict[str, str]:
    return {
        name: "" if value is None else cell(str(value)) for name, value in row._asdict().items()
    }
