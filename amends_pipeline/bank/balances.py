"""The balances of all accounts, in one validated pass over any number of groups.

Each balance is what `fold_balance` would say, and so is a refusal, save that histories beyond the
reference are taken. Memory grows with the history: of each group its identifiers are kept, and its
bytes, not its values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amends_pipeline.bank import batches, members
from amends_pipeline.bank.admission import History
from amends_pipeline.bank.codes import Code, RefusedError
from amends_pipeline.bank.export import parse_accounts, parse_aggregate_query, parse_context
from amends_pipeline.bank.fold import (
    Judgement,
    balance_of,
    coverage_of,
    judge_knowledge,
    judge_scope,
)
from amends_pipeline.bank.one_pass import take_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from amends_pipeline.bank.batches import Read
    from amends_pipeline.bank.values import Account, Group, Head


def fold_balances(
    query: object, groups: object, accounts: object, context: object
) -> dict[str, Any]:
    """Return the balance of every account of the query's currency, or the first fault.

    `groups` is any iterable of JSON values, and may be of any length; the others are JSON values.
    The accounts are those of the query's ledger and entity, in the order of their identifiers.
    Never raises but what `groups` raises.
    """
    return judge_balances(query, groups, accounts, context).result


def fold_balances_bytes(
    query: object, lines: Iterable[bytes], accounts: object, context: object
) -> dict[str, Any]:
    r"""Return the balances from JSON lines, such as an open binary file yields.

    Raises `StrictJsonError` where a line is not JSON in UTF-8, is blank or ends with `\r\n`, unless
    the query, the accounts or the context are refused before any line is read.
    """
    return judge_balances_bytes(query, lines, accounts, context).result


def judge_balances(query: object, groups: object, accounts: object, context: object) -> Judgement:
    """Fold as `fold_balances` does, and say where the first fault stands."""
    return _judged(lambda: _answer(query, accounts, context, lambda: batches.read_values(groups)))


def judge_balances_bytes(
    query: object, lines: Iterable[bytes], accounts: object, context: object
) -> Judgement:
    """Fold as `fold_balances_bytes` does, and say where the first fault stands."""
    return _judged(lambda: _answer(query, accounts, context, lambda: batches.read_lines(lines)))


def judge_all_balances(
    effective_cutoff: object,
    knowledge_cutoff: object,
    read: Read,
    accounts: object,
    context: object,
) -> Judgement:
    """Fold for all currencies in one pass: what `judge_balances` says of each of them, together.

    The scope is the head's, and so is a cutoff that is None: the moment at which it was observed.
    Raises what `read` raises.
    """
    cutoffs = {"effective_cutoff": effective_cutoff, "knowledge_cutoff": knowledge_cutoff}
    return _judged(lambda: _answer_all(cutoffs, accounts, context, read))


def _judged(answer: Callable[[], dict[str, Any]]) -> Judgement:
    try:
        return Judgement(answer(), None)
    except RefusedError as refusal:
        code = str(refusal.rejection.code)
        rejected: dict[str, Any] = {
            "status": "rejected",
            "code": code,
            "coverage": None,
            "balances": [],
        }
        return Judgement(rejected, refusal.rejection)


def _answer(query: object, accounts: object, context: object, read: Read) -> dict[str, Any]:
    asked = parse_aggregate_query(query)
    known = parse_accounts(accounts)
    head = parse_context(context).head
    with members.called("query"):
        judge_scope(asked, head)
        judge_knowledge(asked.knowledge_cutoff, head)
    totals = _Totals(known, head, asked.effective_cutoff, asked.knowledge_cutoff, asked.currency)
    return totals.of(read)


def _answer_all(
    cutoffs: Mapping[str, object], accounts: object, context: object, read: Read
) -> dict[str, Any]:
    with members.called("query"):
        effective, knowledge = (members.timestamp_or_null(cutoffs, name) for name in cutoffs)
    known = parse_accounts(accounts)
    head = parse_context(context).head
    if effective is None:
        effective = head.observed_at
    if knowledge is None:
        knowledge = head.observed_at
    with members.called("query"):
        judge_knowledge(knowledge, head)
    return _Totals(known, head, effective, knowledge, None).of(read)


class _Totals:
    """Raw balances by account, as far as the history has been taken."""

    def __init__(
        self,
        accounts: Mapping[str, Account],
        head: Head,
        effective_cutoff: str,
        knowledge_cutoff: str,
        currency: str | None,
    ) -> None:
        """Count one currency, or all of them where it is None."""
        self._accounts = accounts
        self._head = head
        self._effective_cutoff = effective_cutoff
        self._knowledge_cutoff = knowledge_cutoff
        self._currency = currency
        self._raw = {
            account.account_id: 0
            for account in accounts.values()
            if currency in {None, account.currency}
            and (account.ledger_id, account.entity_id) == (head.ledger_id, head.entity_id)
        }
        self._visible_through = "0"

    def of(self, read: Read) -> dict[str, Any]:
        """Return the answer. Raises `RefusedError`."""
        head = self._head
        history = History(head.ledger_id, head.entity_id, self._accounts, head.observed_at)
        take_all(history, head, read(), self._count)
        balances = [
            balance_of(self._accounts[name], raw) for name, raw in sorted(self._raw.items())
        ]
        return {
            "status": "ok",
            "code": str(Code.BALANCE_FOLDED),
            "coverage": coverage_of(head, self._visible_through, None),
            "balances": balances,
        }

    def _count(self, groups: Sequence[Group]) -> None:
        raw, currency, effective_cutoff = self._raw, self._currency, self._effective_cutoff
        for group in groups:
            if group.available_at > self._knowledge_cutoff:
                continue
            for journal in group.journals:
                command = journal.command
                if currency is not None and command.currency != currency:
                    continue
                if command.effective_at <= effective_cutoff:
                    for leg in command.legs:
                        amount = int(leg.amount_minor)
                        raw[leg.account_id] += amount if leg.side == "debit" else -amount
            self._visible_through = journal.sequence
