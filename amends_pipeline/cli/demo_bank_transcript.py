"""The bank's part of the demo as people read it, and as programs do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from amends_pipeline.bank.values import Group
from amends_pipeline.cli.demo_bank import ACCOUNT, Check, Resumed, Run, Stage
from amends_pipeline.cli.demo_writing import BAD, FAINT, GOOD, HEAD, here, part, table, written
from amends_pipeline.kernel.display import escape_terminal


def opening(folder: Path) -> bytes:
    """Say what is going to happen."""
    return written(
        Text(
            "The second ledger is a bank's: committed journals, each with an economic time and a"
            " moment at which it became known. Each stage posts to a live journal, and a Dagster"
            " run exports it, examines the export, folds it and judges the balances, which are in"
            " cents."
        ),
        Text(f"commands {here(folder)}", FAINT),
        Text(),
    )


def stage(number: int, told: Stage) -> bytes:
    """Tell one stage."""
    runs = ", ".join(run.run_id.split("-", 1)[0] for run in told.runs)
    return written(
        Rule(Text(f"{number}. {told.title}", HEAD), align="left", style=FAINT),
        Text(f"Dagster run{'' if len(told.runs) == 1 else 's'} {runs}", FAINT),
        *([] if told.offered else _told(told)),
        *([part("Rejected", _faults(told))] if told.offered else []),
        part("Checks", *map(_check, _checks(told))),
        Text(),
    )


def document(told: Stage) -> dict[str, Any]:
    """One stage for `--json`."""
    return {
        "title": told.title,
        "groups": [
            {
                "group_id": group.group_id,
                "available_at": group.available_at,
                "journal_ids": [journal.command.journal_id for journal in group.journals],
            }
            for group in told.posted
        ],
        "was": dict(told.was),
        "now": dict(told.now),
        "offered": list(told.offered),
        "runs": [_run(each) for each in told.runs],
        "resumed": None if told.resumed is None else told.resumed._asdict(),
        "as_it_should_be": told.as_it_should_be,
    }


def _run(run: Run) -> dict[str, Any]:
    return {
        **run._asdict(),
        "balances": dict(run.balances),
        "statement": [dict(row) for row in run.statement],
        "checks": [check._asdict() for check in run.checks],
        "fault": None if run.fault is None else dict(run.fault),
    }


# --- parts of a stage


def _told(told: Stage) -> Iterator[RenderableType]:
    yield part("Posted", _posted(told))
    yield part("Balances", _balances(told))
    if len(told.runs) > 1:
        yield part(f"What {ACCOUNT} has, and when that was known", _answers(told))
    yield part(f"Statement of {ACCOUNT}", _statement(told.runs[-1]))
    if told.resumed is not None:
        yield part("From a checkpoint", Text(_resumed(told.resumed)))


def _posted(told: Stage) -> Table:
    rows = table("sequence", "journal", "effective", "debit", "credit", "amount")
    for group in told.posted:
        for sequence, name, effective, *legs in _journals(group):
            rows.add_row(sequence, name, effective, *legs)
    return rows


def _journals(group: Group) -> Iterator[tuple[str, ...]]:
    for journal in group.journals:
        command = journal.command
        accounts = {leg.side: leg.account_id for leg in command.legs}
        amount = command.legs[0].amount_minor
        sides = (accounts["debit"], accounts["credit"])
        yield (journal.sequence, command.journal_id, command.effective_at[:10], *sides, amount)


def _balances(told: Stage) -> Table:
    rows = table("account", "was", "now")
    for account_id in sorted(told.now):
        was, now = told.was.get(account_id, "none"), told.now[account_id]
        style = FAINT if was == now else ""
        rows.add_row(Text(account_id, style), Text(was, style), Text(now, style))
    return rows


def _answers(told: Stage) -> Table:
    rows = table("effective by", "known by", "through sequence", "balance")
    for run in told.runs:
        rows.add_row(
            run.effective_cutoff,
            run.knowledge_cutoff,
            run.visible_through,
            run.balances.get(ACCOUNT, ""),
        )
    return rows


def _statement(run: Run) -> Table:
    rows = table("sequence", "kind", "effective", "known since", "amount", "balance")
    for line in run.statement:
        rows.add_row(
            line["sequence"],
            line["kind"],
            line["effective_at"][:10],
            line["available_at"],
            line["amount"],
            line["balance"],
        )
    return rows


def _resumed(resumed: Resumed) -> str:
    groups = "1 group" if resumed.supplied_groups == 1 else f"{resumed.supplied_groups} groups"
    return (
        f"{resumed.checkpoint_id} has {resumed.opening}; with the {groups} after it,"
        f" {resumed.balance} effective by {resumed.effective_cutoff}: the same as from the first."
    )


def _faults(told: Stage) -> Table:
    rows = table("what is wrong", "code", "group", "sequence")
    for what, run in zip(told.offered, told.runs, strict=True):
        fault: Mapping[str, str] = run.fault or {}
        names = ("code", "group", "sequence")
        rows.add_row(what, *(escape_terminal(fault.get(name, "")) for name in names))
    return rows


def _checks(told: Stage) -> list[Check]:
    """Those of the last run; of every offered export."""
    if told.offered:
        return [check for run in told.runs for check in run.checks]
    whole = [check for run in told.runs[:1] for check in run.checks if "export" in check.name]
    return [*whole, *(check for check in told.runs[-1].checks if "export" not in check.name)]


def _check(check: Check) -> Text:
    text = Text(check.name, GOOD if check.passed else BAD)
    return text.append(f": {escape_terminal(check.says)}", "default")
