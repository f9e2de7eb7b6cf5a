"""What was committed, against what is now true: the versioned publications that close the gap.

Versions are per output id, start at 1 and have no gaps. Only a changed payload gets a new one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from amends_pipeline.inventory.envelope import Type
from amends_pipeline.inventory.refold import Rows, Span


class Publication(NamedTuple):
    """A changed output of a key's day, without its cause."""

    type: Type
    day: int
    version: int
    close: int


def reconcile(old: Rows, new: Rows, span: Span) -> tuple[Rows, list[Publication]]:
    """Compare published columns of the same days and allocate versions where they differ.

    `old` and `new` have equal `days` and equal versions; only rows in `span` are looked at.
    Returns `new` with its versions moved on, and the publications in the order of their encoded
    ids: alerts by day, then balances by day.
    """
    balance_versions = new.balance_versions
    alert_versions = new.alert_versions
    alerts: list[Publication] = []
    balances: list[Publication] = []
    for i in range(*span):
        same_close = old.closes[i] == new.closes[i]
        if new.alerting[i]:
            if not (old.alerting[i] and same_close):
                alerts.append(_publication(Type.ALERT_RAISED, new, i, alert_versions[i]))
        elif old.alerting[i]:
            alerts.append(_publication(Type.ALERT_RETRACTED, new, i, alert_versions[i]))
        if new.present[i]:
            if not (old.present[i] and same_close):
                balances.append(_publication(Type.BALANCE_STATED, new, i, balance_versions[i]))
        elif old.present[i]:
            balances.append(_publication(Type.BALANCE_RETRACTED, new, i, balance_versions[i]))
    versioned = new._replace(
        balance_versions=_moved_on(balance_versions, new.days, balances, span),
        alert_versions=_moved_on(alert_versions, new.days, alerts, span),
    )
    return versioned, alerts + balances


def _publication(kind: Type, rows: Rows, i: int, version: int) -> Publication:
    stated = kind in (Type.ALERT_RAISED, Type.BALANCE_STATED)
    return Publication(kind, rows.days[i], version + 1, rows.closes[i] if stated else 0)


def _moved_on(
    versions: list[int], days: list[int], published: list[Publication], span: Span
) -> list[int]:
    if not published:
        return versions
    moved = versions.copy()
    position = span.start
    for publication in published:
        position = days.index(publication.day, position)
        moved[position] = publication.version
    return moved


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
