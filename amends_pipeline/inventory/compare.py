"""What readers see and what the oracle says, row by row: every row that differs, and how.

Compared are the balances and alerts of keys that are not blocked, statuses with their reasons,
the quarantine byte for byte, and all conflicts in stored evidence. A row that is shown twice
differs too.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, TypeVar

import numpy as np

from amends_pipeline.inventory.config import NamespaceConfig, StockKey
from amends_pipeline.inventory.envelope import Reasons
from amends_pipeline.inventory.oracle import DayRows, OracleResult, Rejected
from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.instants import MAX_DAY, MIN_DAY, day_text
from amends_pipeline.kernel.verdict import Row

_Id = TypeVar("_Id", bound=Hashable)
_Fact = TypeVar("_Fact")


class Key(Row):
    """A stock key in a report."""

    item: str
    location: str


def key_of(config: NamespaceConfig, number: int) -> Key:
    """Name a key number."""
    item, location = config.keys[number].stock_key
    return Key(item=item, location=location)


class Kind(StrEnum):
    """What a difference is about."""

    STATUS = "status"
    CONFLICT = "conflict"
    REJECTION = "rejection"
    ALERT = "alert"
    BALANCE = "balance"


class BalanceFact(Row):
    """A balance's payload."""

    close: int

    def __str__(self) -> str:
        return f"close {self.close}"


class AlertFact(Row):
    """An alert's payload."""

    threshold: int
    close: int

    def __str__(self) -> str:
        return f"close {self.close} below {self.threshold}"


class RevisionFact(Row):
    """A conflict, and a reason for a blocked key."""

    txn_id: str
    revision: int

    def __str__(self) -> str:
        return f"{shown(self.txn_id)} revision {self.revision}"


class StatusFact(Row):
    """A key's status."""

    status: str
    reasons: tuple[RevisionFact, ...]

    def __str__(self) -> str:
        return " ".join([self.status, *(f"({reason})" for reason in self.reasons)])


class RejectionFact(Row):
    """A record in quarantine; key and value are base64."""

    code: str
    key: str | None
    value: str

    def __str__(self) -> str:
        key = "no key" if self.key is None else f"key {shown(self.key)}"
        return f"{self.code}, {key}, value {shown(self.value)}"


Fact = BalanceFact | AlertFact | StatusFact | RejectionFact | RevisionFact


class Difference(Row):
    """A row that the oracle expects and readers do not find, find otherwise, or should not find."""

    kind: Kind
    item: str | None = None
    location: str | None = None
    day: str | None = None
    """UTC, YYYY-MM-DD; of balances and alerts, and of a status that stands at one."""
    partition: int
    offset: int | None = None
    """Of rejections."""
    expected: Fact | None
    found: Fact | None


class FoundStatus(NamedTuple):
    """A key's status as readers see it."""

    key: int
    day: int | None
    """The day that it stands at, where it should have none."""
    blocked: bool
    reasons: Reasons


class FoundConflict(NamedTuple):
    """A conflict in stored evidence. Its key may be one that is not configured."""

    item: str
    location: str
    txn_id: str
    revision: int


class Found(NamedTuple):
    """What readers see, and the evidence that is stored beside it."""

    balances: DayRows
    alerts: DayRows
    statuses: Sequence[FoundStatus]
    rejections: Sequence[Rejected]
    conflicts: Sequence[FoundConflict]


def differences(config: NamespaceConfig, expected: OracleResult, found: Found) -> list[Difference]:
    """Return every row that differs: statuses first, which explain most, balances last.

    Rows of one kind stand in the order of keys and days, of keys, txn_id and revision, or of
    partitions and offsets.
    """
    return [
        *_differing_statuses(config, expected, found),
        *_differing_conflicts(config, expected, found),
        *_differing_rejections(expected, found),
        *_differing_alerts(config, expected, found),
        *_differing_balances(config, expected, found),
    ]


def _differing(
    expected: Mapping[_Id, _Fact], found: Iterable[tuple[_Id, _Fact]]
) -> Iterator[tuple[_Id, _Fact | None, _Fact | None]]:
    """Pair facts by their identity; yield the pairs that are not equal, None for a missing one."""
    missing = dict(expected)
    for identity, fact in found:
        wanted = missing.pop(identity, None)
        if wanted != fact:
            yield identity, wanted, fact
    for identity, wanted in missing.items():
        yield identity, wanted, None


def _differing_statuses(
    config: NamespaceConfig, expected: OracleResult, found: Found
) -> Iterator[Difference]:
    def fact(status: tuple[bool, Reasons] | None) -> StatusFact | None:
        if status is None:
            return None
        blocked, reasons = status
        return StatusFact(
            status="BLOCKED" if blocked else "READY",
            reasons=tuple(RevisionFact(txn_id=txn, revision=number) for txn, number in reasons),
        )

    def place(row: tuple[tuple[int, int | None], object, object]) -> tuple[int, bool, int]:
        (key, day), *_ = row
        return key, day is not None, day or 0

    no_day: int | None = None
    wanted = {(key, no_day): (bool(each), each) for key, each in expected.statuses.items()}
    stated = (((each.key, each.day), (each.blocked, each.reasons)) for each in found.statuses)
    for (key, day), one, other in sorted(_differing(wanted, stated), key=place):
        yield _of_key(config, Kind.STATUS, key, day, fact(one), fact(other))


