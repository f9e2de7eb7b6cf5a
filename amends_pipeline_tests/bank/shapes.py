"""What each thing of an export looks like, as the contract says: the first half of `checker`."""

from __future__ import annotations

import calendar
import re

CURRENCIES = {
    "USD",
    "EUR",
    "JPY",
    "KWD",
    "DEM",
}  # two of them withdrawn or unusual; tests use these
LIMIT = 4096
IDENTIFIER = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._:-]{0,62}[A-Za-z0-9])?", re.ASCII)

TURNED = {"debit": "credit", "credit": "debit"}
SIDE_OF_TYPE = {
    "asset": "debit",
    "expense": "debit",
    "liability": "credit",
    "equity": "credit",
    "revenue": "credit",
}


class Refused(Exception):  # noqa: N818 - it is no error of the checker
    """The code of the first fault."""


def refuse_unless(holds, code):
    if not holds:
        raise Refused(code)


# Grammar: first the JSON type, then what the text says


def text(value):
    refuse_unless(type(value) is str, "INVALID_SCHEMA")
    whole = not any(0xD800 <= ord(character) <= 0xDFFF for character in value)
    refuse_unless(whole, "INVALID_SCHEMA")


def words(pattern, code):
    def judge(value):
        text(value)
        refuse_unless(re.fullmatch(pattern, value), code)

    return judge


def one_of(*values, code="INVALID_SCHEMA"):
    def judge(value):
        text(value)
        refuse_unless(value in values, code)

    return judge


def nullable(judge):
    def judge_or_null(value):
        if value is not None:
            judge(value)

    return judge_or_null


def members(value, judges):
    """An object with exactly these members, each as its judge wants it."""
    refuse_unless(type(value) is dict and value.keys() == judges.keys(), "INVALID_SCHEMA")
    for name, judge in judges.items():
        judge(value[name])


def array(value):
    refuse_unless(type(value) is list, "INVALID_SCHEMA")


def anything(_value):
    pass


identifier = words(IDENTIFIER, "INVALID_IDENTIFIER")
amount = words(r"[1-9][0-9]{0,29}", "INVALID_AMOUNT")
sequence = words(r"[1-9][0-9]{0,29}", "INVALID_SEQUENCE")
sequence_or_zero = words(r"0|[1-9][0-9]{0,29}", "INVALID_SEQUENCE")
side = one_of("debit", "credit")


def balance(value):
    text(value)
    refuse_unless(re.fullmatch(r"0|-?[1-9][0-9]*", value, re.ASCII), "INVALID_AMOUNT")
    refuse_unless(len(value) <= 128, "INVALID_AMOUNT")


def timestamp(value):
    text(value)
    parts = re.fullmatch(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)\.\d\d\dZ", value, re.ASCII)
    refuse_unless(parts, "INVALID_TIMESTAMP")
    year, month, day, hour, minute, second = map(int, parts.groups())
    refuse_unless(year >= 1 and 1 <= month <= 12, "INVALID_TIMESTAMP")
    refuse_unless(1 <= day <= calendar.monthrange(year, month)[1], "INVALID_TIMESTAMP")
    refuse_unless(hour < 24 and minute < 60 and second < 60, "INVALID_TIMESTAMP")


def month(value):
    text(value)
    refuse_unless(re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])", value, re.ASCII), "INVALID_TIMESTAMP")
    refuse_unless(value[:4] != "0000", "INVALID_TIMESTAMP")


# 1 to 3: query, accounts, context


def checkpoint(value):
    members(
        value,
        {
            "schema_version": one_of("d30-balance-checkpoint-v1"),
            "checkpoint_id": identifier,
            "stream_id": identifier,
            "ledger_id": identifier,
            "entity_id": identifier,
            "account_id": identifier,
            "currency": text,
            "normal_side": side,
            "through_sequence": sequence_or_zero,
            "effective_cutoff": timestamp,
            "raw_balance_minor": balance,
            "last_group_id": nullable(identifier),
            "last_recorded_at": nullable(timestamp),
            "last_available_at": nullable(timestamp),
            "provenance_ref": identifier,
        },
    )


