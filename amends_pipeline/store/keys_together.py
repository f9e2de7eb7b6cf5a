"""Heads and pages of many stock keys as columns: what `keys.py` reads and writes one by one.

What is read comes in a few rows, whose columns are arrays in binary form, and all bodies of pages
one behind the other. Keys that columns do not hold are left to `keys.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np

from amends_pipeline.inventory.config import NamespaceConfig
from amends_pipeline.inventory.key_columns import (
    Flags,
    Heads,
    Integers,
    KeyChanges,
    KeyColumns,
    RowColumns,
    positions,
)
from amends_pipeline.inventory.refold import EVERY_DAY, Status
from amends_pipeline.kernel.errors import InputError
from amends_pipeline.store import arrays, page_columns
from amends_pipeline.store.pages import NO_PAGE, PAGE_DAYS
from amends_pipeline.store.postgres import Connection

# OFFSET 0 keeps the planner from turning the loops inside out while it knows nothing of the tables.
SELECT_HEADS: Final = """
SELECT array_send(array_agg(w.place)), array_send(array_agg(h.status::int8)),
    array_send(array_agg(h.status_version)), array_send(array_agg(h.peak)),
    array_send(array_agg(h.first_page::int8))
FROM unnest(%s::int4[]) WITH ORDINALITY AS w (key, place)
CROSS JOIN LATERAL (
    SELECT status, status_version, peak, first_page
    FROM amends.key_head WHERE unit_id = %s AND key = w.key OFFSET 0
) h
"""
# The page that a wanted day lies on may be missing; the one before it holds the entering balance.
SELECT_PAGES: Final = """
SELECT array_send(array_agg(w.place)), array_send(array_agg(p.page::int8)),
    array_send(array_agg(length(p.body)::int8)), string_agg(p.body, '')
FROM unnest(%(keys)s::int4[], %(pages)s::int4[]) WITH ORDINALITY AS w (key, page, place)
CROSS JOIN LATERAL (
    SELECT coalesce(max(page), w.page) AS page FROM amends.key_page
    WHERE unit_id = %(unit)s AND key = w.key AND page <= w.page OFFSET 0
) f
CROSS JOIN LATERAL (
    SELECT page, body FROM amends.key_page
    WHERE unit_id = %(unit)s AND key = w.key AND page >= f.page OFFSET 0
) p
GROUP BY w.place / %(keys_a_row)s
"""

KEYS_A_ROW: Final = 128
"""Keys whose pages come in one row: a value in PostgreSQL may have 1 GiB."""
ROWS_AT_ONCE: Final = 400_000
"""Of one statement: a row of a page takes 64 bytes at most."""


# --- writing


class PageColumns(NamedTuple):
    """Pages in the order of keys, then days, with their rows."""

    keys: Integers
    pages: Integers
    before: Integers
    bounds: Integers
    """The rows of page `i` stand at `bounds[i]` up to `bounds[i + 1]`."""
    rows: RowColumns

    def part(self, start: int, stop: int) -> PageColumns:
        """The pages of these positions."""
        bounds = self.bounds[start : stop + 1]
        return PageColumns(
            self.keys[start:stop],
            self.pages[start:stop],
            self.before[start:stop],
            bounds - bounds[0],
            self.rows.take(slice(int(bounds[0]), int(bounds[-1]))),
        )


def first_pages(columns: KeyColumns) -> Integers:
    """The page of each key's first day, NO_PAGE where it has none."""
    starts, stops = columns.bounds[:-1], columns.bounds[1:]
    found = np.full(len(columns), NO_PAGE)
    some = starts < stops
    found[some] = columns.rows.days[starts[some]] // PAGE_DAYS
    return found


