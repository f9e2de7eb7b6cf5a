"""Project: the output log is applied to the reader's rows, in order, under the version rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from amends_pipeline.inventory.config import NamespaceConfig
from amends_pipeline.inventory.envelope import EnvelopeBatch, joined
from amends_pipeline.inventory.view import Applied
from amends_pipeline.inventory.view_batch import apply_batch, output_ids
from amends_pipeline.kernel.errors import ProtocolStop
from amends_pipeline.ports import LedgerStore, OutputLog, Token

VIEW_ROWS = 50_000
"""Output log rows that are applied in one commit, about."""


class Projected(NamedTuple):
    """What a projection did, in envelopes; `rows` counts stored rows."""

    consumed: int = 0
    rows: int = 0
    duplicates: int = 0
    outdated: int = 0

    def plus(self, applied: Applied) -> Projected:
        """These counts and those of one more batch."""
        return Projected(
            self.consumed + applied.consumed,
            self.rows + len(applied.rows),
            self.duplicates + applied.duplicates,
            self.outdated + applied.outdated,
        )


def project(
    store: LedgerStore,
    outputs: OutputLog,
    token: Token,
    config: NamespaceConfig,
    on_applied: Callable[[int], None] = lambda _: None,
) -> Projected:
    """Apply the output log from the view's frontier to its present end.

    A fault stops the partition: everything before it is committed, the stop is recorded, and
    ProtocolStop is raised, now and at every later attempt.
    """
    unit = token.unit
    progress = store.progress(unit)
    if progress.view_stop is not None:
        raise _stopped(token, progress.view_next, "no stop", progress.view_stop)
    end = outputs.end(unit)
    start = progress.view_next
    done = Projected()
    while start < end:
        batch, broken = _read(outputs, token, start)
        stored = store.view_rows(unit, output_ids(batch))
        applied = apply_batch(config, unit.partition, stored, batch)
        until = start + applied.consumed
        stop = None
        if applied.fault is not None:
            stop = f"expected {applied.fault.expected}, found {applied.fault.found}"
        elif broken is not None:
            stop = f"expected {broken.expected}, found {broken.found}"
        elif not batch:
            raise _stopped(token, start, f"rows up to offset {end}", "none")
        store.commit_view(token, start, until, applied.rows, stop)
        done = done.plus(applied)
        on_applied(applied.consumed)
        if stop is not None:
            raise _stopped(token, until, "an envelope of the protocol", stop)
        start = until
    return done


def reproject(
    store: LedgerStore,
    outputs: OutputLog,
    token: Token,
    config: NamespaceConfig,
    on_applied: Callable[[int], None] = lambda _: None,
) -> Projected:
    """Forget the view's rows and make them anew from the output log's beginning."""
    store.reset_view(token)
    return project(store, outputs, token, config, on_applied)


def _read(
    outputs: OutputLog, token: Token, start: int
) -> tuple[EnvelopeBatch, ProtocolStop | None]:
    batches: list[EnvelopeBatch] = []
    try:
        for segment in outputs.read(token.unit, start, VIEW_ROWS):
            batches.append(segment.envelopes)  # noqa: PERF401 - what precedes a stop is kept
    except ProtocolStop as stop:
        return joined(batches), stop
    return joined(batches), None


def _stopped(token: Token, offset: int, expected: str, found: str) -> ProtocolStop:
    return ProtocolStop(
        f"view of {token.unit}, output offset {offset}", expected=expected, found=found
    )
