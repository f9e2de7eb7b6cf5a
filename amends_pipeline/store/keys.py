"""State of stock keys: one head row each, and pages of days."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import numpy as np

from amends_pipeline.inventory.config import NamespaceConfig
from amends_pipeline.inventory.decision import Decision
from amends_pipeline.inventory.key_columns import KeyChanges
from amends_pipeline.inventory.known_keys import KnownKeys
from amends_pipeline.inventory.refold import (
    EVERY_DAY,
    KeyChange,
    KeyState,
    Status,
    untouched,
)
from amends_pipeline.kernel.errors import InputError
from amends_pipeline.kernel.integers import MAX_INT64
from amends_pipeline.store import arrays, keys_together, page_columns, pages
from amends_pipeline.store.at_once import Executes
from amends_pipeline.store.pages import NO_PAGE
from amends_pipeline.store.postgres import Connection

MANY: Final = 24
"""From that many keys on, reading them as columns is quicker."""

# The page that a wanted day lies on may be missing; the one before it holds the entering balance.
# OFFSET 0 keeps the planner from turning the loops inside out while it knows nothing of the tables.
SELECT_KEYS: Final = """
SELECT w.key, w.page, h.*, p.*
FROM unnest(%(keys)s::int4[], %(pages)s::int4[]) AS w (key, page)
CROSS JOIN LATERAL (
    SELECT status, status_version, peak, first_page, reason_txn_ids, reason_revisions
    FROM amends.key_head WHERE unit_id = %(unit)s AND key = w.key OFFSET 0
) h
CROSS JOIN LATERAL (
    SELECT coalesce(max(page), w.page) AS page FROM amends.key_page
    WHERE unit_id = %(unit)s AND key = w.key AND page <= w.page OFFSET 0
) f
LEFT JOIN LATERAL (
    SELECT page, body FROM amends.key_page
    WHERE unit_id = %(unit)s AND key = w.key AND page >= f.page OFFSET 0
) p ON true
ORDER BY w.key, p.page
"""
# A suffix of days says nothing about the pages before it, so the first page only ever moves back.
SAVE_HEADS: Final = """
INSERT INTO amends.key_head AS h (unit_id, key, status, status_version, peak, first_page)
SELECT %s, * FROM unnest(%s::int4[], %s::int2[], %s::int8[], %s::int8[], %s::int4[])
ON CONFLICT (unit_id, key) DO UPDATE SET status = excluded.status,
    status_version = excluded.status_version, peak = excluded.peak,
    first_page = least(h.first_page, excluded.first_page),
    reason_txn_ids = NULL, reason_revisions = NULL
