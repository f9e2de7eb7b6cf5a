"""Bulk work: many small values that no cycle holds together."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

THRESHOLDS = (200_000, 50, 1_000)
"""Python's collector looks for cycles after so many new objects, so many such looks, and so on.

Decisions are made of tuples that reference counting frees. With the default of 700 objects the
looks took 45 % of the worker's time; the rare ones that are left find what there is to find.
"""


@contextmanager
def rarely_collected() -> Iterator[None]:
    """Let the cycle collector run rarely within the block."""
    before = gc.get_threshold()
    gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
