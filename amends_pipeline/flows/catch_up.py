"""Catch up: drain every unit of a namespace to the source ends of one moment.

A record that no close survives, or an envelope that the view must not apply, stops its own unit
alone: what was committed before it still reaches the readers, and the other units go on. Any other
failure ends the run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from amends_pipeline.flows.bound import bound
from amends_pipeline.flows.drain import (
    Drained,
    Ingested,
    Options,
    ingest_unit,
    project_unit,
    relay_unit,
)
from amends_pipeline.flows.project import Projected
from amends_pipeline.inventory.decision import Decision
from amends_pipeline.kernel.errors import AmendsError, CloseOverflow, ProtocolStop
from amends_pipeline.ports import Ledger, Role, Unit


class Stopped(NamedTuple):
    """A unit that could not be drained to the end, and why."""

    unit: Unit
    error: AmendsError


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """What was done to each unit, up to where, and what stopped."""

    boundary: Sequence[int]
    """For each partition, the source end of the moment when the run began."""
    drained: Sequence[Drained]
    stopped: Sequence[Stopped]


def catch_up(
    ledger: Ledger,
    namespace: str,
    options: Options,
    on_boundary: Callable[[int], None] = lambda _: None,
) -> CaughtUp:
    """Worker, relay and view of every unit. `on_boundary` is told how far behind the workers are.

    Raises UnknownNamespace, ForeignIncarnation, SourceTruncated, Fenced, Held, OutcomeUnknown,
    DatabaseUnavailable.
    """
    info = bound(ledger, namespace)
    units = [Unit(namespace, partition) for partition in range(info.partitions)]
    boundary = [extent.end for extent in ledger.source(info.source).extents()]
    behind = (
        until - ledger.store.progress(unit).next_offset
        for unit, until in zip(units, boundary, strict=True)
    )
    on_boundary(sum(max(0, distance) for distance in behind))
    drained: list[Drained] = []
    stopped: list[Stopped] = []
    for unit, until in zip(units, boundary, strict=True):
        drained.append(_drain(ledger, unit, until, options, stopped))
    return CaughtUp(boundary, drained, stopped)


def _drain(
    ledger: Ledger, unit: Unit, until: int, options: Options, stopped: list[Stopped]
) -> Drained:
    """Drain one unit as far as it goes. What was done before a stop is counted too."""
    ingested, consumed = Ingested(), 0

    def on_decisions(decided: Unit, decisions: Sequence[Decision]) -> None:
        nonlocal ingested
        ingested = ingested.plus(decisions)
        options.on_decisions(decided, decisions)

    def on_stage(role: Role, staged: Unit, count: int) -> None:
        nonlocal consumed
        consumed += count if role is Role.VIEW else 0
        options.on_stage(role, staged, count)

    counting = replace(options, on_decisions=on_decisions, on_stage=on_stage)
    try:
        ingest_unit(ledger, unit, until, counting)
    except CloseOverflow as overflow:
        stopped.append(Stopped(unit, overflow))
    published = relay_unit(ledger, unit, counting)
    try:
        projected = project_unit(ledger, unit, counting)
    except ProtocolStop as stop:
        stopped.append(Stopped(unit, stop))
        projected = Projected(consumed)
    return Drained(unit, ingested, published, projected)
