"""`amends bank …`: live streams, and what is posted to them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from amends_pipeline.cli.bank_input import evidence_options, stream_option, value_of
from amends_pipeline.cli.output import Table, counted
from amends_pipeline.cli.reading import STANDARD_INPUT
from amends_pipeline.cli.session import Session, answering
from amends_pipeline.kernel.errors import InputError

if TYPE_CHECKING:
    from amends_pipeline.bank.codes import Rejection
    from amends_pipeline.bank.posting import Booking

REJECTED = 1
STREAMS = "stream, ledger, entity, #last sequence, #with receipt, last receipt, last export"

_ledger = click.option("--ledger", required=True, metavar="L", help="Its ledger.")
_entity = click.option("--entity", required=True, metavar="E", help="The entity that keeps it.")
_late = click.option(
    "--adjustment-reason",
    default="",
    metavar="TEXT",
    help="Why it is booked in another month than that of its effect.",
)


@click.command("open")
@stream_option
@_ledger
@_entity
@click.argument("accounts", metavar="ACCOUNTS.json", type=click.Path(path_type=Path))
@answering
def open_(session: Session, stream_id: str, ledger: str, entity: str, accounts: Path) -> int:
    """Open a stream with accounts, or add accounts to one.

    ACCOUNTS.json is an array of accounts with the members account_id, ledger_id, entity_id,
    currency, account_type (asset, expense, liability, equity or revenue) and normal_side (debit or
    credit, as follows from the type).

    Accounts that are there already may be among them; none of them ever changes.
    """
    from amends_pipeline.bank.codes import Rejection
    from amends_pipeline.bank.heads import Stream
    from amends_pipeline.cli import bank_showing
    from amends_pipeline.flows.bank_open import open_stream

    given = value_of(accounts)
    with session.ledger() as opened:
        made = open_stream(opened.bank, Stream(stream_id, ledger, entity), given)
        if isinstance(made, Rejection):
            bank_showing.rejected(session, made)
            return REJECTED
        with opened.bank.snapshot(stream_id) as snapshot:
            count = len(snapshot.accounts())
    if session.as_json:
        session.out.document({"stream_id": stream_id, "created": made, "accounts": count})
    else:
        happened = "opened" if made else "there already"
        session.out.text(f"stream {stream_id}: {happened}, {counted(count, 'account')}")
    return 0


@click.command()
@answering
def streams(session: Session) -> None:
    """List live streams, and where they stand."""
    from amends_pipeline.cli import bank_showing

    with session.ledger() as ledger:
        found = ledger.bank.streams()
    if session.as_json:
        for standing in found:
            session.out.document(bank_showing.standing_document(standing))
        return
    table = Table(session.out, STREAMS)
    for each in found:
        moments = (each.available_at, each.observed_at)
        table.row(*each.stream, each.last_sequence, each.stamped_sequence, *moments)
    table.end("no streams")


@click.command()
@stream_option
@_late
@click.argument("command", metavar="COMMAND.json", type=click.Path(path_type=Path))
@answering
def post(session: Session, stream_id: str, adjustment_reason: str, command: Path) -> int:
    """Post a journal command; - is standard input.

    COMMAND.json has the members schema_version (d30-journal-v1), ledger_id, entity_id, journal_id,
    business_operation_id, currency, effective_at, source_available_at, booking_period (2026-10) and
    legs, an array of 2 to 32 of account_id, side and amount_minor, which is a text of digits. Times
    look like 2026-10-20T09:00:00.000Z.

    The same command again is answered with the group that it made. Exit status 1 says that it was
    refused, and that nothing was written.
    """
    from amends_pipeline.flows.bank_post import post as run

    given = value_of(command)
    with session.ledger() as ledger:
        return _answer(session, run(ledger.bank, stream_id, given, adjustment_reason))


@click.command()
@stream_option
@click.argument("correction", metavar="CORRECTION.json", type=click.Path(path_type=Path))
@answering
def correct(session: Session, stream_id: str, correction: Path) -> int:
    """Reverse a journal and post another in its place; - is standard input.

    CORRECTION.json has the members correction (the link), replacement (a journal command),
    reversal_business_operation_id and, where the month differs, adjustment_reason. Exit status as
    of post.
    """
    from amends_pipeline.bank.codes import Rejection
    from amends_pipeline.cli import bank_showing
    from amends_pipeline.flows.bank_correct import correct as run

    parts = bank_showing.correction_of(value_of(correction))
    if isinstance(parts, Rejection):
        return _answer(session, parts)
    with session.ledger() as ledger:
        link, replacement = parts.pop("correction"), parts.pop("replacement")
        return _answer(session, run(ledger.bank, stream_id, link, replacement, **parts))


@click.command()
@stream_option
@evidence_options(required=True)
@answering
def export(session: Session, stream_id: str, groups: Path, accounts: Path, context: Path) -> None:
    """Write groups, accounts and the trusted context of a stream, as fold takes them.

    Every file is there whole or not at all; the context comes last.
    """
    from amends_pipeline.cli import bank_showing
    from amends_pipeline.flows.bank_export import Files
    from amends_pipeline.flows.bank_export import export as run

    if STANDARD_INPUT in map(str, (groups, accounts, context)):
        raise InputError("export", expected="three files to write to", found=STANDARD_INPUT)
    with session.ledger() as ledger, session.meters() as meters:
        told = meters.start("export", "groups")
        done = run(ledger.bank, stream_id, Files(groups, accounts, context), on_groups=told)
    bank_showing.exported(session, done)


@click.command("seed-demo")
@stream_option
@click.option("--ledger", default="CB-GENERAL", show_default=True, metavar="L", help="Its ledger.")
@click.option("--entity", default="CB-A", show_default=True, metavar="E", help="Its entity.")
@answering
def seed_demo(session: Session, stream_id: str, ledger: str, entity: str) -> None:
    """Open a stream and post a story into it: an error, and its correction.

    A stream that is there already is refused, unless it holds the beginning of the story only.
    """
    from datetime import UTC, datetime

    from amends_pipeline.bank.heads import Stream
    from amends_pipeline.cli import bank_showing
    from amends_pipeline.flows.bank_story import tell

    stream = Stream(stream_id, ledger, entity)
    with session.ledger() as opened:
        groups = tell(opened.bank, stream, datetime.now(UTC).date())
    bank_showing.story(session, stream_id, groups)


def _answer(session: Session, booked: Booking | Rejection) -> int:
    from amends_pipeline.bank.posting import Booking
    from amends_pipeline.cli import bank_showing

    if isinstance(booked, Booking):
        bank_showing.booked(session, booked)
        return 0
    bank_showing.rejected(session, booked)
    return REJECTED
