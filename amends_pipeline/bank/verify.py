"""The verdict: whether the fold's balances are what the oracle finds in the raw export.

A report is a verdict with what it stands on: the question, what was read, the rows that differ,
the trial balance, and what it did not compare. Its status is the first of these that holds:

    ERROR       the oracle failed
    INCOMPLETE  the fold rejected the export or folded another one than the oracle read, or a
                currency has no answer
    DRIFT       a balance or the reach of the cutoff differs, or a currency does not add up to zero
    PASS        all balances agree, and every currency adds up to zero

This module judges values that a flow has read. Amounts are written as text, for they may be longer
than the integers of a reader's JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from amends_pipeline.bank.oracle import AccountBalance, OracleResult
from amends_pipeline.kernel.canonical import compact_json
from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.verdict import Row, Status, first_that_holds

SHOWN_DIFFERENCES: Final = 50
"""How many differing rows a report holds; it counts them all."""

_BALANCE = re.compile(r"0|-?[1-9][0-9]{0,127}")


class Folded(NamedTuple):
    """What the fold answered about all accounts of one currency, as `fold_balances` does."""

    currency: str
    result: Mapping[str, object]
    """`status`, `code`, `coverage`, `balances`; the balances name account, currency and amounts."""


class BalanceFact(Row):
    """What an account holds."""

    currency: str
    raw_balance_minor: str
    normal_balance_minor: str


class CoverageFact(Row):
    """How far the knowledge cutoff reaches into a stream."""

    visible_through_sequence: str


class Kind(StrEnum):
    """What a difference is about."""

    COVERAGE = "coverage"
    BALANCE = "balance"


class Difference(Row):
    """Something that the fold leaves out, finds otherwise, should not find, or finds twice."""

    kind: Kind
    currency: str
    """Of the answer that differs."""
    account_id: str | None
    """Of balances."""
    expected: BalanceFact | CoverageFact | None
    found: BalanceFact | CoverageFact | None
    off_by_minor: str | None
    """Of balances: found less expected, raw; None where what was found is no amount."""


class TrialBalanceRow(Row):
    """All visible legs of one currency, as the oracle adds them."""

    currency: str
    debits_minor: str
    credits_minor: str
    difference_minor: str


class Boundary(Row):
    """What was compared, and how far it reaches."""

    ledger_id: str
    entity_id: str
    effective_cutoff: str
    knowledge_cutoff: str
    through_sequence: str
    visible_through_sequence: str
    account_count: int
    contribution_count: int


class Distance(Row):
    """One thing that keeps the answers from being compared."""

    currency: str
    says: str


class NotCompared(Row):
    """Something that the verdict says nothing about."""

    what: str


class Report(Row):
    """A verdict and everything that it stands on."""

    status: Status
    accepted: bool
    boundary: Boundary | None
    """None where the oracle failed."""
    differences: tuple[Difference, ...]
    """The worst of them, by how far they are off, at most `SHOWN_DIFFERENCES`."""
    difference_count: int
    trial_balance: tuple[TrialBalanceRow, ...]
    distance: tuple[Distance, ...] = ()
    not_compared: tuple[NotCompared, ...] = ()
    errors: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Write the report as one compact JSON document, without a line end."""
        return compact_json(self.model_dump(mode="json"))


def judge(
    answers: Sequence[Folded], expected: OracleResult | None, errors: Sequence[str] = ()
) -> Report:
    """Make the report.

    `answers` are those of the fold to the oracle's question, at most one a currency. `expected` is
    None when the oracle failed, which `errors` then says.
    """
    distance: list[Distance] = []
    differing: list[Difference] = []
    if expected is not None:
        distance = [each for answer in answers for each in _distances(answer, expected)]
        distance += _unanswered(answers, expected)
    not_compared = "anything: there are no two whole answers about one export"
    if expected is not None and not distance and not errors:
        differing = [each for answer in answers for each in _differences(answer, expected)]
        not_compared = "traces, checkpoints, receipts, and whether the export may be believed"
    unbalanced = expected is not None and any(
        total.difference_minor for total in expected.trial_balance
    )
    status = first_that_holds(
        error=bool(errors) or expected is None,
        incomplete=bool(distance),
        drift=bool(differing) or unbalanced,
    )
    return Report(
        status=status,
        accepted=status is Status.PASS,
        boundary=_boundary(expected),
        differences=tuple(sorted(differing, key=_worst_first)[:SHOWN_DIFFERENCES]),
        difference_count=len(differing),
        trial_balance=_trial_balance(expected),
        distance=tuple(distance),
        not_compared=(NotCompared(what=not_compared),),
        errors=tuple(errors),
    )


