"""Commands about a namespace as a whole: what is accepted of it, its rebuild, its removal."""

from __future__ import annotations

from pathlib import Path

import click

from amends_pipeline.cli.output import counted
from amends_pipeline.cli.session import Integer, Session, answering, namespace_option


@click.command()
@click.argument("manifest", metavar="MANIFEST.json", type=click.Path(path_type=Path))
@namespace_option
@click.option(
    "--partition",
    type=Integer(min=0),
    help="Replace what is accepted of this partition, and leave the others as they are.",
)
@answering
def accept(session: Session, manifest: Path, namespace: str, partition: int | None) -> None:
    """Accept exactly these rejections and conflicts from now on.

    They take the place of what was accepted before. Verifications of people and of Dagster go by
    them; {} accepts nothing.

    \b
    {"rejections": [{"partition": 0, "offset": 4, "code": "MALFORMED"}],
     "conflicts": [{"stock_key": {"item": "I", "location": "L"},
                    "txn_id": "T", "revision": 2}]}
    """  # noqa: D301 - click takes a backspace for "do not wrap what follows"
    from amends_pipeline.cli.verdict import manifest_of
    from amends_pipeline.flows.accept import accept as run

    given = manifest_of(manifest)
    with session.ledger() as ledger:
        stored = run(ledger, namespace, given, partition)
    if session.as_json:
        session.out.document({"namespace": namespace, **stored.model_dump(mode="json")})
        return
    rejections = counted(len(stored.rejections), "rejected record")
    conflicts = counted(len(stored.conflicts), "conflicting revision")
    session.out.text(f"namespace {namespace}: {rejections} and {conflicts} are accepted")


@click.command()
@click.argument("new", metavar="NEW")
@click.option(
    "--from",
    "old",
    required=True,
    metavar="NAMESPACE",
    help="The namespace over whose source it is made, and whose configuration it gets.",
)
@click.option(
    "--config",
    "configuration",
    metavar="CONFIG.json",
    type=click.Path(path_type=Path),
    help="Another configuration; the name in it does not matter.",
)
@answering
def rebuild(session: Session, new: str, old: str, configuration: Path | None) -> None:
    """Make a namespace over another one's source, to rebuild it.

    It does not follow its source at first: backfill its partitions in Dagster, or drain and verify
    it here. It follows once all of its units are verified and accepted. Set-asides and accepted
    exclusions are carried over.
    """
    from amends_pipeline.flows.rebuild import rebuild as run
    from amends_pipeline.inventory.config import load_configuration

    config = None if configuration is None else load_configuration(configuration)
    with session.ledger() as ledger:
        provisioned = run(ledger, new, old, config)
        info = ledger.store.info(new)
    if session.as_json:
        session.out.document(
            {
                "namespace": new,
                "from": old,
                "created": provisioned.created,
                "digest": provisioned.digest,
                "source": info.source,
                "partitions": info.partitions,
                "follows": info.follows,
            }
        )
        return
    happened = "made" if provisioned.created else "there already, with the same configuration"
    session.out.text(f"namespace {new}: {happened}, {counted(info.partitions, 'partition')}")
    if not info.follows:
        session.out.text(
            f"  it does not follow source {info.source} until every unit is verified and accepted"
        )
        session.out.text(
            "  Dagster has its partitions in a few seconds; a dialog that is open must be reloaded"
        )


@click.command()
@click.argument("namespace", metavar="NAMESPACE")
@click.option("--yes", "repeated", metavar="NAME", help="Its name again, in place of the question.")
@answering
def remove(session: Session, namespace: str, repeated: str | None) -> None:
    """Forget a namespace and everything made for it.

    The log of its source stays. Refused for the namespace that readers of the source see, and
    while somebody works on one of its units.
    """
    from amends_pipeline.kernel.display import shown
    from amends_pipeline.kernel.errors import InputError

    with session.ledger() as ledger:
        ledger.store.info(namespace)
        name = _asked(namespace) if repeated is None else repeated
        if name != namespace:
            raise InputError("the name again", expected=shown(namespace), found=shown(name))
        ledger.operations.remove(namespace)
    if session.as_json:
        session.out.document({"namespace": namespace, "removed": True})
        return
    session.out.text(f"namespace {namespace} is gone; the log of its source stays")


def _asked(namespace: str) -> str:
    """Ask on standard error. Raises InputError when nobody answers."""
    from amends_pipeline.kernel.display import shown
    from amends_pipeline.kernel.errors import InputError

    question = f"This forgets everything made for {namespace}. Type its name"
    try:
        answer: str = click.prompt(question, err=True)
    except click.Abort as abort:
        click.echo(err=True)  # the question stands on a line of its own
        if isinstance(abort.__context__, KeyboardInterrupt):
            raise
        expected = f"{shown(namespace)}, typed or with --yes"
        raise InputError("the name again", expected=expected, found="none") from None
    return answer.strip()
