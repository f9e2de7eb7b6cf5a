"""Project: the output log is applied to the reader's rows, in order, under the version rule.

A batch is read and looked at while the one before it is written. It is written as columns, unless
something in it or in what is stored needs a closer look: then `view.apply` takes it envelope by
envelope.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
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
PART_ROWS = 10_000
"""Those of them that are applied in one commit where some need a closer look."""


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

    view = _View(store, token, config)
    with Commits(view.save, saved) as commits:
        while start < end:
            batch = view.read(outputs, start)
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


class _View:
    """The view of a unit, and what its envelopes must be."""

    def __init__(self, store: LedgerStore, token: Token, config: NamespaceConfig) -> None:
        self._store = store
        self._token = token
        self._config = config

    def read(self, outputs: OutputLog, start: int) -> _Batch:
        """Read some envelopes from `start` on, and look at them."""
        parts: list[Envelopes] = []
        broken = None
        try:
            for segment in outputs.read(self._token.unit, start, VIEW_ROWS):
                parts.append(segment.envelopes)  # noqa: PERF401 - what precedes a stop is kept
        except ProtocolStop as stop:
            broken = stop
        envelopes = together(parts)
        return _Batch(start, envelopes, broken, None if broken else self._moves(envelopes))

    def save(self, batch: _Batch) -> None:
        """Apply a batch up to a fault: in one commit, or in parts if it takes a closer look."""
        if self._advance(batch, batch.envelopes, batch.moves):
            return
        count = len(batch.envelopes)
        for low in range(0, max(count, 1), PART_ROWS):
            part = batch.envelopes.slice(low, min(low + PART_ROWS, count))
            broken = batch.broken if low + len(part) == count else None
            another = broken is None and len(part) < count
            if another and self._advance(batch, part, self._moves(part)):
                continue
            self._apply(batch, part, broken)
            if batch.stop is not None:
                return

    def _moves(self, envelopes: Envelopes) -> Moves | None:
        return moves_of(self._config, self._token.unit.partition, envelopes)

    def _advance(self, batch: _Batch, part: Envelopes, moves: Moves | None) -> bool:
        """Apply the next envelopes of a batch together, if that can be."""
        start = batch.start + batch.done.consumed
        if moves is None or not self._store.advance_view(
            self._token, start, start + len(part), moves
        ):
            return False
        batch.done = batch.done.plus(Projected(len(part), len(moves.keys)))
        return True

    def _apply(self, batch: _Batch, part: Envelopes, broken: ProtocolStop | None) -> None:
        """Apply the next envelopes of a batch one by one. `broken` is what stands behind them."""
        token, start = self._token, batch.start + batch.done.consumed
        stored = self._store.view_rows(token.unit, output_ids(part))
        applied = apply(self._config, token.unit.partition, stored, part)
        fault = applied.fault or broken
        if fault is not None:
            batch.stop = f"expected {fault.expected}, found {fault.found}"
        consumed, rows = applied.consumed, len(applied.rows)
        self._store.commit_view(token, start, start + consumed, applied.rows, batch.stop)
        done = Projected(consumed, rows, applied.duplicates, applied.outdated)
        batch.done = batch.done.plus(done)


def _stopped(token: Token, offset: int, expected: str, found: str) -> ProtocolStop:
    return ProtocolStop(
        f"view of {token.unit}, output offset {offset}", expected=expected, found=found
    )
