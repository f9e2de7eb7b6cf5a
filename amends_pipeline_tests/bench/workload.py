"""Seeded logs of any size, as files: late corrections, cancellations, moves, conflicts, repeats.

Quantities are drawn around zero, days uniformly over the horizon. A transaction is told soon after
it is valid, one record in ten corrects an earlier one a good while later (exponential times, both
in proportion to the horizon), one in a thousand is an exact repetition, and two transactions are
in conflict. Equal shapes give equal bytes.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np

ORIGIN = date(2024, 1, 1)
DAY_SECONDS = 86_400
OPENING, THRESHOLD = 100, 60
CORRECTING = 0.1
CANCELLING, MOVING_KEY, MOVING_DAY = 0.2, 0.02, 0.1
"""Parts of the corrections."""
REPEATED = 0.001
LATENESS = 0.003
"""Mean time from validity to the first record, as a part of the horizon."""
HINDSIGHT = 0.1
"""Mean time from there to a correction, as a part of the horizon."""
CONFLICTS = 2
MOST_CORRECTIONS = 20_000
FORMAT = 2
"""Counts the changes of this module that change bytes."""


class Shape(NamedTuple):
    """What a workload is drawn from."""

    name: str
    keys: int
    days: int
    records: int
    seed: int
    zipf: float = 0.0
    """Exponent of the keys' popularity; 0 makes all alike."""

    def scaled(self, factor: float) -> Shape:
        """As many records a key, of fewer keys."""
        if factor == 1:
            return self
        keys = max(3, round(self.keys * factor))
        records = max(60, round(self.records * factor))
        return self._replace(keys=keys, records=records)


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("100k", keys=100, days=365, records=100_000, seed=7),
        Shape("1m", keys=1_000, days=365, records=1_000_000, seed=7),
        Shape("5m", keys=5_000, days=365, records=5_000_000, seed=7),
        Shape("deep", keys=100, days=3_650, records=1_000_000, seed=8),
        Shape("wide", keys=100_000, days=365, records=1_000_000, seed=9),
        Shape("hot", keys=1_000, days=365, records=1_000_000, seed=10, zipf=1.1),
    )
}


@dataclass(frozen=True)
class Workload:
    """A log and its late corrections, as files of one record a line."""

    shape: Shape
    records_file: Path
    corrections_file: Path
    """AMENDs of distinct transactions, drawn uniformly over the history."""
    warming_file: Path
    """One AMEND a key, of its earliest transaction; none of them is corrected again."""

    @property
    def name(self) -> str:
        """The shape's name, which is the namespace's too."""
        return self.shape.name

    @property
    def conflicting(self) -> range:
        """The numbers of the keys that end in conflict: the last ones, where there are enough."""
        keys = self.shape.keys
        return range(keys - CONFLICTS if keys > CONFLICTS + 2 else keys, keys)

    def configuration(self, namespace: str) -> dict:
        """The document of a namespace over the workload's source."""
        return {
            "schema_version": 1,
            "namespace": namespace,
            "source": f"{self.name}-feed",
            "partitions": 1,
            "origin": f"{ORIGIN}T00:00:00Z",
            "keys": [
                {
                    "stock_key": {"item": item_of(key), "location": "WH-01"},
                    "opening_balance": OPENING,
                    "reorder_threshold": THRESHOLD,
                }
                for key in range(self.shape.keys)
            ],
        }

    def lines(self) -> Iterator[bytes]:
        """The records in order of arrival."""
        with self.records_file.open("rb") as file:
            for line in file:
                yield line[:-1]

    def corrections(self, start: int, count: int) -> list[bytes]:
        """`count` corrections from number `start` on."""
        found = self.corrections_file.read_bytes().splitlines()[start : start + count]
        if len(found) < count:
            expected = f"{start + count} corrections"
            raise ValueError(f"{self.corrections_file}: expected {expected}, found fewer")
        return found

    def warming(self) -> list[bytes]:
        """The warming corrections."""
        return self.warming_file.read_bytes().splitlines()


