"""JSON values become the values of an export, or are refused: shape and grammar, step by step.

What is judged here needs one value alone: types, members, grammar, and for a group its own rules.
What a group means among others is judged by `admission`. Inputs are read and never changed; nothing
that nests without end is followed.

Which code a fault has, wherever it stands:

- another JSON type, a missing or unknown member, a version, a side, a lone surrogate:
  INVALID_SCHEMA. So is what `read_value` found to be JSON that has no one meaning.
- text outside its grammar: INVALID_IDENTIFIER, INVALID_TIMESTAMP (periods too), INVALID_AMOUNT
  (balances too), INVALID_SEQUENCE.
- an account whose identifiers, type, normal side or currency break its rules, or that stands
  twice: INVALID_ACCOUNTS.
- a registry entry that contradicts itself or another one, or has more groups than the reference
  takes: INVALID_CONTEXT.
- a group against its own rules, shape and grammar being right: INVALID_GROUP. Whether a journal
  balances and what a link says is not its shape; `admission` judges it.
"""

from __future__ import annotations

from typing import Any, Final, cast

from amends_pipeline.bank import grammar, members
from amends_pipeline.bank.codes import Code, RefusedError
from amends_pipeline.bank.members import Fault, Unusable
from amends_pipeline.bank.values import (
    CHECKPOINT_VERSION,
    GROUP_VERSION,
    JOURNAL_VERSION,
    NORMAL_SIDES,
    OTHER_SIDE,
    QUERY_VERSION,
    Account,
    AggregateQuery,
    Checkpoint,
    Command,
    Context,
    Correction,
    Group,
    Head,
    Journal,
    Leg,
    Query,
    RegistryEntry,
)
from amends_pipeline.kernel import strict_json
from amends_pipeline.kernel.display import shown

MAX_GROUPS: Final = 4096
"""Groups of one history, prefix and suffix together, that the reference takes."""
MIN_LEGS: Final = 2
MAX_LEGS: Final = 32


def read_value(raw: bytes, where: str, line: int | None = None) -> object:
    """Read one JSON value from a file, or from a line of one, `Unusable` for no one meaning.

    Such are duplicate members, lone surrogates, more levels than `strict_json` reads, numbers that
    are long or not plain. Raises `StrictJsonError` for what is not JSON in UTF-8 at all.
    """
    try:
        return strict_json.loads(raw, where=where, line=line)
    except strict_json.AmbiguousJsonError as error:
        return Unusable(error.expected, error.found)


def parse_query(value: object) -> Query:
    """Read a question about one account. Raises `RefusedError`."""
    return members.parsed("query", _query, value)


def parse_aggregate_query(value: object) -> AggregateQuery:
    """Read a question about all accounts of a currency. Raises `RefusedError`."""
    return members.parsed("query", _aggregate_query, value)


def parse_accounts(value: object) -> dict[str, Account]:
    """Read all accounts, by identifier. Raises `RefusedError`."""
    return members.parsed("accounts", _accounts, value)


def parse_context(value: object) -> Context:
    """Read what the host vouches for; prefixes are counted, not read. Raises `RefusedError`."""
    return members.parsed("context", _context, value)


def parse_groups(value: object, name: str = "group") -> list[Group]:
    """Read committed groups, called `name` and numbered from 1. Raises `RefusedError`."""
    groups = members.parsed(f"{name}s", members.array, value)
    return [parse_group(group, f"{name} {number}") for number, group in enumerate(groups, start=1)]


def parse_group(value: object, where: str = "group") -> Group:
    """Read one committed group. Raises `RefusedError`, the rejection naming what it could read."""
    try:
        return _group(value)
    except Fault as fault:
        raise RefusedError(fault.rejection(where, *_names_of(value))) from None


def parse_command(value: object) -> Command:
    """Read a journal command; legs counted, not added up. Raises `RefusedError`."""
    return members.parsed("command", _lone_command, value)


def parse_correction(value: object) -> Correction:
    """Read the link of a correction, its reason included. Raises `RefusedError`."""
    return members.parsed("correction", _lone_correction, value)


# The values, inside out.

_leg = members.reader(
    Leg, account_id=members.identifier, side=members.side, amount_minor=members.amount
)

_command = members.reader(
    Command,
    schema_version=members.version(JOURNAL_VERSION),
    ledger_id=members.identifier,
    entity_id=members.identifier,
    journal_id=members.identifier,
    business_operation_id=members.identifier,
    currency=members.text,
    effective_at=members.timestamp,
    source_available_at=members.timestamp,
    booking_period=members.booking_period,
    legs=members.parts(_leg),
)

