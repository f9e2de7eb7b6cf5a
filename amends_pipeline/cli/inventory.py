"""`amends inventory …`: the work on a namespace, and the group of all its commands."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import click

from amends_pipeline.cli import looking, namespaces
from amends_pipeline.cli.output import counted
from amends_pipeline.cli.session import Integer, Session, answering, complain, namespace_option

NEGATIVE_VERDICT = 1


@click.group()
def inventory() -> None:
    """Daily balances and alerts of stock keys, from revisions of their transactions."""


for _command in (
    looking.view,
    looking.outbox,
    looking.quarantine,
    looking.status,
    looking.namespaces,
    looking.explain,
    namespaces.accept,
    namespaces.rebuild,
    namespaces.remove,
):
    inventory.add_command(_command)


@inventory.command()
@click.argument("configuration", metavar="CONFIG.json", type=click.Path(path_type=Path))
@answering
def provision(session: Session, configuration: Path) -> None:
    """Create the namespace of a configuration."""
    from amends_pipeline.flows.provision import provision as run
    from amends_pipeline.inventory.config import load_configuration

    config = load_configuration(configuration)
    with session.ledger() as ledger:
        provisioned = run(ledger, config)
    if session.as_json:
        session.out.document(
            {
                "namespace": config.namespace,
                "created": provisioned.created,
                "digest": provisioned.digest,
                "source": config.source,
                "incarnation": provisioned.incarnation,
                "partitions": config.partitions,
                "keys": len(config.keys),
            }
        )
        return
    happened = "created" if provisioned.created else "there already, with the same configuration"
    session.out.text(f"namespace {config.namespace}: {happened}")
    partitions = counted(config.partitions, "partition")
    session.out.text(f"  source {config.source}, {partitions}")
    session.out.text(f"  {counted(len(config.keys), 'key')}, configuration {provisioned.digest}")


@inventory.command()
@namespace_option
@click.option(
    "--partition",
    type=Integer(min=0),
    default=0,
    show_default=True,
    help="Where a line goes that does not decode, and so has no stock key.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["jsonl", "csv"]),
    help="How records stand in the files; by default csv where a name ends in .csv, else jsonl.",
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@answering
def append(
    session: Session, namespace: str, partition: int, format_: str | None, files: tuple[str, ...]
) -> None:
    """Append records of files to the source log.

    All files are appended in one transaction, each line as it stands; - is standard input. A CSV
    file has a header with the columns txn_id, revision, kind, item, location, valid_time, qty and
    source_time, in any order.
    """
    from amends_pipeline.cli import reading
    from amends_pipeline.flows.append import append as run
    from amends_pipeline.flows.reading import Format

    given = None if format_ is None else Format(format_)
    with reading.inputs(files, given) as inputs:
        with session.meters() as meters:
            on_read = meters.start("read", "records")
            total = sum(reading.count(each, on_read) for each in inputs)
        with session.ledger() as ledger, session.meters() as meters:
            done = run(
                ledger,
                namespace,
                reading.records(inputs),
                undecodable_partition=partition,
                on_appended=meters.start("append", "records", total),
                waiting=_tell_append,
            )
    if session.as_json:
        session.out.document({"appended": done.appended, "ends": list(done.ends)})
        return
    ends = ", ".join(f"p{number} {end}" for number, end in enumerate(done.ends))
    session.out.text(f"appended {counted(done.appended, 'record')}; the source ends at {ends}")


@inventory.command()
@namespace_option
@click.option(
    "--slice-records",
    type=Integer(min=1),
    help="Records that are decided together; only versions, causes and order depend on it.",
)
@click.option(
    "--commit-records",
    type=Integer(min=1),
    help="Records whose decisions share a commit; no result depends on it.",
)
@answering
def drain(
    session: Session, namespace: str, slice_records: int | None, commit_records: int | None
) -> int:
    """Work up to the present end of the source.

    Worker, relay and view, partition by partition. A record after which a close does not fit 64
    bits stops its partition just before it; `set-aside` is the way past it.
    """
    from amends_pipeline.cli import draining
    from amends_pipeline.flows import ingest
    from amends_pipeline.flows.drain import Options

    options = Options(
        holder=_holder("drain"),
        slice_records=slice_records or ingest.SLICE_RECORDS,
        commit_records=commit_records or ingest.COMMIT_RECORDS,
        waiting=draining.tell_wait,
    )
    with session.ledger() as ledger:
        caught_up = draining.drain(session, ledger, namespace, options)
    draining.show(session, namespace, caught_up)
    draining.complain_of_stops(namespace, caught_up)
    return max((stopped.error.exit_status for stopped in caught_up.stopped), default=0)


@inventory.command()
@namespace_option
@click.option(
    "--accept",
    metavar="MANIFEST.json",
    type=click.Path(path_type=Path),
    help="Rejections and conflicts that this call accepts, exactly, in place of the stored ones.",
)
@answering
def verify(session: Session, namespace: str, accept: Path | None) -> int:
    """Compare what readers see with the whole history.

    Exit status 1 says that the namespace is not accepted: it differs, is blocked or incomplete, or
    has exclusions that no manifest accepts. The verdict on each unit is kept, accepted or not by
    what `accept` stored.
    """
    from amends_pipeline.cli import verdict

    manifest = None if accept is None else verdict.manifest_of(accept)
    report = verdict.ask(session, namespace, manifest, _holder("verify"))
    verdict.show(session, namespace, report)
    return 0 if report.accepted else NEGATIVE_VERDICT


@inventory.command("set-aside")
@namespace_option
@click.option("--partition", type=Integer(min=0), required=True, help="Where the record lies.")
@click.option("--offset", type=Integer(min=0), required=True, help="Its place in the partition.")
@click.option("--reason", required=True, help="Why; it stays on record.")
@answering
def set_aside(session: Session, namespace: str, partition: int, offset: int, reason: str) -> None:
    """Declare a source record out of the input.

    It goes to quarantine when its turn comes, the oracle reads it as no input either, and every
    verification reports it. The worker must not have passed it yet.
    """
    from amends_pipeline.flows.set_aside import set_aside as run
    from amends_pipeline.ports import Unit

    with session.ledger() as ledger:
        run(ledger, Unit(namespace, partition), offset, reason)
    if session.as_json:
        session.out.document(
            {"namespace": namespace, "partition": partition, "offset": offset, "reason": reason}
        )
        return
    session.out.text(f"set aside: partition {partition}, offset {offset}")


@inventory.command()
@namespace_option
@answering
def reproject(session: Session, namespace: str) -> None:
    """Make the view's rows anew, from the output log."""
    from amends_pipeline.cli import draining

    with session.ledger() as ledger:
        projected = draining.reproject(session, ledger, namespace, _holder("reproject"))
    draining.show_view(session, namespace, projected)


def _tell_append(source: str) -> None:
    """Tell for what an append waits, quiet or not."""
    complain(f"waiting for source {source}: another append to it is not done yet")


def _holder(command: str) -> str:
    """Who we are, for those who wait for us."""
    return f"amends inventory {command}, process {os.getpid()} on {socket.gethostname()}"
