"""`amends bank …`: balances of an export, and the group of all commands of the bank."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from amends_pipeline.cli import bank_live
from amends_pipeline.cli.bank_input import (
    Asking,
    asked,
    cutoff_option,
    evidence,
    evidence_options,
    file_option,
    moment_options,
    stream_options,
    value_of,
    values_of_groups,
)
from amends_pipeline.cli.reading import check_named_once
from amends_pipeline.cli.session import Session, answering

REJECTED = 1


@click.group()
def bank() -> None:
    """Exact balances from committed journals, at two cutoffs."""


for _command in (
    bank_live.open_,
    bank_live.streams,
    bank_live.post,
    bank_live.correct,
    bank_live.export,
    bank_live.seed_demo,
):
    bank.add_command(_command)


@bank.command()
@file_option("query", "QUERY.json", "The question.")
@evidence_options(required=True)
@answering
def fold(session: Session, query: Path, groups: Path, accounts: Path, context: Path) -> int:
    """Fold an export into one balance, and print the whole result.

    This is the reference: it takes at most 4,096 groups. balances and statement take any number.

    Exit status 0 says that the balance is complete, 1 that the input was rejected, 2 that a file
    cannot be read. --json prints the result on one line.
    """
    from amends_pipeline.bank.fold import judge
    from amends_pipeline.cli import bank_showing

    check_named_once(map(str, (query, groups, accounts, context)))
    # The query first: what is wrong with several files is told of the first of them.
    question, history = value_of(query), values_of_groups(groups)
    judgement = judge(question, history, value_of(accounts), value_of(context))
    bank_showing.whole(session, judgement)
    return REJECTED if judgement.rejection else 0


@bank.command()
@evidence_options(required=False)
@moment_options
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV on standard output.")
@answering
def balances(
    session: Session,
    *,
    effective: str | None,
    knowledge: str | None,
    as_csv: bool,
    **files: Any,  # noqa: ANN401 - where the history is
) -> int:
    """Print the balances of all accounts of an export, or of a live stream.

    Everything is validated, whatever its length. Exit status as of fold.
    """
    from amends_pipeline.bank.balances import judge_all_balances
    from amends_pipeline.cli import bank_showing

    if as_csv and session.as_json:
        raise click.UsageError("--csv or --json, not both.")
    with evidence(session, **files) as found:
        judgement = judge_all_balances(effective, knowledge, *found)
    bank_showing.balances(session, judgement, as_csv=as_csv)
    return REJECTED if judgement.rejection else 0


@bank.command()
@file_option("query", "QUERY.json", "The question.", required=False)
@evidence_options(required=False)
@stream_options
@click.option("--collapse", is_flag=True, help="Hide an original with its reversal.")
@answering
def statement(session: Session, *, collapse: bool, **asking: Any) -> int:  # noqa: ANN401 - any option of the command
    """Print what a balance is made of, in sequence order.

    The question comes from --query about the files of an export, or is about an account of a live
    stream. Exit status as of fold.
    """
    from amends_pipeline.bank.statement import judge_statement_read
    from amends_pipeline.cli import bank_showing

    with asked(session, Asking([asking.pop("query")], **asking)) as ((question,), found):
        judgement = judge_statement_read(question, *found, collapse=collapse)
    bank_showing.statement(session, judgement)
    return REJECTED if judgement.rejection else 0


@bank.command()
@file_option("query", "QUERY.json", "The first question.", required=False)
@file_option("second", "QUERY.json", "The second question.", required=False)
@evidence_options(required=False)
@stream_options
@cutoff_option("then-effective", "Economic cutoff of the second answer.")
@cutoff_option("then-knowledge", "Knowledge cutoff of the second answer.")
@answering
def explain(
    session: Session,
    *,
    then_effective: str | None,
    then_knowledge: str | None,
    **asking: Any,  # noqa: ANN401 - the options that statement has, too
) -> int:
    """Tell which groups turn one answer about an account into another.

    The questions come from --query and --second about the files of an export, or are about an
    account of a live stream at two pairs of cutoffs. Exit status as of fold.
    """
    from amends_pipeline.bank.statement import judge_change_read
    from amends_pipeline.cli import bank_showing

    queries = [asking.pop("query"), asking.pop("second")]
    asking["then"] = then_effective, then_knowledge
    with asked(session, Asking(queries, **asking)) as ((first, second), found):
        judgement = judge_change_read(first, second, *found)
    bank_showing.change(session, judgement)
    return REJECTED if judgement.rejection else 0