def _differing_conflicts(
    config: NamespaceConfig, expected: OracleResult, found: Found
) -> Iterator[Difference]:
    wanted = {
        FoundConflict(*config.keys[key].stock_key, txn_id, revision): True
        for key, txn_id, revision in expected.conflicts
    }

    def place(conflict: FoundConflict) -> tuple[str, str, int]:
        item, location, txn_id, revision = conflict
        return StockKey(item, location).encoded, txn_id, revision

    rows = _differing(wanted, ((conflict, True) for conflict in found.conflicts))
    for conflict, one, other in sorted(rows, key=lambda row: place(row[0])):
        item, location, txn_id, revision = conflict
        fact = RevisionFact(txn_id=txn_id, revision=revision)
        yield Difference(
            kind=Kind.CONFLICT,
            item=item,
            location=location,
            partition=config.partition_of((item, location)),
            expected=fact if one else None,
            found=fact if other else None,
        )


def _differing_rejections(expected: OracleResult, found: Found) -> Iterator[Difference]:
    def by_place(rows: Iterable[Rejected]) -> Iterator[tuple[tuple[int, int], Rejected]]:
        return (((row.partition, row.offset), row) for row in rows)

    def fact(row: Rejected | None) -> RejectionFact | None:
        if row is None:
            return None
        key = None if row.raw_key is None else b64encode(row.raw_key).decode()
        return RejectionFact(code=row.code, key=key, value=b64encode(row.value).decode())

    rows = _differing(dict(by_place(expected.rejections)), by_place(found.rejections))
    for (partition, offset), one, other in sorted(rows, key=lambda row: row[0]):
        yield Difference(
            kind=Kind.REJECTION,
            partition=partition,
            offset=offset,
            expected=fact(one),
            found=fact(other),
        )


def _differing_alerts(
    config: NamespaceConfig, expected: OracleResult, found: Found
) -> Iterator[Difference]:
    for key, day, one, other in _differing_days(expected, expected.alerts, found.alerts):
        threshold = config.keys[key].reorder_threshold
        facts = (
            None if close is None else AlertFact(threshold=threshold, close=close)
            for close in (one, other)
        )
        yield _of_key(config, Kind.ALERT, key, day, *facts)


def _differing_balances(
    config: NamespaceConfig, expected: OracleResult, found: Found
) -> Iterator[Difference]:
    for key, day, one, other in _differing_days(expected, expected.balances, found.balances):
        facts = (None if close is None else BalanceFact(close=close) for close in (one, other))
        yield _of_key(config, Kind.BALANCE, key, day, *facts)


def _of_key(  # noqa: PLR0913, PLR0917 - a difference has these members
    config: NamespaceConfig,
    kind: Kind,
    key: int,
    day: int | None,
    expected: Fact | None,
    found: Fact | None,
) -> Difference:
    (item, location), _, _, partition = config.keys[key]
    return Difference(
        kind=kind,
        item=item,
        location=location,
        day=None if day is None else _day(day),
        partition=partition,
        expected=expected,
        found=found,
    )


def _day(day: int) -> str:
    """A day as people write it; a stored one may be none at all."""
    return day_text(day) if MIN_DAY <= day <= MAX_DAY else f"day number {day}"


def _differing_days(
    result: OracleResult, expected: DayRows, found: DayRows
) -> list[tuple[int, int, int | None, int | None]]:
    """Each (key, day, expected close, found close) that differs, blocked keys left out."""
    certain = ~np.isin(found.keys, result.blocked())
    found = DayRows(found.keys[certain], found.days[certain], found.closes[certain])
    if _equal(expected, found):
        return []
    wanted, seen = _unpaired(expected, found)
    rows = _differing(
        {(key, day): close for key, day, close in wanted.rows()},
        (((key, day), close) for key, day, close in seen.rows()),
    )
    return sorted(
        ((key, day, one, other) for (key, day), one, other in rows), key=lambda row: row[:2]
    )


def _equal(expected: DayRows, found: DayRows) -> bool:
    """Tell whether both say the same; the expected rows are in order."""
    if len(expected.keys) != len(found.keys):
        return False
    order = np.lexsort((found.days, found.keys))
    return all(
        np.array_equal(one, other[order])
        for one, other in (
            (expected.keys, found.keys),
            (expected.days, found.days),
            (expected.closes, found.closes),
        )
    )


def _unpaired(expected: DayRows, found: DayRows) -> tuple[DayRows, DayRows]:
    """Drop the rows that stand on both sides, by columns: there are millions, and few differ."""
    columns = tuple(
        np.concatenate(pair)
        for pair in (
            (expected.keys, found.keys),
            (expected.days, found.days),
            (expected.closes, found.closes),
        )
    )
    side = np.repeat([0, 1], [len(expected.keys), len(found.keys)])
    # Equal rows come together, the expected one first.
    order = np.lexsort((side, *reversed(columns)))
    side = side[order]
    paired = side[1:] > side[:-1]
    for column in columns:
        paired &= column[order][1:] == column[order][:-1]
    kept = np.ones(len(order), dtype=np.bool_)
    kept[1:] &= ~paired
    kept[:-1] &= ~paired
    keys, days, closes = (column[order] for column in columns)
    wanted, seen = (kept & (side == each) for each in (0, 1))
    return (
        DayRows(keys[wanted], days[wanted], closes[wanted]),
        DayRows(keys[seen], days[seen], closes[seen]),
    )
