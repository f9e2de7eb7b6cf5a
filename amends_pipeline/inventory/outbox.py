"""What may be published next, and what its acknowledgement means.

Sequences of a partition are consecutive from 0. `acknowledged` is exclusive: everything below it
was acknowledged, everything from it to the next sequence is pending. Only the earliest pending
rows may go, and only they may be acknowledged. Without a reply they may or may not be in the output
log: nothing is acknowledged, so they stay pending and go again.
"""

from __future__ import annotations

from amends_pipeline.kernel.errors import ProtocolStop


def acknowledged_after(acknowledged: int, base: int, count: int) -> int:
    """The acknowledgement frontier once the rows `[base, base + count)` are acknowledged.

    Raises ProtocolStop when they are not the earliest pending ones.
    """
    if base != acknowledged:
        raise ProtocolStop(
            "acknowledgement of outbox rows",
            expected=f"sequence {acknowledged}, the earliest pending row",
            found=f"sequence {base}",
        )
    return acknowledged + count


def gap(sequences: list[tuple[int, int]]) -> tuple[int, int] | None:
    """Where (base, count) segments stop being consecutive from 0: (expected, found), or None."""
    expected = 0
    for base, count in sequences:
        if base != expected:
            return expected, base
        expected += count
    return None