def _distances(answer: Folded, expected: OracleResult) -> Iterator[Distance]:
    """Tell what keeps one answer from being about the export that the oracle read."""
    if answer.result["status"] != "ok":
        yield Distance(
            currency=answer.currency, says=f"the fold says {shown(answer.result['code'])}"
        )
        return
    folded = _member(answer.result["coverage"], "validated_through_sequence")
    read = str(expected.through_sequence)
    if folded != read:
        says = f"the fold covers sequences through {folded}, the oracle read through {read}"
        yield Distance(currency=answer.currency, says=says)
    if expected.journal_count != expected.through_sequence:
        says = f"the oracle read {expected.journal_count} journals through sequence {read}"
        yield Distance(currency=answer.currency, says=says)


def _unanswered(answers: Sequence[Folded], expected: OracleResult) -> Iterator[Distance]:
    answered = {answer.currency for answer in answers}
    for total in expected.trial_balance:
        if total.currency not in answered:
            yield Distance(currency=total.currency, says="no answer of the fold")


def _differences(answer: Folded, expected: OracleResult) -> Iterator[Difference]:
    reach = CoverageFact(visible_through_sequence=str(expected.visible_through_sequence))
    visible = _member(answer.result["coverage"], "visible_through_sequence")
    if visible != reach.visible_through_sequence:
        yield Difference(
            kind=Kind.COVERAGE,
            currency=answer.currency,
            account_id=None,
            expected=reach,
            found=CoverageFact(visible_through_sequence=visible),
            off_by_minor=None,
        )
    missing = {
        each.account_id: _fact(each)
        for each in expected.balances
        if each.currency == answer.currency
    }
    rows = answer.result["balances"]
    for row in rows if isinstance(rows, list) else []:
        account_id = _member(row, "account_id")
        found = BalanceFact(
            currency=_member(row, "currency"),
            raw_balance_minor=_member(row, "raw_balance_minor"),
            normal_balance_minor=_member(row, "normal_balance_minor"),
        )
        wanted = missing.pop(account_id, None)
        if found != wanted:
            yield _differing(answer, account_id, wanted, found)
    for account_id, fact in missing.items():
        yield _differing(answer, account_id, fact, None)


def _differing(
    answer: Folded, account_id: str, expected: BalanceFact | None, found: BalanceFact | None
) -> Difference:
    return Difference(
        kind=Kind.BALANCE,
        currency=answer.currency,
        account_id=account_id,
        expected=expected,
        found=found,
        off_by_minor=_off_by(expected, found),
    )


def _off_by(expected: BalanceFact | None, found: BalanceFact | None) -> str | None:
    """Take the amounts apart; what one side lacks counts as zero."""
    amounts = [0 if fact is None else _amount(fact.raw_balance_minor) for fact in (expected, found)]
    one, other = amounts
    return None if one is None or other is None else str(other - one)


def _amount(text: str) -> int | None:
    return int(text) if _BALANCE.fullmatch(text) else None


def _worst_first(difference: Difference) -> tuple[bool, bool, int, str, str]:
    """Order by how far a row is off, what has no amount before all, then by name."""
    off_by = difference.off_by_minor
    return (
        difference.kind is Kind.BALANCE,
        off_by is not None,
        -abs(int(off_by or 0)),
        difference.account_id or "",
        difference.currency,
    )


def _member(value: object, name: str) -> str:
    """Read a text; anything else is shown with its type, and so equals nothing expected."""
    member = value.get(name) if isinstance(value, Mapping) else None
    return member if isinstance(member, str) else f"{type(member).__name__} {shown(member)}"


def _fact(balance: AccountBalance) -> BalanceFact:
    return BalanceFact(
        currency=balance.currency,
        raw_balance_minor=str(balance.raw_balance_minor),
        normal_balance_minor=str(balance.normal_balance_minor),
    )


def _boundary(expected: OracleResult | None) -> Boundary | None:
    if expected is None:
        return None
    return Boundary(
        **expected.question._asdict(),
        through_sequence=str(expected.through_sequence),
        visible_through_sequence=str(expected.visible_through_sequence),
        account_count=len(expected.balances),
        contribution_count=sum(each.contribution_count for each in expected.balances),
    )


def _trial_balance(expected: OracleResult | None) -> tuple[TrialBalanceRow, ...]:
    if expected is None:
        return ()
    return tuple(
        TrialBalanceRow(
            currency=total.currency,
            debits_minor=str(total.debits_minor),
            credits_minor=str(total.credits_minor),
            difference_minor=str(total.difference_minor),
        )
        for total in expected.trial_balance
    )