_journal = members.reader(
    Journal,
    command=members.part(_command),
    sequence=members.sequence,
    recorded_at=members.timestamp,
    adjustment_reason=members.text,
)

_correction = members.reader(
    Correction,
    correction_id=members.identifier,
    original_journal_id=members.identifier,
    reversal_journal_id=members.identifier,
    replacement_journal_id=members.identifier,
    reason=members.text,
)

_shape_of_group = members.reader(
    Group,
    schema_version=members.version(GROUP_VERSION),
    group_id=members.identifier,
    kind=members.text,
    ledger_id=members.identifier,
    entity_id=members.identifier,
    available_at=members.timestamp,
    journals=members.parts(_journal),
    correction=members.part_or_null(_correction),
)

_shape_of_account = members.reader(
    Account,
    account_id=members.identifier_of_account,
    ledger_id=members.identifier_of_account,
    entity_id=members.identifier_of_account,
    currency=members.text,
    account_type=members.text,
    normal_side=members.text,
)

_head = members.reader(
    Head,
    stream_id=members.identifier,
    ledger_id=members.identifier,
    entity_id=members.identifier,
    observed_at=members.timestamp,
    head_sequence=members.head_sequence,
    receipt_ref=members.identifier,
)

_checkpoint = members.reader(
    Checkpoint,
    schema_version=members.version(CHECKPOINT_VERSION),
    checkpoint_id=members.identifier,
    stream_id=members.identifier,
    ledger_id=members.identifier,
    entity_id=members.identifier,
    account_id=members.identifier,
    currency=members.text,
    normal_side=members.side,
    through_sequence=members.head_sequence,
    effective_cutoff=members.timestamp,
    raw_balance_minor=members.balance,
    last_group_id=members.identifier_or_null,
    last_recorded_at=members.timestamp_or_null,
    last_available_at=members.timestamp_or_null,
    provenance_ref=members.identifier,
)

_query = members.reader(
    Query,
    schema_version=members.version(QUERY_VERSION),
    ledger_id=members.identifier,
    entity_id=members.identifier,
    account_id=members.identifier,
    currency=members.text,
    effective_cutoff=members.timestamp,
    knowledge_cutoff=members.timestamp,
    checkpoint=members.part_or_null(_checkpoint),
)

_aggregate_query = members.reader(
    AggregateQuery,
    schema_version=members.version(QUERY_VERSION),
    ledger_id=members.identifier,
    entity_id=members.identifier,
    currency=members.text,
    effective_cutoff=members.timestamp,
    knowledge_cutoff=members.timestamp,
)


# What their members do not show one by one.


def _lone_command(value: object) -> Command:
    command = _command(value)
    _judge_legs(command)
    return command


def _judge_legs(command: Command) -> None:
    count = len(command.legs)
    if not MIN_LEGS <= count <= MAX_LEGS:
        expected = f"{MIN_LEGS} to {MAX_LEGS} legs"
        raise Fault(Code.INVALID_GROUP, expected, str(count), "legs")
    if len({leg.account_id for leg in command.legs}) == 1:
        expected, found = "at least two accounts", f"{command.legs[0].account_id} alone"
        raise Fault(Code.INVALID_GROUP, expected, found, "legs")


def _judge_journal(journal: Journal) -> None:
    members.within("command", _judge_legs, journal.command)
    reason, economic = journal.adjustment_reason, journal.command.effective_at[: grammar.MONTH_END]
    if journal.command.booking_period == economic:
        if reason:
            expected = "no reason for a booking in its economic month"
            raise Fault(Code.INVALID_GROUP, expected, shown(reason), "adjustment_reason")
    elif not reason.strip():
        expected = f"a reason for booking {economic} in {journal.command.booking_period}"
        raise Fault(Code.INVALID_GROUP, expected, shown(reason), "adjustment_reason")


def _group(value: object) -> Group:
    group = _shape_of_group(value)
    journals = group.journals
    _judge_kind(group.kind, len(journals), group.correction)
    for index, journal in enumerate(journals):
        members.within(f"journals[{index}]", _judge_journal, journal)
    if len(journals) > 1 and int(journals[1].sequence) != int(journals[0].sequence) + 1:
        expected, found = str(int(journals[0].sequence) + 1), journals[1].sequence
        raise Fault(Code.INVALID_GROUP, expected, found, "journals[1].sequence")
    return group


def _judge_kind(kind: str, count: int, correction: Correction | None) -> None:
    wanted = {"posting": 1, "correction": 2}.get(kind)
    if wanted is None:
        raise Fault(Code.INVALID_GROUP, "posting or correction", shown(kind), "kind")
    if count != wanted:
        raise Fault(Code.INVALID_GROUP, f"{wanted} in a {kind}", str(count), "journals")
    if (correction is None) is (kind == "correction"):
        expected, found = ("a link", "null") if correction is None else ("null", "a link")
        raise Fault(Code.INVALID_GROUP, f"{expected} in a {kind}", found, "correction")


