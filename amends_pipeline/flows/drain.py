"""Drain: worker, relay and view, one after the other, up to the boundary of the moment.

A reply that never came is resolved by looking at what is committed; it counts as a failed attempt.
A run that was fenced ends at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from amends_pipeline.flows.bound import bound
from amends_pipeline.flows.bulk import rarely_collected
from amends_pipeline.flows.ingest import COMMIT_RECORDS, SLICE_RECORDS, Worker
from amends_pipeline.flows.project import Projected, project
from amends_pipeline.flows.publish import relay
from amends_pipeline.inventory.decision import Decision
from amends_pipeline.kernel.errors import Fenced, OutcomeUnknown
from amends_pipeline.ports import Ledger, Role, Token, Unit

ATTEMPTS = 3
"""Replies in a row that may stay away before a run gives up."""


class Ingested(NamedTuple):
    """What the worker did."""

    records: int = 0
    accepted: int = 0
    rejected: int = 0
    decisions: int = 0
    envelopes: int = 0

    def plus(self, decisions: Sequence[Decision]) -> Ingested:
        """These counts and those of more decisions."""
        accepted = sum(decision.accepted for decision in decisions)
        rejected = sum(len(decision.rejections) for decision in decisions)
        return Ingested(
            self.records + accepted + rejected,
            self.accepted + accepted,
            self.rejected + rejected,
            self.decisions + sum(decision.slices for decision in decisions),
            self.envelopes + sum(len(decision.envelopes) for decision in decisions),
        )


@dataclass(slots=True)
class Options:
    """How a unit is worked on; none of it changes what becomes visible."""

    holder: str
    slice_records: int = SLICE_RECORDS
    commit_records: int = COMMIT_RECORDS
    wait_seconds: float | None = None
    waiting: Callable[[Unit, Role, str], None] | None = None
    """Called with the role of a unit that somebody else holds, and with who that is."""
    on_stage: Callable[[Role, Unit, int], None] = lambda *_: None
    """Called with records, envelopes or rows done since the last call."""
    on_decisions: Callable[[Unit, Sequence[Decision]], None] = lambda *_: None


def ingest_unit(ledger: Ledger, unit: Unit, until: int, options: Options) -> Ingested:
    """Process the unit's records before `until`. Raises as `Worker.run`."""
    info = bound(ledger, unit.namespace)
    done = Ingested()

    def on_commit(decisions: Sequence[Decision]) -> None:
        nonlocal done
        counted = Ingested().plus(decisions)
        done = done.plus(decisions)
        options.on_decisions(unit, decisions)
        options.on_stage(Role.WORKER, unit, counted.records)

    def work(token: Token) -> None:
        Worker(
            ledger.store,
            ledger.source(info.source),
            token,
            ledger.store.config(unit.namespace),
            options.slice_records,
            options.commit_records,
            on_commit,
        ).run(until)

    _owning(ledger, unit, Role.WORKER, options, work)
    return done


def relay_unit(ledger: Ledger, unit: Unit, options: Options) -> int:
    """Publish the unit's pending outbox. Returns how many envelopes went."""
    published = 0

    def on_published(count: int) -> None:
        nonlocal published
        published += count
        options.on_stage(Role.RELAY, unit, count)

    def work(token: Token) -> None:
        relay(ledger.store, ledger.outputs, token, on_published)

    _owning(ledger, unit, Role.RELAY, options, work)
    return published


def project_unit(ledger: Ledger, unit: Unit, options: Options) -> Projected:
    """Apply the unit's output log to its view. Raises ProtocolStop at a fault."""
    done = Projected()

    def work(token: Token) -> None:
        nonlocal done
        config = ledger.store.config(unit.namespace)
        done = project(
            ledger.store,
            ledger.outputs,
            token,
            config,
            lambda count: options.on_stage(Role.VIEW, unit, count),
        )

    _owning(ledger, unit, Role.VIEW, options, work)
    return done


class Drained(NamedTuple):
    """What a drain did to one unit."""

    unit: Unit
    ingested: Ingested
    published: int
    projected: Projected


def drain_unit(ledger: Ledger, unit: Unit, until: int, options: Options) -> Drained:
    """Worker to `until`, then relay and view to the end of what there is."""
    return Drained(
        unit,
        ingest_unit(ledger, unit, until, options),
        relay_unit(ledger, unit, options),
        project_unit(ledger, unit, options),
    )


def _owning(
    ledger: Ledger, unit: Unit, role: Role, options: Options, work: Callable[[Token], None]
) -> None:
    """Run `work` as the owner; after a reply that never came look again, as a new owner.

    Nobody may have come in between: then the epoch is not ours any more, and the run ends.
    """
    waiting = None if options.waiting is None else partial(options.waiting, unit, role)
    for attempt in range(1, ATTEMPTS + 1):
        epoch = None
        try:
            with ledger.store.hold(
                unit,
                role,
                holder=options.holder,
                wait_seconds=options.wait_seconds,
                waiting=waiting,
            ) as token:
                epoch = token.epoch
                with rarely_collected():
                    work(token)
        except OutcomeUnknown:
            if attempt == ATTEMPTS:
                raise
            now = ledger.store.progress(unit).epochs[role]
            if epoch is not None and now != epoch:
                raise Fenced(
                    f"{role} of {unit}", expected=f"epoch {epoch}", found=f"epoch {now}"
                ) from None
        else:
            return
