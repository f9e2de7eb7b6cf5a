"""Publish: the committed outbox goes to the output log, earliest first, and is acknowledged.

Publication and acknowledgement are two steps. Between them anything may break: the rows stay
pending and go again, identical, and the view recognises them.
"""

from __future__ import annotations

from collections.abc import Callable

from amends_pipeline.inventory.envelope_columns import together
from amends_pipeline.inventory.outbox import acknowledged_after
from amends_pipeline.ports import LedgerStore, OutputLog, Token

RELAY_ROWS = 50_000
"""Outbox rows that go in one append, about."""


def relay(
    store: LedgerStore,
    outputs: OutputLog,
    token: Token,
    on_published: Callable[[int], None] = lambda _: None,
) -> int:
    """Publish and acknowledge everything that is pending. Returns how many envelopes went.

    Raises Fenced when another relay owns the unit, OutcomeUnknown when a reply never came.
    """
    published = 0
    acknowledged = store.progress(token.unit).acknowledged
    while segments := store.pending(token.unit, RELAY_ROWS):
        batch = together([segment.envelopes for segment in segments])
        base = segments[0].base
        after = acknowledged_after(acknowledged, base, len(batch))
        outputs.append(token.unit, batch)
        store.acknowledge(token, base, len(batch))
        acknowledged = after
        published += len(batch)
        on_published(len(batch))
    return published