def _lone_correction(value: object) -> Correction:
    correction = _correction(value)
    judge_reason(correction)
    return correction


def judge_reason(correction: Correction) -> None:
    """Raise `Fault` unless the reason of a link is one: what the link says, not its shape."""
    if not grammar.is_reason(correction.reason):
        expected = f"a trimmed text of 1 to {grammar.MAX_REASON_LENGTH} characters"
        found = shown(correction.reason)
        raise Fault(Code.INVALID_CORRECTION_LINK, expected, found, "reason")


def _accounts(value: object) -> dict[str, Account]:
    accounts: dict[str, Account] = {}
    for index, each in enumerate(members.array(value)):
        account = members.within(f"[{index}]", _account, each)
        if account.account_id in accounts:
            raise Fault(
                Code.INVALID_ACCOUNTS,
                "each account once",
                f"{shown(account.account_id)} again",
                f"[{index}].account_id",
            )
        accounts[account.account_id] = account
    return accounts


def _account(value: object) -> Account:
    account = _shape_of_account(value)
    kind, side = account.account_type, account.normal_side
    rules = [
        ("currency", account.currency, grammar.SUPPORTED_CURRENCIES, "a currency of ISO 4217"),
        ("account_type", kind, NORMAL_SIDES, f"one of {', '.join(NORMAL_SIDES)}"),
        ("normal_side", side, OTHER_SIDE, "debit or credit"),
    ]
    for name, text, allowed, expected in rules:
        if text not in allowed:
            raise Fault(Code.INVALID_ACCOUNTS, expected, shown(text), name)
    if side != NORMAL_SIDES[kind]:
        expected = f"{NORMAL_SIDES[kind]}, as for every account of type {kind}"
        raise Fault(Code.INVALID_ACCOUNTS, expected, side, "normal_side")
    return account


def _registry_entry(value: object) -> RegistryEntry:
    given = members.of(value, RegistryEntry)
    checkpoint = members.within("checkpoint", _checkpoint, given["checkpoint"])
    last = (checkpoint.last_group_id, checkpoint.last_recorded_at, checkpoint.last_available_at)
    if checkpoint.through_sequence == "0":
        if last != (None, None, None) or checkpoint.raw_balance_minor != "0":
            expected = "balance 0 and no last group at sequence 0"
            raise Fault(Code.INVALID_CONTEXT, expected, "others", "checkpoint")
    elif None in last:
        expected = "the last group and its clocks after sequence 0"
        raise Fault(Code.INVALID_CONTEXT, expected, "null", "checkpoint")
    prefix = members.within("prefix_groups", members.array, given["prefix_groups"])
    if len(prefix) > MAX_GROUPS:
        expected = f"at most {MAX_GROUPS} groups"
        raise Fault(Code.INVALID_CONTEXT, expected, str(len(prefix)), "prefix_groups")
    return RegistryEntry(checkpoint, tuple(prefix))


def _registry(value: object) -> tuple[RegistryEntry, ...]:
    entries = members.each("", _registry_entry, members.array(value))
    identities = set()
    for index, entry in enumerate(entries):
        identity = scoped_identity(entry.checkpoint)
        if identity in identities:
            found = f"{shown(entry.checkpoint.checkpoint_id)} again in the same scope"
            raise Fault(Code.INVALID_CONTEXT, "each checkpoint once", found, f"[{index}]")
        identities.add(identity)
    return entries


def scoped_identity(checkpoint: Checkpoint) -> tuple[str, ...]:
    """Under what a checkpoint is registered."""
    return (
        checkpoint.checkpoint_id,
        checkpoint.stream_id,
        checkpoint.ledger_id,
        checkpoint.entity_id,
        checkpoint.account_id,
        checkpoint.currency,
    )


_context = members.reader(
    Context, head=members.part(_head), checkpoint_registry=members.part(_registry)
)


def _names_of(value: object) -> tuple[str | None, str | None]:
    """Read the identifier and the first sequence of a group that is refused, where it has them."""
    try:
        group = cast("dict[str, Any]", value)
        group_id, sequence = group["group_id"], group["journals"][0]["sequence"]
    except (TypeError, KeyError, IndexError):
        return None, None
    return (
        group_id if type(group_id) is str and grammar.is_identifier(group_id) else None,
        sequence if type(sequence) is str and grammar.is_sequence(sequence) else None,
    )
