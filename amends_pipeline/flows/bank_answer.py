"""Answer: all balances of a kept export at two cutoffs, what moved one, and whether they agree."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from amends_pipeline.bank.balances import judge_all_balances
from amends_pipeline.bank.movements import Movement, movements, selected
from amends_pipeline.bank.oracle import OracleError, Question, compute
from amends_pipeline.bank.values import Account, Head
from amends_pipeline.bank.verify import Folded, Report
from amends_pipeline.bank.verify import judge as judge_answers
from amends_pipeline.flows.bank_take import files_of, groups, read, trusted
from amends_pipeline.kernel.errors import AmendsError, InputError


class Cutoffs(NamedTuple):
    """Which balances are asked for; both are inclusive."""

    effective: str
    knowledge: str


class Answers(NamedTuple):
    """The balances of all accounts, as the fold gives them."""

    head: Head
    cutoffs: Cutoffs
    coverage: dict[str, Any]
    """Of the fold's results; the same for every currency."""
    balances: Sequence[dict[str, str]]
    """By account id: account_id, currency, normal_side, raw_balance_minor, normal_balance_minor."""


def answer(folder: Path, effective: str | None = None, knowledge: str | None = None) -> Answers:
    """Fold the export in a folder for every account, whatever their currencies, in one pass.

    effective, knowledge: by default the moment at which the head was observed. Raises InputError
    where the fold refuses, with its code; OperationError.
    """
    head, _ = trusted(folder)
    with groups(folder) as batches:
        judged = judge_all_balances(effective, knowledge, lambda: batches, *read(folder))
    rejection = judged.rejection
    if rejection is not None:
        where = f"{rejection.code} at {rejection.where}"
        raise InputError(where, expected=rejection.expected, found=rejection.found)
    cutoffs = Cutoffs(
        head.observed_at if effective is None else effective,
        head.observed_at if knowledge is None else knowledge,
    )
    return Answers(head, cutoffs, judged.result["coverage"], judged.result["balances"])


def moved(folder: Path, account: Account, cutoffs: Cutoffs) -> list[Movement]:
    """Return what moved an account, as far as both cutoffs select it. Raises as `answer`."""
    with groups(folder) as batches:
        history = (group for batch in batches for group in batch.groups)
        return list(selected(movements(history, account), *cutoffs))


def verify(folder: Path, answers: Sequence[Folded], cutoffs: Cutoffs) -> Report:
    """Compare answers with what the oracle finds in the export. Never raises AmendsError."""
    try:
        head, _ = trusted(folder)
        accounts = read(folder).accounts
        if not isinstance(accounts, list):
            raise InputError("accounts.json", expected="an array", found=type(accounts).__name__)
        question = Question(head.ledger_id, head.entity_id, *cutoffs)
        expected = compute(files_of(folder).groups, accounts, question)
    except OracleError as error:
        return judge_answers(answers, None, [str(error)])
    except AmendsError as error:
        return judge_answers(answers, None, [f"the export cannot be read: {error}"])
    return judge_answers(answers, expected)
