"""`amends demo`: three corrections from input to view, by Dagster runs, in its own database."""

from __future__ import annotations

import time

import click

from amends_pipeline.cli.session import Session, answering

DATABASE = "amends_demo"
NEGATIVE = 1


@click.command("demo")
@answering
def demo(session: Session) -> int | None:
    """Show three corrections from input to view, verified.

    Appends a history, an amendment and a cancellation, one after the other, and has Dagster
    process, publish, apply and verify each of them. Everything happens in the database amends_demo
    of the private server, which is made anew each time. Your ledgers and your Dagster runs are not
    touched, on no server.
    """
    from amends_pipeline.assembly import open_ledger
    from amends_pipeline.cli import demo_transcript as transcript
    from amends_pipeline.cli.demo_stages import played, seed_folder
    from amends_pipeline.inventory.config import load_configuration
    from amends_pipeline.store.scratch import fresh_database

    began = time.monotonic()
    folder = seed_folder()
    config = load_configuration(folder / "config.json")
    stages = []
    with fresh_database(DATABASE, session.home) as server, open_ledger(server.ledger_url) as ledger:
        if not session.as_json:
            session.out.write(transcript.opening(config, folder, DATABASE))
        for stage in played(ledger, config, folder):
            stages.append(stage)
            if not session.as_json:
                session.out.write(transcript.stage(len(stages), stage))
                session.out.flush()
    accepted = all(stage.verdict.accepted for stage in stages)
    elapsed_milliseconds = round((time.monotonic() - began) * 1_000)
    if session.as_json:
        session.out.document(
            {
                "database": DATABASE,
                "namespace": config.namespace,
                "accepted": accepted,
                "stages": [transcript.document(stage) for stage in stages],
                "elapsed_milliseconds": elapsed_milliseconds,
            }
        )
    else:
        session.out.write(transcript.closing(folder, elapsed_milliseconds, accepted=accepted))
    return None if accepted else NEGATIVE
