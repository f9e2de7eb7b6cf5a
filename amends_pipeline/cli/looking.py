"""`amends inventory …`: looking at a namespace without changing anything."""

from __future__ import annotations

import click

from amends_pipeline.cli.output import Table
from amends_pipeline.cli.session import Session, answering, namespace_option


@click.command()
@namespace_option
@answering
def view(session: Session, namespace: str) -> None:
    """Print what readers see, by encoded id."""
    from amends_pipeline.cli import rows

    with session.ledger() as ledger, ledger.store.snapshot(namespace) as snapshot:
        config = snapshot.config()
        if session.as_json:
            encoders = rows.encoders(config)
            for row in snapshot.visible():
                encoder = encoders[config.keys[row.key].partition]
                session.out.write(encoder.encode(row) + b"\n")
            return
        table = Table(session.out, rows.VIEW)
        for row in snapshot.visible():
            table.row(*rows.view_cells(config, row))
        table.end("no visible rows")


@click.command()
@namespace_option
@answering
def outbox(session: Session, namespace: str) -> None:
    """Print every committed envelope, in order."""
    from amends_pipeline.cli import rows
    from amends_pipeline.ports import Unit

    with session.ledger() as ledger:
        config = ledger.store.config(namespace)
        table = Table(session.out, rows.OUTBOX)
        for partition, encoder in enumerate(rows.encoders(config)):
            for sequence, known, envelope in ledger.store.outbox(Unit(namespace, partition)):
                if session.as_json:
                    text = encoder.text(envelope)
                    line = rows.outbox_line(partition, sequence, text, known=known)
                    session.out.write(line)
                    continue
                cells = rows.outbox_cells(config, partition, sequence, envelope, known=known)
                table.row(*cells)
        if not session.as_json:
            table.end("no envelopes")


@click.command()
@namespace_option
@answering
def quarantine(session: Session, namespace: str) -> None:
    """Print what was not accepted, and why."""
    from amends_pipeline.cli import rows

    with session.ledger() as ledger, ledger.store.snapshot(namespace) as snapshot:
        if session.as_json:
            for each in snapshot.quarantine():
                session.out.document(rows.quarantine_document(each))
            return
        table = Table(session.out, rows.QUARANTINE)
        for each in snapshot.quarantine():
            table.row(*rows.quarantine_cells(*each))
        table.end("nothing in quarantine")


@click.command()
@answering
def namespaces(session: Session) -> None:
    """List what was provisioned."""
    with session.ledger() as ledger:
        found = ledger.store.namespaces()
    if session.as_json:
        for info in found:
            session.out.document(info._asdict())
        return
    table = Table(session.out, "namespace, source, #partitions, configuration, followed")
    for info in found:
        followed = "yes" if info.follows else "no"
        table.row(info.namespace, info.source, info.partitions, info.digest[:12], followed)
    table.end("no namespaces")


@click.command()
@namespace_option
@answering
def status(session: Session, namespace: str) -> None:
    """Show where each partition stands, and what is wrong."""
    from amends_pipeline.cli import showing
    from amends_pipeline.flows.status import status as run

    with session.ledger() as ledger:
        found = run(ledger, namespace)
    showing.status(session, found)


@click.command()
@namespace_option
@click.argument("item")
@click.argument("location")
@click.argument("day", metavar="DAY")
@answering
def explain(session: Session, namespace: str, item: str, location: str, day: str) -> None:
    """Tell why a key has its balance on a day.

    DAY is a UTC day, YYYY-MM-DD; the balance is that of its end.
    """
    from amends_pipeline.cli import showing
    from amends_pipeline.flows.explain import explain as run
    from amends_pipeline.inventory.config import StockKey

    asked = showing.day_of(day)
    with session.ledger() as ledger:
        found = run(ledger, namespace, StockKey(item, location), asked)
    showing.explanation(session, found)