"""
SAVE_REASONS: Final = """
UPDATE amends.key_head SET reason_txn_ids = %s::text[], reason_revisions = %s::int8[]
WHERE unit_id = %s AND key = %s
"""
SAVE_PAGES: Final = """
INSERT INTO amends.key_page (unit_id, key, page, body)
SELECT %s, * FROM unnest(%s::int4[], %s::int4[], %s::bytea[])
ON CONFLICT (unit_id, key, page) DO UPDATE SET body = excluded.body
"""


# --- reading


def load_keys(
    connection: Connection, unit_id: int, config: NamespaceConfig, from_days: Mapping[int, int]
) -> Mapping[int, KeyState]:
    """State of each key, its rows from the page on that holds the wanted day, or an earlier one."""
    if len(from_days) < MANY:
        return _load(connection, unit_id, config, from_days)
    for key in (min(from_days), max(from_days)):
        _untouched(config, key)
    columns, odd = keys_together.load(connection, unit_id, config, from_days)
    if not odd:
        return columns
    loaded = KnownKeys(columns)
    loaded.put(_load(connection, unit_id, config, odd))
    return loaded


def _load(
    connection: Connection, unit_id: int, config: NamespaceConfig, from_days: Mapping[int, int]
) -> Mapping[int, KeyState]:
    states = {key: _untouched(config, key) for key in from_days}
    wanted = {
        "unit": unit_id,
        "keys": arrays.int4s(list(from_days)),
        "pages": arrays.int4s([pages.page_of(day) for day in from_days.values()]),
    }
    rows = connection.execute(SELECT_KEYS, wanted, binary=True)
    for key, group in groupby(rows, key=itemgetter(0)):
        states[key] = _state(states[key], list(group))
    return states


def _untouched(config: NamespaceConfig, key: int) -> KeyState:
    if not 0 <= key < len(config.keys):
        expected = f"a key number below {len(config.keys)}"
        raise InputError(f"namespace {config.namespace}", expected=expected, found=str(key))
    configured = config.keys[key]
    return untouched(key, configured.opening_balance, configured.reorder_threshold)


def _state(fresh: KeyState, rows: Sequence[tuple[Any, ...]]) -> KeyState:
    _, wanted, status, status_version, peak, first_page, txn_ids, revisions, page, _ = rows[0]
    if page is None:
        before, days = pages.load((), fresh.opening)
        whole = True
    else:
        before, days = pages.load(((row[-2], row[-1]) for row in rows), fresh.opening)
        whole = min(page, wanted) <= first_page
    return fresh._replace(
        status=Status(status),
        status_version=status_version,
        reasons=tuple(zip(txn_ids or (), revisions or (), strict=True)),
        peak=-peak,
        before=fresh.opening if whole else before,
        loaded_from=EVERY_DAY if whole else pages.first_day(min(page, wanted)),
        rows=days,
    )


# --- writing


def have_reasons(decisions: Sequence[Decision]) -> bool:
    """Whether a key is blocked at the end of any of them, which takes a second look at its head."""
    return any(
        change.state.reasons for decision in decisions for change in _values(decision.keys).values()
    )


def _values(changes: Mapping[int, KeyChange]) -> Mapping[int, KeyChange]:
    """Those that do not stand in columns. What does has no reasons."""
    return changes.apart if isinstance(changes, KeyChanges) else changes


def save_keys(to: Executes, unit_id: int, decisions: Sequence[Decision]) -> None:
    """Write heads and touched pages of all keys that consecutive decisions changed."""
    if len(decisions) == 1 and isinstance(decisions[0].keys, KeyChanges):
        together = decisions[0].keys
        _save_together(to, unit_id, together)
        _save(to, unit_id, {key: [change] for key, change in together.apart.items()})
        return
    changes: dict[int, list[KeyChange]] = {}
    for decision in decisions:
        for key, change in decision.keys.items():
            changes.setdefault(key, []).append(change)
    _save(to, unit_id, changes)


def _save(to: Executes, unit_id: int, changes: Mapping[int, Sequence[KeyChange]]) -> None:
    if not changes:
        return
    states = [
        history[-1].state
        for history in changes.values()
        if any(change.headed for change in history)
    ]
    if states:
        parameters = [
            arrays.int4s([state.key for state in states]),
            arrays.int2s([state.status for state in states]),
            arrays.int8s([state.status_version for state in states]),
            # Stored below 0, where 64 bits reach one further: a balance may be -2^63.
            arrays.int8s([-min(state.peak, MAX_INT64 + 1) for state in states]),
            arrays.int4s([_first_page(state) for state in states]),
        ]
        to.execute(SAVE_HEADS, (unit_id, *parameters))
    for state in states:
        if state.reasons:
            txn_ids, revisions = zip(*state.reasons, strict=True)
            parameters = [arrays.texts(txn_ids), arrays.int8s(revisions)]
            to.execute(SAVE_REASONS, (*parameters, unit_id, state.key))
    written = pages.writes(changes)
    if written:
        keys = arrays.int4s([key for key, _, _ in written])
        numbers = arrays.int4s([page for _, page, _ in written])
        bodies = arrays.blobs([body for _, _, body in written])
        to.execute(SAVE_PAGES, (unit_id, keys, numbers, bodies))


def _first_page(state: KeyState) -> int:
    days = state.rows.days
    return pages.page_of(days[0]) if days else NO_PAGE


def _save_together(to: Executes, unit_id: int, changes: KeyChanges) -> None:
    headed = np.flatnonzero(changes.headed)
    heads = changes.columns.heads.take(headed)
    if len(headed):
        parameters = [
            arrays.int4s(heads.keys),
            arrays.int2s(heads.statuses),
            arrays.int8s(heads.status_versions),
            arrays.int8s(-heads.peaks),
            arrays.int4s(keys_together.first_pages(changes.columns)[headed]),
        ]
        to.execute(SAVE_HEADS, (unit_id, *parameters))
    for part in keys_together.runs(keys_together.touched_pages(changes)):
        bodies = page_columns.packed(part.pages, part.before, part.bounds, part.rows)
        parameters = [arrays.int4s(part.keys), arrays.int4s(part.pages), bodies]
        to.execute(SAVE_PAGES, (unit_id, *parameters))
