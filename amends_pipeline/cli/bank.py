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
    evidence_of,
    evidence_options,
    file_option,
    stream_options,
    value_of,
)
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

    Exit status 0 says that the balance is complete, 1 that the input was rejected, 2 that a file
    cannot be read. --json prints the result on one line.
    """
    from amends_pipeline.bank.fold import judge
    from amends_pipeline.cli import bank_showing

    # The query first: what is wrong with several files is told of the first of them.
    question = value_of(query)
    judgement = judge(question, *evidence_of(groups, accounts, context))
    bank_showing.whole(session, judgement)
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
    from amends_pipeline.bank.statement import judge_statement
    from amends_pipeline.cli import bank_showing

    (question,), evidence = asked(session, Asking([asking.pop("query")], **asking))
    judgement = judge_statement(question, *evidence, collapse=collapse)
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
    from amends_pipeline.bank.statement import judge_change
    from amends_pipeline.cli import bank_showing

    queries = [asking.pop("query"), asking.pop("second")]
    (first, second), evidence = asked(
        session, Asking(queries, **asking, then=(then_effective, then_knowledge))
    )
    judgement = judge_change(first, second, *evidence)
    bank_showing.change(session, judgement)
    return REJECTED if judgement.rejection else 0
