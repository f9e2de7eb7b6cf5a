"""One account's balance at two cutoffs: validated whole, then selected, then added up.

The order of judgement is the contract's: query, accounts, context; the query against the context;
the number of groups and their structure; the history, group by group, the checkpoint audited where
its prefix ends; last whether the history reaches the head. The first fault is the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from amends_pipeline.bank import members
from amends_pipeline.bank.admission import History
from amends_pipeline.bank.checkpoint import audit_prefix, new_checkpoint, registered_entry
from amends_pipeline.bank.codes import Code, RefusedError, Rejection
from amends_pipeline.bank.export import (
    MAX_GROUPS,
    parse_accounts,
    parse_context,
    parse_groups,
    parse_query,
)
from amends_pipeline.bank.grammar import SUPPORTED_CURRENCIES
from amends_pipeline.bank.members import Fault
from amends_pipeline.bank.values import normal, plain, signed
from amends_pipeline.kernel.display import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from amends_pipeline.bank.values import (
        Account,
        AggregateQuery,
        Context,
        Group,
        Head,
        Journal,
        Query,
        RegistryEntry,
    )

__all__ = ["History", "Judgement", "Rejection", "Replay", "fold_balance", "judge", "replay"]


class Judgement(NamedTuple):
    """A result, with the reason of a refusal for a person."""

    result: dict[str, Any]
    """What `fold_balance` returns: plain JSON values."""
    rejection: Rejection | None
    """None when the result is ok."""


class Replay(NamedTuple):
    """A validated history, and what is asked of it."""

    query: Query
    account: Account
    head: Head
    prefix: list[Group]
    """The groups of the query's checkpoint; none for genesis."""
    supplied: list[Group]
    opening: int
    """The raw balance of the checkpoint; 0 for genesis."""

    @property
    def visible(self) -> list[Group]:
        """The supplied groups whose receipt lies at or before the knowledge cutoff."""
        cutoff = self.query.knowledge_cutoff
        # Receipts never go back: what is visible is a prefix.
        return [group for group in self.supplied if group.available_at <= cutoff]


def fold_balance(
    query: object, groups: object, accounts: object, context: object
) -> dict[str, Any]:
    """Return the balance of one account, or the first fault, as plain JSON values.

    All four are JSON values, as the export contract shapes them; `groups` is an array of at most
    4,096 together with the checkpoint's prefix. They are read and never changed, and the result
    shares nothing with them. Never raises, whatever the values.
    """
    return judge(query, groups, accounts, context).result


def judge(query: object, groups: object, accounts: object, context: object) -> Judgement:
    """Fold as `fold_balance` does, and say where the first fault stands."""
    try:
        return Judgement(_answer(replay(query, groups, accounts, context)), None)
    except RefusedError as refusal:
        return Judgement(_refusal(refusal.rejection.code), refusal.rejection)


def replay(query: object, groups: object, accounts: object, context: object) -> Replay:
    """Validate everything, through the head. Raises `RefusedError` for the first fault."""
    asked = parse_query(query)
    known = parse_accounts(accounts)
    trusted = parse_context(context)
    account, entry = judge_question(asked, known, trusted)
    prefix_groups = entry.prefix_groups if entry else ()
    supplied_groups = members.parsed("groups", members.array, groups)
    _judge_count(len(prefix_groups), len(supplied_groups))
    prefix = parse_groups(prefix_groups, "prefix group")
    supplied = parse_groups(supplied_groups)

    head = trusted.head
    history = History(head.ledger_id, head.entity_id, known, head.observed_at)
    admit_all(history, prefix, "prefix group")
    opening = 0
    if entry is not None:
        opening = sum(contribution(asked, group)[1] for group in prefix)
        with members.called("context"):
            audit_prefix(entry.checkpoint, prefix, opening)
        history.covered_through = history.last_sequence
    admit_all(history, supplied, "group")
    judge_end(history, head)
    return Replay(asked, account, head, prefix, supplied, opening)


def judge_question(
    query: Query, accounts: Mapping[str, Account], context: Context
) -> tuple[Account, RegistryEntry | None]:
    """Judge a query against the context: which account, and from which checkpoint.

    Raises `RefusedError`.
    """
    with members.called("query"):
        return _judge_question(query, accounts, context)


def _judge_question(
    query: Query, accounts: Mapping[str, Account], context: Context
) -> tuple[Account, RegistryEntry | None]:
    head = context.head
    judge_scope(query, head)
    account = accounts.get(query.account_id)
    if account is None:
        raise Fault(Code.INVALID_ACCOUNTS, "a known account", query.account_id, "account_id")
    if (account.ledger_id, account.entity_id) != (head.ledger_id, head.entity_id):
        expected = f"an account of ledger {head.ledger_id}, entity {head.entity_id}"
        found = f"one of {account.ledger_id}, {account.entity_id}"
        raise Fault(Code.SCOPE_MISMATCH, expected, found, "account_id")
    if account.currency != query.currency:
        expected = f"{account.currency}, the account's currency"
        raise Fault(Code.CURRENCY_MISMATCH, expected, query.currency, "currency")
    judge_knowledge(query.knowledge_cutoff, head)
    return account, registered_entry(query, account, context)


