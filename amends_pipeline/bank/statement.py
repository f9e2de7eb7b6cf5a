"""What a balance is made of, and what turned one answer into another.

Both validate as the fold does and refuse what it refuses, with the same code, save that histories
beyond the reference are taken: one pass, as `balances` goes over them. A contribution is a journal
with at least one leg of the account, visible and selected by both cutoffs; its delta is the sum of
these legs.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from amends_pipeline.bank import batches, members
from amends_pipeline.bank.admission import History
from amends_pipeline.bank.checkpoint import audit_prefix
from amends_pipeline.bank.codes import Code, RefusedError, Rejection
from amends_pipeline.bank.export import parse_accounts, parse_context, parse_groups, parse_query
from amends_pipeline.bank.fold import (
    Judgement,
    admit_all,
    balance_of,
    contribution,
    coverage_of,
    judge_question,
)
from amends_pipeline.bank.movements import Movement, movements, selected
from amends_pipeline.bank.one_pass import structure_first, take_all
from amends_pipeline.bank.values import normal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from amends_pipeline.bank.batches import Read
    from amends_pipeline.bank.values import Account, Group, Head, Query, RegistryEntry


def statement(
    query: object, groups: object, accounts: object, context: object, *, collapse: bool = False
) -> dict[str, Any]:
    """Return the contributions to one balance in sequence order, with running balances.

    Inputs as `fold_balance` takes them, but `groups` is any iterable of JSON values and may be of
    any length. After a checkpoint the lines start from its balance, the opening. `collapse` hides
    an original and its reversal where both are among the lines, and runs the balances over what is
    left. Never raises but what `groups` raises.
    """
    return judge_statement(query, groups, accounts, context, collapse=collapse).result


def judge_statement(
    query: object, groups: object, accounts: object, context: object, *, collapse: bool = False
) -> Judgement:
    """Answer as `statement` does, and say where the first fault stands."""
    read = _reading(groups)
    return judge_statement_read(query, read, accounts, context, collapse=collapse)


def judge_statement_read(
    query: object, read: Read, accounts: object, context: object, *, collapse: bool = False
) -> Judgement:
    """Answer as `judge_statement` does, of groups that `read` reads. Raises what that raises."""
    nothing: dict[str, Any] = {"balance": None, "opening": None, "coverage": None, "lines": []}
    return _judged(
        lambda: _statement(
            _passed(_posed("query", query, accounts, context), read), collapse=collapse
        ),
        nothing,
    )


def explain_change(
    first_query: object, second_query: object, groups: object, accounts: object, context: object
) -> dict[str, Any]:
    """Return which groups turn the answer to the first query into that to the second.

    Both ask about one account of one export. A group is told with the journals that entered the
    balance and those that left it; the changes add up to the difference. `groups` is an array, of
    any length. Never raises.
    """
    return judge_change(first_query, second_query, groups, accounts, context).result


def judge_change(
    first_query: object, second_query: object, groups: object, accounts: object, context: object
) -> Judgement:
    """Answer as `explain_change` does, and say where the first fault stands."""
    return judge_change_read(first_query, second_query, _reading(groups), accounts, context)


def judge_change_read(
    first_query: object, second_query: object, read: Read, accounts: object, context: object
) -> Judgement:
    """Answer as `judge_change` does, of groups that `read` reads. Raises what that raises.

    It reads them once; twice where the queries start from different checkpoints.
    """
    nothing: dict[str, Any] = {
        "first": None,
        "second": None,
        "raw_change_minor": None,
        "normal_change_minor": None,
        "groups": [],
    }

    def answer() -> dict[str, Any]:
        first = _passed(_posed("first query", first_query, accounts, context), read)
        posed = _posed("second query", second_query, accounts, context)
        if first.posed.query.checkpoint != posed.query.checkpoint:
            return _change(first, _passed(posed, read))
        _judge_account(first.posed, posed)
        return _change(first, first._replace(posed=posed))

    return _judged(answer, nothing)


def _reading(groups: object) -> Read:
    # That they are no array is told before anything of a checkpoint's prefix.
    return lambda: batches.read_values(batches.elements(groups))


def _judged(answer: Callable[[], dict[str, Any]], nothing: dict[str, Any]) -> Judgement:
    try:
        return Judgement({"status": "ok", "code": str(Code.BALANCE_FOLDED), **answer()}, None)
    except RefusedError as refusal:
        code = str(refusal.rejection.code)
        return Judgement({"status": "rejected", "code": code, **nothing}, refusal.rejection)


# A question, and the pass over the history that answers it.


class _Posed(NamedTuple):
    """A question that the context takes."""

    query: Query
    accounts: dict[str, Account]
    account: Account
    head: Head
    entry: RegistryEntry | None
    """What the question starts from; None for genesis."""


class _Passed(NamedTuple):
    """What a valid history holds of the account of a question, whatever the cutoffs."""

    posed: _Posed
    opening: int
    """The raw balance of the checkpoint; 0 for genesis."""
    covered: list[Movement]
    """Of the checkpoint's prefix; none for genesis."""
    supplied: list[Movement]
    visible_through: str
    """Where the last group ends that the question's knowledge cutoff shows."""

    def contributions(self, *, covered: bool) -> list[Movement]:
        """What the question selects of the supplied groups, and of those that are `covered`."""
        moved = [*self.covered, *self.supplied] if covered else self.supplied
        query = self.posed.query
        return list(selected(moved, query.effective_cutoff, query.knowledge_cutoff))


