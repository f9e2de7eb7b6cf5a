"""States of keys in memory: cut on their way out, put together on their way in."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Any, cast

from amends_pipeline.inventory.config import NamespaceConfig
from amends_pipeline.inventory.refold import EVERY_DAY, KeyChange, KeyState, Rows, untouched


def untouched_of(config: NamespaceConfig, key: int) -> KeyState:
    """The state of a key that was never touched."""
    configured = config.keys[key]
    return untouched(key, configured.opening_balance, configured.reorder_threshold)


def suffix(state: KeyState, from_day: int) -> KeyState:
    """A copy of a whole state, less the rows before `from_day`."""
    at = bisect_left(state.rows.days, from_day)
    before = state.rows.closes[at - 1] if at else state.opening
    rows = state.rows.between(at, len(state.rows.days))
    return state._replace(before=before, loaded_from=from_day, rows=rows)


def installed(stored: KeyState, change: KeyChange) -> KeyState:
    """The whole state after a change: its changed rows stand over what stood at their days."""
    state, changed, _ = change
    by_day = _by_day(stored.rows) | _by_day(state.rows.between(*changed))
    ordered = [row for _, row in sorted(by_day.items())]
    rows = Rows(*map(list, zip(*ordered, strict=True))) if ordered else Rows.none()
    return state._replace(before=stored.opening, loaded_from=EVERY_DAY, rows=rows)


def _by_day(rows: Rows) -> dict[int, tuple[Any, ...]]:
    return dict(zip(rows.days, zip(*_columns(rows), strict=True), strict=True))


def _columns(rows: Rows) -> Iterable[list[Any]]:
    return cast("Iterable[list[Any]]", rows)