def item_of(key: int) -> str:
    return f"SKU-{key:06d}"


def record(  # noqa: PLR0917 - the members of a record, in their order
    txn: str, revision: int, kind: str, key: int, valid: int, qty: int, told: int
) -> bytes:
    """One line. `valid` and `told` are seconds since the origin."""
    return (
        f'{{"txn_id":"{txn}","revision":{revision},"kind":"{kind}",'
        f'"stock_key":{{"item":"SKU-{key:06d}","location":"WH-01"}},'
        f'"valid_time":"{_text(valid)}","qty":{qty},"source_time":"{_text(told)}"}}'
    ).encode()


_DAYS: dict[int, str] = {}


def _text(seconds: int) -> str:
    number, second = divmod(seconds, DAY_SECONDS)
    day = _DAYS.get(number)
    if day is None:
        day = _DAYS[number] = (ORIGIN + timedelta(number)).isoformat()
    minute, second = divmod(second, 60)
    hour, minute = divmod(minute, 60)
    return f"{day}T{hour:02d}:{minute:02d}:{second:02d}Z"


def workload(shape: Shape, folder: Path) -> Workload:
    """The workload's files, made unless they are there."""
    mark = hashlib.sha256(json.dumps([FORMAT, *shape]).encode()).hexdigest()[:12]
    home = folder / f"{shape.name}-{mark}"
    if not home.exists():
        folder.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix="draft-", dir=folder))
        _write(shape, draft)
        try:
            draft.rename(home)
        except OSError:  # another harness was first, with the same bytes
            shutil.rmtree(draft)
    files = (home / f"{name}.jsonl" for name in ("records", "corrections", "warming"))
    return Workload(shape, *files)


@dataclass
class Draft:
    """Drawn transactions, a column a member; rows of one index belong together."""

    key: np.ndarray
    valid: np.ndarray
    qty: np.ndarray
    told: np.ndarray

    @classmethod
    def drawn(cls, shape: Shape, count: int, draw: np.random.Generator) -> Draft:
        """`count` transactions."""
        horizon = shape.days * DAY_SECONDS
        if shape.zipf:
            weight = 1 / np.arange(1, shape.keys + 1) ** shape.zipf
            key = draw.choice(shape.keys, count, p=weight / weight.sum())
        else:
            key = draw.integers(0, shape.keys, count)
        valid = draw.integers(0, horizon, count)
        late = draw.exponential(LATENESS * horizon, count).astype(np.int64)
        return cls(key, valid, draw.integers(-20, 21, count), valid + late)


@dataclass
class Corrections:
    """Drawn corrections of a draft: which transaction, when, and what."""

    target: np.ndarray
    told: np.ndarray
    revision: np.ndarray
    cancels: np.ndarray
    key: np.ndarray
    valid: np.ndarray
    qty: np.ndarray

    @classmethod
    def drawn(
        cls, shape: Shape, draft: Draft, count: int, draw: np.random.Generator
    ) -> Corrections:
        """`count` corrections in the order in which they are told."""
        horizon = shape.days * DAY_SECONDS
        target = draw.integers(0, len(draft.key), count)
        late = draw.exponential(HINDSIGHT * horizon, count).astype(np.int64) + 1
        told = draft.told[target] + late
        order = np.argsort(told, kind="stable")
        target, told = target[order], told[order]
        moved_day = draw.random(count) < MOVING_DAY
        moved_key = draw.random(count) < MOVING_KEY
        valid = np.where(moved_day, draw.integers(0, horizon, count), draft.valid[target])
        elsewhere = (draft.key[target] + 1 + draw.integers(0, shape.keys - 1, count)) % shape.keys
        return cls(
            target,
            told,
            _ranks(target) + 2,
            (draw.random(count) < CANCELLING) | moved_key,
            np.where(moved_key, elsewhere, draft.key[target]),
            valid,
            draw.integers(-20, 21, count),
        )