def _posed(name: str, query: object, accounts: object, context: object) -> _Posed:
    """Judge a query that a rejection calls by its name."""
    try:
        asked = parse_query(query)
        known = parse_accounts(accounts)
        trusted = parse_context(context)
        account, entry = judge_question(asked, known, trusted)
        return _Posed(asked, known, account, trusted.head, entry)
    except RefusedError as refusal:
        rejection = refusal.rejection
        if not rejection.where.startswith("query"):
            raise
        where = f"{name}{rejection.where.removeprefix('query')}"
        raise RefusedError(rejection._replace(where=where)) from None


def _passed(posed: _Posed, read: Read) -> _Passed:
    """Validate everything, through the head. Raises `RefusedError` for the first fault."""
    query, head, entry = posed.query, posed.head, posed.entry
    history = History(head.ledger_id, head.entity_id, posed.accounts, head.observed_at)
    left = read()
    prefix: list[Group] = []
    opening, visible_through = 0, "0"
    if entry is not None:
        prefix = parse_groups(entry.prefix_groups, "prefix group")
        opening = sum(contribution(query, group)[1] for group in prefix)
        visible_through = entry.checkpoint.through_sequence
        with structure_first(left):
            admit_all(history, prefix, "prefix group")
            with members.called("context"):
                audit_prefix(entry.checkpoint, prefix, opening)
        history.covered_through = history.last_sequence
    supplied: list[Movement] = []

    def look(groups: Sequence[Group]) -> None:
        nonlocal visible_through
        supplied.extend(movements(groups, posed.account))
        # Receipts never go back: what is visible is a prefix.
        for group in reversed(groups):
            if group.available_at <= query.knowledge_cutoff:
                visible_through = group.journals[-1].sequence
                break

    take_all(history, head, left, look)
    covered = list(movements(prefix, posed.account))
    return _Passed(posed, opening, covered, supplied, visible_through)


# The answers.


def _statement(passed: _Passed, *, collapse: bool) -> dict[str, Any]:
    query, _, account, head, _ = passed.posed
    contributions = passed.contributions(covered=False)
    if collapse:
        contributions = _in_force(contributions)
    raw = passed.opening
    lines = []
    for each in contributions:
        raw += _raw(each, account)
        lines.append(_line(each, account, raw))
    resumed = query.checkpoint.checkpoint_id if query.checkpoint else None
    return {
        "balance": balance_of(account, raw),
        "opening": balance_of(account, passed.opening),
        "coverage": coverage_of(head, passed.visible_through, resumed),
        "lines": lines,
    }


def _in_force(contributions: list[Movement]) -> list[Movement]:
    """Leave out every original with its reversal, where both are there."""
    present = {each.journal_id for each in contributions}
    hidden: set[str | None] = set()
    for each in contributions:
        if each.kind == "reversal" and each.original_journal_id in present:
            hidden |= {each.journal_id, each.original_journal_id}
    return [each for each in contributions if each.journal_id not in hidden]


def _raw(movement: Movement, account: Account) -> int:
    return normal(movement.amount, account.normal_side)  # its own inverse


def _line(each: Movement, account: Account, raw: int) -> dict[str, Any]:
    return {
        "group_id": each.group_id,
        "sequence": str(each.sequence),
        "journal_id": each.journal_id,
        "kind": each.kind,
        "correction_id": each.correction_id,
        "original_journal_id": each.original_journal_id,
        "effective_at": each.effective_at,
        "booking_period": each.booking_period,
        "recorded_at": each.recorded_at,
        "available_at": each.available_at,
        "raw_delta_minor": str(_raw(each, account)),
        "raw_balance_minor": str(raw),
        "normal_balance_minor": str(normal(raw, account.normal_side)),
    }


def _judge_account(first: _Posed, second: _Posed) -> None:
    if first.account != second.account:
        expected = f"{first.account.account_id}, the account of the first query"
        found = second.account.account_id
        raise RefusedError(
            Rejection(Code.SCOPE_MISMATCH, "second query: account_id", expected, found)
        )


def _change(first: _Passed, second: _Passed) -> dict[str, Any]:
    _judge_account(first.posed, second.posed)
    account = second.posed.account
    before, after = (
        {each.journal_id: each for each in passed.contributions(covered=True)}
        for passed in (first, second)
    )
    changes = []
    moved = [*second.covered, *second.supplied]
    for _, of_group in groupby(moved, key=lambda each: each.group_id):
        journals = list(of_group)
        names = [each.journal_id for each in journals]
        entered = [name for name in names if name in after and name not in before]
        left = [name for name in names if name in before and name not in after]
        if entered or left:
            change = sum(after[name].amount for name in entered)
            change -= sum(before[name].amount for name in left)
            changes.append(_group_line(journals[0], account, entered, left, change))
    totals = [sum(each.amount for each in side.values()) for side in (before, after)]
    change = totals[1] - totals[0]
    return {
        "first": _answer(first.posed, totals[0]),
        "second": _answer(second.posed, totals[1]),
        "raw_change_minor": str(normal(change, account.normal_side)),
        "normal_change_minor": str(change),
        "groups": changes,
    }


def _answer(posed: _Posed, balance: int) -> dict[str, Any]:
    return {
        "effective_cutoff": posed.query.effective_cutoff,
        "knowledge_cutoff": posed.query.knowledge_cutoff,
        "balance": balance_of(posed.account, normal(balance, posed.account.normal_side)),
    }


def _group_line(
    journal: Movement, account: Account, entered: Iterable[str], left: Iterable[str], change: int
) -> dict[str, Any]:
    return {
        "group_id": journal.group_id,
        "first_sequence": str(journal.first_sequence),
        "last_sequence": str(journal.last_sequence),
        "available_at": journal.available_at,
        "entered_journal_ids": entered,
        "left_journal_ids": left,
        "raw_change_minor": str(normal(change, account.normal_side)),
        "normal_change_minor": str(change),
    }
