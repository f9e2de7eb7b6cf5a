"""What was committed, against what is now true: the versioned publications that close the gap.

Versions are per output id, start at 1 and have no gaps. Only a changed payload gets a new one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import compress
from operator import add, mul, ne
from typing import Final, NamedTuple

from amends_pipeline.inventory.envelope import Type
from amends_pipeline.inventory.refold import Rows, Span


class Publication(NamedTuple):
    """A changed output of a key's day, without its cause."""

    type: Type
    day: int
    version: int
    close: int


class Publications(NamedTuple):
    """Changed outputs of a key's days, as columns of equal length: types, days, versions, closes.

    A late correction may change hundreds of them, and nobody looks at them one by one.
    """

    types: list[int]
    days: list[int]
    versions: list[int]
    closes: list[int]

    def one_by_one(self) -> Iterator[Publication]:
        """The same as values."""
        columns = zip(*self, strict=True)
        return (Publication(Type(type_), *rest) for type_, *rest in columns)


def reconcile(old: Rows, new: Rows, span: Span) -> tuple[Rows, Publications]:
    """Compare published columns of the same days and allocate versions where they differ.

    `old` and `new` have equal `days` and equal versions; only rows in `span` are looked at.
    Returns `new` with its versions moved on, and the publications in the order of their encoded
    ids: alerts by day, then balances by day.
    """
    part = slice(*span)
    closes = new.closes[part]
    facts = _Facts(new.days[part], closes, list(map(ne, old.closes[part], closes)))
    alert_versions, alerts = facts.compare(
        old.alerting[part], new.alerting[part], new.alert_versions[part], _ALERTS
    )
    balance_versions, balances = facts.compare(
        old.present[part], new.present[part], new.balance_versions[part], _BALANCES
    )
    versioned = new._replace(
        balance_versions=_with(new.balance_versions, span, balance_versions),
        alert_versions=_with(new.alert_versions, span, alert_versions),
    )
    return versioned, Publications(*map(add, alerts, balances))


_ALERTS: Final = (int(Type.ALERT_RETRACTED), int(Type.ALERT_RAISED))
_BALANCES: Final = (int(Type.BALANCE_RETRACTED), int(Type.BALANCE_STATED))
"""What is said of an output that is withdrawn, and of one that is stated."""


class _Facts(NamedTuple):
    """Consecutive rows: what outputs of each family are made of."""

    days: list[int]
    closes: list[int]
    moved: list[bool]
    """Whether the close is another one than before."""

    def compare(
        self, was: list[bool], now: list[bool], versions: list[int], types: tuple[int, int]
    ) -> tuple[list[int], Publications]:
        """Versions after it, and what to publish, of outputs that were and are stated or not."""
        if True not in was and True not in now:
            return versions, Publications([], [], [], [])
        differs = [
            stated is not before or (stated and moved)
            for before, stated, moved in zip(was, now, self.moved, strict=True)
        ]
        versions = list(map(add, versions, differs))
        stated = list(compress(now, differs))
        published = Publications(
            [types[each] for each in stated],
            list(compress(self.days, differs)),
            list(compress(versions, differs)),
            list(map(mul, compress(self.closes, differs), stated)),
        )
        return versions, published


def _with(column: list[int], span: Span, part: list[int]) -> list[int]:
    return column[: span.start] + part + column[span.stop :]


class Change(NamedTuple):
    """A record, by its position in the slice, changed the total or the activity of `day`."""

    day: int
    record: int


class Causes:
    """For a day, the last record of the slice that changed that day or an earlier one."""

    def __init__(self, changes: Sequence[Change]) -> None:
        self._days: list[int] = []
        self._records: list[int] = []
        for day, record in sorted(changes):
            if not self._records or record > self._records[-1]:
                self._days.append(day)
                self._records.append(record)

    def of(self, day: int) -> int:
        """Position of the causing record. Every published day has one."""
        return self._records[bisect_right(self._days, day) - 1]

    def of_each(self, days: Sequence[int]) -> list[int]:
        """The same of many days."""
        if len(self._records) == 1:
            return self._records * len(days)
        return list(map(self.of, days))