QUESTION = {
    "schema_version": one_of("d30-balance-fold-v1"),
    "ledger_id": identifier,
    "entity_id": identifier,
    "currency": text,
    "effective_cutoff": timestamp,
    "knowledge_cutoff": timestamp,
}


def judge_query(query):
    members(query, QUESTION | {"account_id": identifier, "checkpoint": nullable(checkpoint)})


def judge_accounts(accounts):
    array(accounts)
    for account in accounts:
        names = ("account_id", "ledger_id", "entity_id", "currency", "account_type", "normal_side")
        members(account, dict.fromkeys(names, text))
        for name in ("account_id", "ledger_id", "entity_id"):
            refuse_unless(IDENTIFIER.fullmatch(account[name]), "INVALID_ACCOUNTS")
        refuse_unless(account["currency"] in CURRENCIES, "INVALID_ACCOUNTS")
        follows = SIDE_OF_TYPE.get(account["account_type"]) == account["normal_side"]
        refuse_unless(follows, "INVALID_ACCOUNTS")
    ids = [account["account_id"] for account in accounts]
    refuse_unless(len(ids) == len(set(ids)), "INVALID_ACCOUNTS")


def judge_context(context):
    members(context, {"head": anything, "checkpoint_registry": array})
    members(
        context["head"],
        {
            "stream_id": identifier,
            "ledger_id": identifier,
            "entity_id": identifier,
            "observed_at": timestamp,
            "head_sequence": sequence_or_zero,
            "receipt_ref": identifier,
        },
    )
    for entry in context["checkpoint_registry"]:
        members(entry, {"checkpoint": checkpoint, "prefix_groups": array})
        refuse_unless(len(entry["prefix_groups"]) <= LIMIT, "INVALID_CONTEXT")
        stands = entry["checkpoint"]
        last = [stands[f"last_{name}"] for name in ("group_id", "recorded_at", "available_at")]
        if stands["through_sequence"] == "0":
            nothing = last == [None] * 3 and stands["raw_balance_minor"] == "0"
            refuse_unless(nothing, "INVALID_CONTEXT")
        else:
            refuse_unless(None not in last, "INVALID_CONTEXT")
    identities = [identity(entry["checkpoint"]) for entry in context["checkpoint_registry"]]
    refuse_unless(len(identities) == len(set(identities)), "INVALID_CONTEXT")


def identity(value):
    scope = ("stream_id", "ledger_id", "entity_id", "account_id", "currency", "checkpoint_id")
    return tuple(value[name] for name in scope)


# 4: the query against the context


def named(account_id, accounts):
    """The account of that id; there is at most one."""
    return next((each for each in accounts if each["account_id"] == account_id), None)


def scope_of(value):
    return value["ledger_id"], value["entity_id"]


def judge_account(account, scope, currency):
    refuse_unless(account is not None, "INVALID_ACCOUNTS")
    refuse_unless(scope_of(account) == scope, "SCOPE_MISMATCH")
    refuse_unless(account["currency"] == currency, "CURRENCY_MISMATCH")


def judge_scope_of_question(query, head, accounts=None):
    refuse_unless(scope_of(query) == scope_of(head), "SCOPE_MISMATCH")
    refuse_unless(query["currency"] in CURRENCIES, "UNSUPPORTED_CURRENCY")
    if accounts is not None:
        judge_account(named(query["account_id"], accounts), scope_of(query), query["currency"])
    refuse_unless(query["knowledge_cutoff"] <= head["observed_at"], "KNOWLEDGE_BEYOND_EXPORT")