def touched_pages(changes: KeyChanges) -> PageColumns:
    """The pages on which a row differs from what was stored, whole."""
    bounds, rows, heads = changes.columns.bounds, changes.columns.rows, changes.columns.heads
    of_row = np.repeat(np.arange(len(heads.keys)), np.diff(bounds))
    pages = rows.days // PAGE_DAYS
    differs = np.ones(len(pages), dtype=np.bool_)
    differs[1:] = (of_row[1:] != of_row[:-1]) | (pages[1:] != pages[:-1])
    starts = np.flatnonzero(differs)
    edges = np.append(starts, len(pages))
    # How many rows before each position differ from what was stored.
    steps = np.zeros(len(pages) + 1, dtype=np.int64)
    np.add.at(steps, changes.firsts, 1)
    np.add.at(steps, changes.lasts, -1)
    changed = np.append(0, np.cumsum(np.cumsum(steps[:-1]) > 0))
    chosen = np.flatnonzero(changed[edges[1:]] > changed[edges[:-1]])
    starts, counts = starts[chosen], np.diff(edges)[chosen]
    key = of_row[starts]
    # The calendar begins in the middle of a page.
    begins = np.maximum(pages[starts] * PAGE_DAYS, EVERY_DAY)
    if (begins < heads.loaded_from[key]).any():
        expected = f"all days of a page of {PAGE_DAYS} days"
        raise InputError("days to be stored", expected=expected, found="some of them")
    before = np.where(starts == bounds[key], heads.before[key], rows.closes[starts - 1])
    inner = np.append(0, np.cumsum(counts))
    taken = rows.take(positions(starts, inner))
    return PageColumns(heads.keys[key], pages[starts], before, inner, taken)


def runs(pages: PageColumns) -> Iterator[PageColumns]:
    """All pages, in parts that one statement can take."""
    start = 0
    while start < len(pages.keys):
        stop = int(np.searchsorted(pages.bounds, pages.bounds[start] + ROWS_AT_ONCE, side="right"))
        stop = max(stop - 1, start + 1)
        yield pages.part(start, stop)
        start = stop


# --- reading


def load(
    connection: Connection, unit_id: int, config: NamespaceConfig, from_days: Mapping[int, int]
) -> tuple[KeyColumns, dict[int, int]]:
    """The states of these keys, and which of them columns do not hold, with their days."""
    keys = np.sort(np.fromiter(from_days, np.int64, len(from_days)))
    days = np.fromiter(map(from_days.__getitem__, keys.tolist()), np.int64, len(keys))
    wanted = days // PAGE_DAYS
    heads, first_pages, odd = _heads(connection, unit_id, config, keys)
    parameters = {
        "unit": unit_id,
        "keys": arrays.int4s(keys),
        "pages": arrays.int4s(wanted),
        "keys_a_row": KEYS_A_ROW,
    }
    sent = connection.execute(SELECT_PAGES, parameters, binary=True).fetchall()
    places, pages, lengths = (
        np.concatenate([arrays.read_int8s(row[at]) for row in sent] or [keys[:0]])
        for at in range(3)
    )
    order = np.lexsort((pages, places))
    at, pages = places[order] - 1, pages[order]
    data = np.frombuffer(b"".join(row[3] for row in sent), np.uint8)
    unpacked = page_columns.unpacked(pages, data, (np.cumsum(lengths) - lengths)[order])
    odd[at[unpacked.odd]] = True
    edges = np.searchsorted(at, np.arange(len(keys) + 1))
    some = np.flatnonzero(edges[:-1] < edges[1:])
    firsts = edges[some]
    # From that page on everything is there.
    reach = np.minimum(pages[firsts], wanted[some])
    part = reach > first_pages[some]
    heads.before[some[part]] = unpacked.before[firsts[part]]
    heads.loaded_from[some[part]] = reach[part] * PAGE_DAYS
    columns = KeyColumns(heads, unpacked.bounds[edges], unpacked.rows)
    return columns.take(np.flatnonzero(~odd)), dict(
        zip(keys[odd].tolist(), days[odd].tolist(), strict=True)
    )


def _heads(
    connection: Connection, unit_id: int, config: NamespaceConfig, keys: Integers
) -> tuple[Heads, Integers, Flags]:
    """Heads as of whole keys, their first pages, and which of them columns do not hold."""
    row = connection.execute(SELECT_HEADS, (arrays.int4s(keys), unit_id), binary=True).fetchone()
    at, statuses, versions, peaks, found = map(arrays.read_int8s, row or ())
    openings = np.asarray(config.openings)[keys]
    heads = Heads(
        keys,
        openings,
        np.asarray(config.thresholds)[keys],
        np.full(len(keys), int(Status.UNTOUCHED)),
        np.zeros(len(keys), dtype=np.int64),
        np.abs(openings),
        openings.copy(),
        np.full(len(keys), EVERY_DAY),
    )
    at -= 1
    heads.statuses[at], heads.status_versions[at], heads.peaks[at] = statuses, versions, -peaks
    first_pages = np.full(len(keys), NO_PAGE)
    first_pages[at] = found
    # What is 2^63 away from 0 has no positive counterpart.
    return heads, first_pages, (heads.statuses == int(Status.BLOCKED)) | (heads.peaks < 0)
