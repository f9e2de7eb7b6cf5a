"""`amends demo`: both ledgers' stories by Dagster runs, in a database of its own."""

from __future__ import annotations

import time

import click

from amends_pipeline.cli.session import Session, answering

DATABASE = "amends_demo"
NEGATIVE = 1


@click.command("demo")
@answering
def demo(session: Session) -> int | None:
    """Show corrections in both ledgers, from input to verdict.

    Appends a history of stock movements, an amendment and a cancellation, one after the other, and
    has Dagster process, publish, apply and verify each of them. Then posts to a bank's journal a
    payment, its correction and a fee, has Dagster fold and judge each, and offers it two exports
    that it must reject. Everything happens in the database amends_demo
    of the private server, which is made anew each time. Your ledgers and your Dagster runs are not
    touched, on no server.
    """
    from amends_pipeline.assembly import open_ledger
    from amends_pipeline.cli import demo_bank, demo_bank_transcript
    from amends_pipeline.cli import demo_transcript as transcript
    from amends_pipeline.cli.demo_stages import played, seed_folder
    from amends_pipeline.inventory.config import load_configuration
    from amends_pipeline.store.scratch import fresh_database

    began = time.monotonic()
    folder, history = seed_folder(), demo_bank.history_folder()
    config = load_configuration(folder / "config.json")
    stages, bank_stages = [], []
    with fresh_database(DATABASE, session.home) as server, open_ledger(server.ledger_url) as ledger:
        if not session.as_json:
            session.out.write(transcript.opening(config, folder, DATABASE))
        for stage in played(ledger, config, folder):
            stages.append(stage)
            if not session.as_json:
                session.out.write(transcript.stage(len(stages), stage))
                session.out.flush()
        if not session.as_json:
            session.out.write(demo_bank_transcript.opening(history))
        for bank_stage in demo_bank.played(ledger.bank, history):
            bank_stages.append(bank_stage)
            if not session.as_json:
                number = len(stages) + len(bank_stages)
                session.out.write(demo_bank_transcript.stage(number, bank_stage))
                session.out.flush()
    accepted = all(stage.verdict.accepted for stage in stages)
    accepted = accepted and all(each.as_it_should_be for each in bank_stages)
    elapsed_milliseconds = round((time.monotonic() - began) * 1_000)
    if session.as_json:
        session.out.document(
            {
                "database": DATABASE,
                "namespace": config.namespace,
                "accepted": accepted,
                "stages": [transcript.document(stage) for stage in stages],
                "bank": [demo_bank_transcript.document(each) for each in bank_stages],
                "elapsed_milliseconds": elapsed_milliseconds,
            }
        )
    else:
        session.out.write(transcript.closing(folder, elapsed_milliseconds, accepted=accepted))
    return None if accepted else NEGATIVE
