"""Features that Dagster calls preview or beta, and that we use at one pinned release."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg


@contextmanager
def known_features() -> Iterator[None]:
    """Make objects without Dagster's warning that the next release may change them.

    Partitions of checks and the mapping from units to source partitions are tested here against the
    release that pyproject.toml pins.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.PreviewWarning)
        warnings.simplefilter("ignore", dg.BetaWarning)
        yield
