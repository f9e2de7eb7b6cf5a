"""What may be published next, and what an answer to a publication means.

Sequences of a partition are consecutive from 0. `acknowledged` is exclusive: everything below it
was acknowledged, everything from it to the next sequence is pending. Only the earliest pending
rows may go, and only they may be acknowledged.
"""

from __future__ import annotations

from enum import Enum

from amends_pipeline.kernel.errors import ProtocolStop


class Answer(Enum):
    """What the relay learned about a publication."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    """No reply: it may or may not be in the output log, so it stays pending and goes again."""


def acknowledged_after(acknowledged: int, base: int, count: int, answer: Answer) -> int:
    """The acknowledgement frontier after `answer` to the rows `[base, base + count)`.

    Raises ProtocolStop when the rows are not the earliest pending ones.
    """
    if base != acknowledged:
        raise ProtocolStop(
            "acknowledgement of outbox rows",
            expected=f"sequence {acknowledged}, the earliest pending row",
            found=f"sequence {base}",
        )
    return acknowledged + count if answer is Answer.ACCEPTED else acknowledged


def gap(sequences: list[tuple[int, int]]) -> tuple[int, int] | None:
    """Where (base, count) segments stop being consecutive from 0: (expected, found), or None."""
    expected = 0
    for base, count in sequences:
        if base != expected:
            return expected, base
        expected += count
    return None
