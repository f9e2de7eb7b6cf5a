"""Worker, relay and view from the command line: progress while they work, counts at the end."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from amends_pipeline.cli.output import Table
from amends_pipeline.cli.session import complain, next_step
from amends_pipeline.ports import Ledger, Role, Unit

if TYPE_CHECKING:
    from amends_pipeline.cli.session import Session
    from amends_pipeline.flows.catch_up import CaughtUp, Stopped
    from amends_pipeline.flows.drain import Drained, Options
    from amends_pipeline.flows.project import Projected


def tell_wait(unit: Unit, role: Role, holder: str) -> None:
    """Tell for whom a command waits, quiet or not: who sees nothing move wants to know why."""
    complain(f"waiting for the {role} of {unit}: its lock is held by {holder}")


def drain(session: Session, ledger: Ledger, namespace: str, options: Options) -> CaughtUp:
    """Catch up, with a meter for each stage."""
    from amends_pipeline.flows.catch_up import catch_up

    with session.meters() as meters:
        advance = {}

        def on_boundary(behind: int) -> None:
            advance[Role.WORKER] = meters.start("worker", "records", behind)
            advance[Role.RELAY] = meters.start("relay", "envelopes")
            advance[Role.VIEW] = meters.start("view", "envelopes")

        options.on_stage = lambda role, _, count: advance[role](count)
        return catch_up(ledger, namespace, options, on_boundary)


def show(session: Session, namespace: str, caught_up: CaughtUp) -> None:
    """Print what each stage did, in sum and by partition."""
    if session.as_json:
        session.out.document(_document(namespace, caught_up))
        return
    table = Table(
        session.out,
        "#partition, #records, #accepted, #rejected, #decisions, #envelopes, #published, #applied",
    )
    for unit, ingested, published, projected in caught_up.drained:
        table.row(unit.partition, *ingested, published, projected.consumed)
    table.end()


def complain_of_stops(namespace: str, caught_up: CaughtUp) -> None:
    """Tell which units could not be drained to the end, and the way out of each stop."""
    for stopped in caught_up.stopped:
        complain(f"error: {stopped.error}")
        if step := _step_after(stopped, namespace):
            complain(next_step(step))


def _step_after(stopped: Stopped, namespace: str) -> str | None:
    from amends_pipeline.flows.next_step import after_error, on_command_line

    return after_error(stopped.error, on_command_line(namespace))


def _document(namespace: str, caught_up: CaughtUp) -> dict[str, object]:
    partitions = [
        {"partition": each.unit.partition, **_stages([each])} for each in caught_up.drained
    ]
    return {
        "namespace": namespace,
        "boundary": list(caught_up.boundary),
        **_stages(caught_up.drained),
        "partitions": partitions,
        "stopped": [
            {
                "partition": stopped.unit.partition,
                "error": str(stopped.error),
                "next_step": _step_after(stopped, namespace),
            }
            for stopped in caught_up.stopped
        ],
    }


def _stages(drained: Sequence[Drained]) -> dict[str, dict[str, int]]:
    worker = ("records", "accepted", "rejected", "decisions", "envelopes")
    sums = [sum(counts) for counts in zip(*(each.ingested for each in drained), strict=True)]
    return {
        "worker": dict(zip(worker, sums, strict=True)),
        "relay": {"published": sum(each.published for each in drained)},
        "view": _view([each.projected for each in drained]),
    }


def _view(projected: Sequence[Projected]) -> dict[str, int]:
    names = ("consumed", "rows", "duplicates", "outdated")
    return dict(zip(names, map(sum, zip(*projected, strict=True)), strict=True))


def reproject(session: Session, ledger: Ledger, namespace: str, holder: str) -> list[Projected]:
    """Make every unit's view anew, one after the other."""
    from amends_pipeline.flows.project import reproject as run

    config = ledger.store.config(namespace)
    projected = []
    with session.meters() as meters:
        advance = meters.start("view", "envelopes")
        for partition in range(config.partitions):
            unit = Unit(namespace, partition)
            with ledger.store.hold(
                unit,
                Role.VIEW,
                holder=holder,
                waiting=partial(tell_wait, unit, Role.VIEW),
            ) as token:
                projected.append(run(ledger.store, ledger.outputs, token, config, advance))
    return projected


def show_view(session: Session, namespace: str, projected: Sequence[Projected]) -> None:
    """Print what the view did, in sum and by partition."""
    if session.as_json:
        partitions = [
            {"partition": partition, **_view([each])} for partition, each in enumerate(projected)
        ]
        session.out.document(
            {"namespace": namespace, "view": _view(projected), "partitions": partitions}
        )
        return
    table = Table(session.out, "#partition, #applied, #rows, #duplicates, #outdated")
    for partition, each in enumerate(projected):
        table.row(partition, *each)
    table.end()