def judge_scope(query: Query | AggregateQuery, head: Head) -> None:
    """Raise `Fault` unless the query asks for the head's ledger, in a supported currency."""
    for name in ("ledger_id", "entity_id"):
        expected, found = getattr(head, name), getattr(query, name)
        if expected != found:
            raise Fault(Code.SCOPE_MISMATCH, f"{expected}, the head's", found, name)
    if query.currency not in SUPPORTED_CURRENCIES:
        expected, found = "a currency of ISO 4217", shown(query.currency)
        raise Fault(Code.UNSUPPORTED_CURRENCY, expected, found, "currency")


def judge_knowledge(knowledge_cutoff: str, head: Head) -> None:
    """Raise `Fault` where a query asks for more than the head has seen."""
    if knowledge_cutoff > head.observed_at:
        expected, found = (
            f"a time by {head.observed_at}, when the head was observed",
            knowledge_cutoff,
        )
        raise Fault(Code.KNOWLEDGE_BEYOND_EXPORT, expected, found, "knowledge_cutoff")


def _judge_count(prefix: int, supplied: int) -> None:
    if prefix + supplied > MAX_GROUPS:
        expected = f"at most {MAX_GROUPS} groups, the checkpoint's prefix included"
        found = str(prefix + supplied)
        raise RefusedError(Rejection(Code.INVALID_GROUP, "groups", expected, found))


def admit_all(history: History, groups: Sequence[Group], name: str) -> None:
    """Take groups into the history. Raises `RefusedError` for the first that does not follow."""
    for number, group in enumerate(groups, start=1):
        rejection = history.admit(group, f"{name} {number}")
        if rejection is not None:
            raise RefusedError(rejection)


def judge_end(history: History, head: Head) -> None:
    """Raise `RefusedError` unless the history ends at the head's sequence."""
    if history.last_sequence != int(head.head_sequence):
        expected = f"a history through sequence {head.head_sequence}, the head's"
        found = f"one through {history.last_sequence}"
        raise RefusedError(Rejection(Code.INCOMPLETE_EXPORT, "groups", expected, found))


def contribution_of(query: Query, journal: Journal) -> int | None:
    """Return what a journal adds to the raw balance, None where the query does not select it."""
    command = journal.command
    if command.effective_at > query.effective_cutoff:
        return None
    own = [signed(leg) for leg in command.legs if leg.account_id == query.account_id]
    return sum(own) if own else None


def contribution(query: Query, group: Group) -> tuple[list[str], int]:
    """Return which journals of a group the query selects, and what they add to the raw balance."""
    deltas = {
        journal.command.journal_id: contribution_of(query, journal) for journal in group.journals
    }
    selected = {name: delta for name, delta in deltas.items() if delta is not None}
    return list(selected), sum(selected.values())


def balance_of(account: Account, raw: int) -> dict[str, Any]:
    """Return a balance as the result shows it."""
    return {
        "account_id": account.account_id,
        "currency": account.currency,
        "normal_side": account.normal_side,
        "raw_balance_minor": str(raw),
        "normal_balance_minor": str(normal(raw, account.normal_side)),
    }


def coverage_of(head: Head, visible_through: str, checkpoint_id: str | None) -> dict[str, Any]:
    """Return what a complete answer stands on."""
    return {
        "stream_id": head.stream_id,
        "receipt_ref": head.receipt_ref,
        "head_sequence": head.head_sequence,
        "validated_through_sequence": head.head_sequence,
        "visible_through_sequence": visible_through,
        "checkpoint_id": checkpoint_id,
        "observed_at": head.observed_at,
    }


def _answer(folded: Replay) -> dict[str, Any]:
    query, account, head = folded.query, folded.account, folded.head
    visible = folded.visible
    raw = folded.opening
    trace = []
    for group in visible:
        selected, delta = contribution(query, group)
        raw += delta
        trace.append(
            {
                "group_id": group.group_id,
                "first_sequence": group.journals[0].sequence,
                "last_sequence": group.journals[-1].sequence,
                "available_at": group.available_at,
                "selected_journal_ids": selected,
                "raw_delta_minor": str(delta),
                "raw_balance_minor": str(raw),
                "normal_balance_minor": str(normal(raw, account.normal_side)),
            }
        )
    whole = [*folded.prefix, *visible]
    checkpoint = new_checkpoint(query, account, head, whole, raw)
    resumed = query.checkpoint.checkpoint_id if query.checkpoint else None
    return {
        "status": "ok",
        "code": str(Code.BALANCE_FOLDED),
        "balance": balance_of(account, raw),
        "coverage": coverage_of(head, checkpoint.through_sequence, resumed),
        "trace": trace,
        "checkpoint": plain(checkpoint),
        "checkpoint_registry_entry": {
            "checkpoint": plain(checkpoint),
            "prefix_groups": [plain(group) for group in whole],
        },
    }


def _refusal(code: str) -> dict[str, Any]:
    return {
        "status": "rejected",
        "code": str(code),
        "balance": None,
        "coverage": None,
        "trace": [],
        "checkpoint": None,
        "checkpoint_registry_entry": None,
    }