def _ranks(values: np.ndarray) -> np.ndarray:
    """How many equal values stand before each."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    starts = np.r_[0, np.flatnonzero(np.diff(ordered)) + 1]
    counts = np.diff(np.r_[starts, len(ordered)])
    ranks = np.empty(len(values), np.int64)
    ranks[order] = np.arange(len(values)) - np.repeat(starts, counts)
    return ranks


def _write(shape: Shape, home: Path) -> None:
    draw = np.random.Generator(np.random.PCG64(shape.seed))
    correcting = round(shape.records * CORRECTING)
    draft = Draft.drawn(shape, shape.records - correcting, draw)
    corrections = Corrections.drawn(shape, draft, correcting, draw)
    at = np.r_[draft.told, corrections.told]
    order = np.argsort(at, kind="stable")
    repeats = set(draw.integers(0, len(order), round(shape.records * REPEATED)).tolist())
    with (home / "records.jsonl").open("wb") as file:
        for place, line in enumerate(_told(draft, corrections, order.tolist())):
            file.write(line + b"\n")
            if place in repeats:
                file.write(line + b"\n")
        made = Workload(shape, *([home] * 3))
        for key in made.conflicting:
            for qty in (-5, -6):
                now = int(at.max())
                file.write(record(f"C{key:07d}", 1, "NEW", key, now, qty, now + 1) + b"\n")
    _write_late(draft, corrections, home, int(at.max()), list(made.conflicting), draw)


def _told(draft: Draft, corrections: Corrections, order: list[int]) -> Iterator[bytes]:
    """Lines in the order of arrival; a move of key is a cancellation and a new record."""
    columns = [draft.key, draft.valid, draft.qty, draft.told]
    key, valid, qty, told = (column.tolist() for column in columns)
    base = len(key)
    later = [
        column.tolist()
        for column in (
            corrections.target,
            corrections.told,
            corrections.revision,
            corrections.cancels,
            corrections.key,
            corrections.valid,
            corrections.qty,
        )
    ]
    for at in order:
        if at < base:
            yield record(f"T{at:07d}", 1, "NEW", key[at], valid[at], qty[at], told[at])
            continue
        target, when, revision, cancels, new_key, new_valid, new_qty = (
            column[at - base] for column in later
        )
        txn = f"T{target:07d}"
        if cancels:
            yield record(txn, revision, "CANCEL", key[target], valid[target], 0, when)
        else:
            yield record(txn, revision, "AMEND", key[target], new_valid, new_qty, when)
        if new_key != key[target]:
            yield record(f"{txn}-{revision}", 1, "NEW", new_key, new_valid, new_qty, when)


def _write_late(  # noqa: PLR0917 - what the files are made of
    draft: Draft,
    corrections: Corrections,
    home: Path,
    now: int,
    blocked: list[int],
    draw: np.random.Generator,
) -> None:
    """Corrections that come after the log, of transactions that are not in conflict."""
    revision = np.ones(len(draft.key), np.int64)
    np.maximum.at(revision, corrections.target, corrections.revision)
    order = np.lexsort((draft.valid, draft.key))
    _, firsts = np.unique(draft.key[order], return_index=True)
    first_of_key = order[firsts]
    first_of_key = first_of_key[~np.isin(draft.key[first_of_key], blocked)]
    free = np.ones(len(draft.key), bool)
    free[first_of_key] = False
    free &= ~np.isin(draft.key, blocked)
    chosen = draw.permutation(np.flatnonzero(free))[:MOST_CORRECTIONS]
    for name, targets in (("corrections", chosen), ("warming", first_of_key)):
        with (home / f"{name}.jsonl").open("wb") as file:
            for at in targets.tolist():
                qty = int(draw.integers(21, 41))
                line = record(
                    f"T{at:07d}",
                    int(revision[at]) + 1,
                    "AMEND",
                    int(draft.key[at]),
                    int(draft.valid[at]),
                    qty,
                    now + 2,
                )
                file.write(line + b"\n")
