"""Heads and pages of many stock keys as columns: what `keys.py` reads and writes one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from amends_pipeline.inventory.key_columns import Integers, KeyChanges, KeyColumns, RowColumns
from amends_pipeline.store.pages import NO_PAGE, PAGE_DAYS

ROWS_AT_ONCE: Final = 400_000
"""Of one statement: a row of a page takes 64 bytes at most."""


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
    before = np.where(starts == bounds[key], heads.before[key], rows.closes[starts - 1])
    inner = np.append(0, np.cumsum(counts))
    at = np.repeat(starts - inner[:-1], counts) + np.arange(inner[-1])
    return PageColumns(heads.keys[key], pages[starts], before, inner, rows.take(at))


def runs(pages: PageColumns) -> Iterator[PageColumns]:
    """All pages, in parts that one statement can take."""
    start = 0
    while start < len(pages.keys):
        stop = int(np.searchsorted(pages.bounds, pages.bounds[start] + ROWS_AT_ONCE, side="right"))
        stop = max(stop - 1, start + 1)
        yield pages.part(start, stop)
        start = stop
