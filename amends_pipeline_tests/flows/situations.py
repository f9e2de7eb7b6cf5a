"""Units in situations that automation decides about: where they stand, what was tried before."""

from __future__ import annotations

from typing import Any

from amends_pipeline.flows.automation import Attempts
from amends_pipeline.ports import Extent, Progress, Role, Unit, UnitStanding

NOW = 1_767_225_600  # 2026-01-01T00:00:00Z
EPOCHS = dict.fromkeys(Role, 1)


def unit(
    at: int,
    end: int | None,
    *,
    start: int = 0,
    pending: int = 0,
    unapplied: int = 0,
    stop: str | None = None,
    name: str = "main",
    partition: int = 0,
    **members: Any,
) -> UnitStanding:
    """A unit at a source offset; its outbox and its log hold 10 envelopes of each record."""
    output_end = 10 * at - pending
    progress = Progress(at, 10 * at, output_end, output_end - unapplied, stop, EPOCHS)
    parts: dict[str, Any] = {
        "unit": Unit(name, partition),
        "source": "feed",
        "follows": True,
        "bound": True,
        "extent": None if end is None else Extent(start, end),
        "first_offset": 0,
        "progress": progress,
        "output_end": output_end,
        "holder": None,
    }
    return UnitStanding(**(parts | members))


def failed(made: int, seconds_ago: int, error: str = "a bad record") -> Attempts:
    return Attempts(made, NOW - seconds_ago, error)
