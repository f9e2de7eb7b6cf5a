"""What a balance is made of, and what turned one answer into another.

Both validate as the fold does and refuse what it refuses, with the same code. A contribution is a
journal with at least one leg of the account, visible and selected by both cutoffs; its delta is the
sum of these legs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from amends_pipeline.bank.checkpoint import end_of
from amends_pipeline.bank.codes import Code, RefusedError, Rejection
from amends_pipeline.bank.fold import (
    Judgement,
    Replay,
    balance_of,
    contribution_of,
    coverage_of,
    replay,
)
from amends_pipeline.bank.values import normal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from amends_pipeline.bank.values import Account, Group, Journal


class _Contribution(NamedTuple):
    group: Group
    journal: Journal
    kind: str
    """posting, reversal or replacement."""
    delta: int

    @property
    def journal_id(self) -> str:
        return self.journal.command.journal_id

    @property
    def undone(self) -> str | None:
        """The journal that this one reverses."""
        link = self.group.correction
        return link.original_journal_id if link and self.kind == "reversal" else None


def statement(
    query: object, groups: object, accounts: object, context: object, *, collapse: bool = False
) -> dict[str, Any]:
    """Return the contributions to one balance in sequence order, with running balances.

    Inputs as `fold_balance` takes them. After a checkpoint the lines start from its balance, the
    opening. `collapse` hides an original and its reversal where both are among the lines, and runs
    the balances over what is left. Never raises.
    """
    return judge_statement(query, groups, accounts, context, collapse=collapse).result


def judge_statement(
    query: object, groups: object, accounts: object, context: object, *, collapse: bool = False
) -> Judgement:
    """Answer as `statement` does, and say where the first fault stands."""
    nothing: dict[str, Any] = {"balance": None, "opening": None, "coverage": None, "lines": []}
    return _judged(
        lambda: _statement(replay(query, groups, accounts, context), collapse=collapse), nothing
    )


def explain_change(
    first_query: object, second_query: object, groups: object, accounts: object, context: object
) -> dict[str, Any]:
    """Return which groups turn the answer to the first query into that to the second.

    Both ask about one account of one export. A group is told with the journals that entered the
    balance and those that left it; the changes add up to the difference. Never raises.
    """
    return judge_change(first_query, second_query, groups, accounts, context).result


def judge_change(
    first_query: object, second_query: object, groups: object, accounts: object, context: object
) -> Judgement:
    """Answer as `explain_change` does, and say where the first fault stands."""
    nothing: dict[str, Any] = {
        "first": None,
        "second": None,
        "raw_change_minor": None,
        "normal_change_minor": None,
        "groups": [],
    }

    def answer() -> dict[str, Any]:
        first = _renamed("first query", first_query, groups, accounts, context)
        second = _renamed("second query", second_query, groups, accounts, context)
        return _change(first, second)

    return _judged(answer, nothing)


def _judged(answer: Callable[[], dict[str, Any]], nothing: dict[str, Any]) -> Judgement:
    try:
        return Judgement({"status": "ok", "code": str(Code.BALANCE_FOLDED), **answer()}, None)
    except RefusedError as refusal:
        code = str(refusal.rejection.code)
        return Judgement({"status": "rejected", "code": code, **nothing}, refusal.rejection)


def _renamed(name: str, query: object, groups: object, accounts: object, context: object) -> Replay:
    """Replay a query that a rejection calls by its name."""
    try:
        return replay(query, groups, accounts, context)
    except RefusedError as refusal:
        rejection = refusal.rejection
        if not rejection.where.startswith("query"):
            raise
        where = f"{name}{rejection.where.removeprefix('query')}"
        raise RefusedError(rejection._replace(where=where)) from None


def _statement(folded: Replay, *, collapse: bool) -> dict[str, Any]:
    account, query = folded.account, folded.query
    contributions = list(_contributions(folded, folded.visible))
    if collapse:
        contributions = _in_force(contributions)
    raw = folded.opening
    lines = []
    for each in contributions:
        raw += each.delta
        lines.append(_line(each, account, raw))
    visible_through = end_of([*folded.prefix, *folded.visible])[0]
    resumed = query.checkpoint.checkpoint_id if query.checkpoint else None
    return {
        "balance": balance_of(account, raw),
        "opening": balance_of(account, folded.opening),
        "coverage": coverage_of(folded.head, visible_through, resumed),
        "lines": lines,
    }


def _contributions(folded: Replay, groups: list[Group]) -> Iterator[_Contribution]:
    query = folded.query
    for group in groups:
        kinds = ("posting",) if group.correction is None else ("reversal", "replacement")
        for journal, kind in zip(group.journals, kinds, strict=True):
            delta = contribution_of(query, journal)
            if delta is not None:
                yield _Contribution(group, journal, kind, delta)


def _in_force(contributions: list[_Contribution]) -> list[_Contribution]:
    """Leave out every original with its reversal, where both are there."""
    present = {each.journal_id for each in contributions}
    hidden: set[str] = set()
    for each in contributions:
        if each.undone in present:
            hidden |= {each.journal_id, each.undone}
    return [each for each in contributions if each.journal_id not in hidden]


def _line(each: _Contribution, account: Account, raw: int) -> dict[str, Any]:
    link = each.group.correction
    command = each.journal.command
    return {
        "group_id": each.group.group_id,
        "sequence": each.journal.sequence,
        "journal_id": command.journal_id,
        "kind": each.kind,
        "correction_id": link.correction_id if link else None,
        "original_journal_id": link.original_journal_id if link else None,
        "effective_at": command.effective_at,
        "booking_period": command.booking_period,
        "recorded_at": each.journal.recorded_at,
        "available_at": each.group.available_at,
        "raw_delta_minor": str(each.delta),
        "raw_balance_minor": str(raw),
        "normal_balance_minor": str(normal(raw, account.normal_side)),
    }


def _change(first: Replay, second: Replay) -> dict[str, Any]:
    account = second.account
    if first.account != account:
        expected = f"{first.account.account_id}, the account of the first query"
        found = account.account_id
        raise RefusedError(
            Rejection(Code.SCOPE_MISMATCH, "second query: account_id", expected, found)
        )
    before, after = (
        {
            each.journal_id: each
            for each in _contributions(folded, [*folded.prefix, *folded.visible])
        }
        for folded in (first, second)
    )
    changes = []
    for group in [*second.prefix, *second.supplied]:
        names = [journal.command.journal_id for journal in group.journals]
        entered = [name for name in names if name in after and name not in before]
        left = [name for name in names if name in before and name not in after]
        if entered or left:
            raw = sum(after[name].delta for name in entered)
            raw -= sum(before[name].delta for name in left)
            changes.append(_group_line(group, account, entered, left, raw))
    totals = [sum(each.delta for each in side.values()) for side in (before, after)]
    return {
        "first": _answer(first, totals[0]),
        "second": _answer(second, totals[1]),
        "raw_change_minor": str(totals[1] - totals[0]),
        "normal_change_minor": str(normal(totals[1] - totals[0], account.normal_side)),
        "groups": changes,
    }


def _answer(folded: Replay, raw: int) -> dict[str, Any]:
    return {
        "effective_cutoff": folded.query.effective_cutoff,
        "knowledge_cutoff": folded.query.knowledge_cutoff,
        "balance": balance_of(folded.account, raw),
    }


def _group_line(
    group: Group, account: Account, entered: list[str], left: list[str], raw: int
) -> dict[str, Any]:
    return {
        "group_id": group.group_id,
        "first_sequence": group.journals[0].sequence,
        "last_sequence": group.journals[-1].sequence,
        "available_at": group.available_at,
        "entered_journal_ids": entered,
        "left_journal_ids": left,
        "raw_change_minor": str(raw),
        "normal_change_minor": str(normal(raw, account.normal_side)),
    }
