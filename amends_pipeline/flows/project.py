"""Project: the output log is applied to the reader's rows, in order, under the version rule.

A batch is read and looked at while the one before it is written. It is written as columns, unless
something in it or in what is stored needs a closer look: then `view.apply` takes it envelope by
envelope.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from amends_pipeline.flows.commits import Commits
from amends_pipeline.inventory.config import NamespaceConfig
from amends_pipeline.inventory.envelope_columns import Envelopes, together
from amends_pipeline.inventory.view import apply
from amends_pipeline.inventory.view_batch import Moves, moves_of, output_ids
from amends_pipeline.kernel.errors import ProtocolStop
from amends_pipeline.ports import LedgerStore, OutputLog, Token

VIEW_ROWS = 100_000
"""Output log rows that are applied in one commit, about."""


class Projected(NamedTuple):
    """What a projection did, in envelopes; `rows` counts stored rows."""

    consumed: int = 0
    rows: int = 0
    duplicates: int = 0
    outdated: int = 0

    def plus(self, more: Projected) -> Projected:
        """These counts and those of one more batch."""
        return Projected(*(one + other for one, other in zip(self, more, strict=True)))


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

    def saved(batch: _Batch) -> None:
        nonlocal done
        done = done.plus(batch.done)
        on_applied(batch.done.consumed)
        if batch.stop is not None:
            until = batch.start + batch.done.consumed
            raise _stopped(token, until, "an envelope of the protocol", batch.stop)

    with Commits(partial(_save, store, token, config), saved) as commits:
        while start < end:
            batch = _read(outputs, token, config, start)
            if not batch.envelopes and batch.broken is None:
                commits.wait()
                raise _stopped(token, start, f"rows up to offset {end}", "none")
            start += len(batch.envelopes)
            commits.add(batch, wait=batch.broken is not None or start >= end)
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


@dataclass(slots=True)
class _Batch:
    """Consecutive envelopes of the output log, from offset `start` on."""

    start: int
    envelopes: Envelopes
    broken: ProtocolStop | None
    """What stands behind them, if that is no envelope."""
    moves: Moves | None
    """What they do if nothing that is stored is in the way; None if that takes a closer look."""
    done: Projected = field(default_factory=Projected)
    """What they did, and `stop` why no more of them did, once they are applied."""
    stop: str | None = None


def _read(outputs: OutputLog, token: Token, config: NamespaceConfig, start: int) -> _Batch:
    parts: list[Envelopes] = []
    broken = None
    try:
        for segment in outputs.read(token.unit, start, VIEW_ROWS):
            parts.append(segment.envelopes)  # noqa: PERF401 - what precedes a stop is kept
    except ProtocolStop as stop:
        broken = stop
    envelopes = together(parts)
    moves = None if broken else moves_of(config, token.unit.partition, envelopes)
    return _Batch(start, envelopes, broken, moves)


def _save(store: LedgerStore, token: Token, config: NamespaceConfig, batch: _Batch) -> None:
    """Apply a batch in one commit, up to a fault if there is one."""
    start, envelopes, moves = batch.start, batch.envelopes, batch.moves
    if moves is not None and store.advance_view(token, start, start + len(envelopes), moves):
        batch.done = Projected(len(envelopes), len(moves.keys))
        return
    stored = store.view_rows(token.unit, output_ids(envelopes))
    applied = apply(config, token.unit.partition, stored, envelopes)
    fault = applied.fault or batch.broken
    if fault is not None:
        batch.stop = f"expected {fault.expected}, found {fault.found}"
    store.commit_view(token, start, start + applied.consumed, applied.rows, batch.stop)
    batch.done = Projected(
        applied.consumed, len(applied.rows), applied.duplicates, applied.outdated
    )


def _stopped(token: Token, offset: int, expected: str, found: str) -> ProtocolStop:
    return ProtocolStop(
        f"view of {token.unit}, output offset {offset}", expected=expected, found=found
    )
