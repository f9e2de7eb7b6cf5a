"""The balances of all accounts of a currency, in one validated pass over any number of groups.

Each balance is what `fold_balance` would say, and so is a refusal, save that histories beyond the
reference are taken. Memory grows with the history: of each group its identifiers are kept, and its
bytes, not its values.

The order of judgement has the structure of every group before the history: after a group that does
not follow the ones before it, the rest is read for its structure alone.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from amends_pipeline.bank import batches
from amends_pipeline.bank.admission import History
from amends_pipeline.bank.codes import Code, RefusedError, Rejection
from amends_pipeline.bank.export import parse_accounts, parse_aggregate_query, parse_context
from amends_pipeline.bank.fold import (
    Judgement,
    balance_of,
    coverage_of,
    judge_end,
    judge_knowledge,
    judge_scope,
)
from amends_pipeline.bank.members import Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from amends_pipeline.bank.batches import Batch
    from amends_pipeline.bank.values import Account, AggregateQuery, Group, Head

    Read = Callable[[], Iterator[Batch]]


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
    return _judged(query, accounts, context, lambda: batches.read_values(groups))


def judge_balances_bytes(
    query: object, lines: Iterable[bytes], accounts: object, context: object
) -> Judgement:
    """Fold as `fold_balances_bytes` does, and say where the first fault stands."""
    return _judged(query, accounts, context, lambda: batches.read_lines(lines))


def _judged(query: object, accounts: object, context: object, read: Read) -> Judgement:
    try:
        return Judgement(_answer(query, accounts, context, read), None)
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
    try:
        judge_scope(asked, head)
        judge_knowledge(asked, head)
    except Fault as fault:
        raise RefusedError(fault.rejection("query")) from None
    totals = _Totals(asked, known, head)
    batches_left = read()
    rejection = next(filter(None, map(totals.take, batches_left)), None)
    # A fault in the structure of what is left comes before the fault that was found.
    deque(batches_left, maxlen=0)
    if rejection is not None:
        raise RefusedError(rejection)
    judge_end(totals.history, head)
    return {
        "status": "ok",
        "code": str(Code.BALANCE_FOLDED),
        "coverage": coverage_of(head, totals.visible_through, None),
        "balances": [balance_of(known[name], raw) for name, raw in sorted(totals.raw.items())],
    }


class _Totals:
    """Raw balances by account, as far as the history has been taken."""

    def __init__(self, query: AggregateQuery, accounts: Mapping[str, Account], head: Head) -> None:
        self._query = query
        self.history = History(head.ledger_id, head.entity_id, accounts, head.observed_at)
        self.raw = {
            account.account_id: 0
            for account in accounts.values()
            if account.currency == query.currency
            and (account.ledger_id, account.entity_id) == (head.ledger_id, head.entity_id)
        }
        self.visible_through = "0"

    def take(self, batch: Batch) -> Rejection | None:
        """Admit groups and count what is selected; stop at a fault."""
        if batch.columns is None or not self.history.admit_together(batch.columns):
            for number, group in enumerate(batch.groups, batch.start):
                rejection = self.history.admit(group, f"group {number}")
                if rejection is not None:
                    return rejection
        self._count(batch.groups)
        return None

    def _count(self, groups: Sequence[Group]) -> None:
        raw, query = self.raw, self._query
        currency, effective_cutoff = query.currency, query.effective_cutoff
        for group in groups:
            if group.available_at > query.knowledge_cutoff:
                continue
            for journal in group.journals:
                command = journal.command
                if command.currency == currency and command.effective_at <= effective_cutoff:
                    for leg in command.legs:
                        amount = int(leg.amount_minor)
                        raw[leg.account_id] += amount if leg.side == "debit" else -amount
            self.visible_through = journal.sequence