def judge_question(query, accounts, context):
    head = context["head"]
    judge_scope_of_question(query, head, accounts)
    account = named(query["account_id"], accounts)
    asked = query["checkpoint"]
    if asked is None:
        return
    same = [
        entry["checkpoint"]
        for entry in context["checkpoint_registry"]
        if identity(entry["checkpoint"]) == identity(asked)
    ]
    refuse_unless(same, "UNKNOWN_CHECKPOINT")
    refuse_unless(same == [asked], "CHECKPOINT_MISMATCH")
    fits = (
        asked["stream_id"] == head["stream_id"]
        and scope_of(asked) == scope_of(query)
        and asked["account_id"] == query["account_id"]
        and asked["currency"] == query["currency"]
        and asked["normal_side"] == account["normal_side"]
    )
    refuse_unless(fits, "CHECKPOINT_MISMATCH")
    cutoff = asked["effective_cutoff"]
    refuse_unless(cutoff == query["effective_cutoff"], "CHECKPOINT_QUERY_MISMATCH")
    known = asked["last_available_at"] or query["knowledge_cutoff"]
    refuse_unless(known <= query["knowledge_cutoff"], "CHECKPOINT_AFTER_KNOWLEDGE")


def prefix_of(query, context):
    if query["checkpoint"] is None:
        return []
    (prefix,) = [
        entry["prefix_groups"]
        for entry in context["checkpoint_registry"]
        if entry["checkpoint"] == query["checkpoint"]
    ]
    return prefix


# 5: how many groups, and what each looks like by itself


def judge_structures(prefix, groups):
    array(groups)
    refuse_unless(len(prefix) + len(groups) <= LIMIT, "INVALID_GROUP")
    for group in [*prefix, *groups]:
        judge_group(group)


def judge_group(group):
    members(
        group,
        {
            "schema_version": one_of("d30-committed-group-v1"),
            "group_id": identifier,
            "kind": text,
            "ledger_id": identifier,
            "entity_id": identifier,
            "available_at": timestamp,
            "journals": array,
            "correction": nullable(link),
        },
    )
    for journal in group["journals"]:
        judge_journal(journal)
    kinds = {"posting": (1, True), "correction": (2, False)}
    count, without_link = kinds.get(group["kind"], (None, None))
    refuse_unless(len(group["journals"]) == count, "INVALID_GROUP")
    refuse_unless((group["correction"] is None) == without_link, "INVALID_GROUP")
    numbers = [int(journal["sequence"]) for journal in group["journals"]]
    refuse_unless(numbers == list(range(numbers[0], numbers[0] + count)), "INVALID_GROUP")


def link(value):
    members(
        value,
        {
            "correction_id": identifier,
            "original_journal_id": identifier,
            "reversal_journal_id": identifier,
            "replacement_journal_id": identifier,
            "reason": text,
        },
    )


def judge_journal(journal):
    members(
        journal,
        {
            "command": command,
            "sequence": sequence,
            "recorded_at": timestamp,
            "adjustment_reason": text,
        },
    )
    said, reason = journal["command"], journal["adjustment_reason"]
    if said["booking_period"] == said["effective_at"][:7]:
        refuse_unless(not reason, "INVALID_GROUP")
    else:
        refuse_unless(reason.strip(), "INVALID_GROUP")


def command(value):
    members(
        value,
        {
            "schema_version": one_of("d30-journal-v1"),
            "ledger_id": identifier,
            "entity_id": identifier,
            "journal_id": identifier,
            "business_operation_id": identifier,
            "currency": text,
            "effective_at": timestamp,
            "source_available_at": timestamp,
            "booking_period": month,
            "legs": array,
        },
    )
    for leg in value["legs"]:
        members(leg, {"account_id": identifier, "side": side, "amount_minor": amount})
    refuse_unless(2 <= len(value["legs"]) <= 32, "INVALID_GROUP")
    refuse_unless(len({leg["account_id"] for leg in value["legs"]}) > 1, "INVALID_GROUP")


# 6 to 8: group by group, in the order of the list
