"""The busiest account of a stream: what moved it, and its picture over both times."""

from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path

import dagster as dg

from amends_pipeline.bank.movements import Line, Movement, last_correction, lines
from amends_pipeline.bank.picture import Story, draw
from amends_pipeline.bank.values import Account
from amends_pipeline.defs.bank.metadata import Busiest
from amends_pipeline.flows.bank_answer import Cutoffs, moved
from amends_pipeline.kernel.display import escape_markdown

LISTED_LINES = 10
"""Movements that are listed under the picture, the latest ones."""


def busiest(folder: Path, account: Account | None, cutoffs: Cutoffs) -> Busiest:
    """Look at the account with the most legs, if there is one. Raises as `moved`."""
    if account is None:
        return Busiest("", (), dg.MetadataValue.md("The ledger stream has no account."))
    found = moved(folder, account, cutoffs)
    return Busiest(account.account_id, list(lines(found)), pictured(account, found))


def pictured(account: Account, found: Sequence[Movement]) -> dg.MarkdownMetadataValue:
    """Write what moved an account as sentences, a picture and a short table."""
    name = escape_markdown(account.account_id)
    if not found:
        return dg.MetadataValue.md(f"{name}: nothing moved it.")
    then = _before_last_correction(found)
    svg = draw(Story(account.account_id, account.currency, found, then))
    image = b64encode(svg.encode()).decode("ascii")
    return dg.MetadataValue.md(
        f"{_told(name, account, found, then)}\n\n"
        f"![Balance of {name} over both times](data:image/svg+xml;base64,{image})\n\n"
        f"{_table(list(lines(found)))}"
    )


def _before_last_correction(found: Sequence[Movement]) -> str | None:
    """Return the last receipt before that of the last correction; None where there was none."""
    correction = last_correction(found)
    if correction is None:
        return None
    earlier = [each.available_at for each in found if each.available_at < correction.available_at]
    return max(earlier, default=None)


def _told(name: str, account: Account, found: Sequence[Movement], then: str | None) -> str:
    """Write what happened, in short paragraphs: a long line would make the dialog wide."""
    now = sum(each.amount for each in found)
    unit = f"minor units of {account.currency}"
    journals = "1 journal" if len(found) == 1 else f"{len(found)} journals"
    told = [f"{name}: {now} {unit} after {journals}."]
    correction = last_correction(found)
    if correction is not None:
        told.append(
            f"Its last correction is group {escape_markdown(correction.group_id)}, known since"
            f" {correction.available_at}."
        )
    if then is not None:
        before = sum(each.amount for each in found if each.available_at <= then)
        told.append(f"Before that correction, {before} {unit} were known.")
    return "\n\n".join(told)


def _table(told: Sequence[Line]) -> str:
    rows = [
        f"| {line.movement.sequence} | {line.movement.effective_at} | {line.movement.available_at}"
        f" | {line.movement.kind} | {line.movement.amount:+} | {line.balance} |\n"
        for line in told[-LISTED_LINES:]
    ]
    more = len(told) - len(rows)
    also = f"\nAnd {more} earlier one{'' if more == 1 else 's'}.\n" if more else ""
    head = (
        "| sequence | effective\\_at | available\\_at | kind | amount | balance |\n"
        "| ---: | --- | --- | --- | ---: | ---: |\n"
    )
    return f"{head}{''.join(rows)}{also}"
