"""A second opinion on an export, written from the contract for reading, not for speed.

It keeps no index and carries no state from group to group: every rule looks at the group in hand
and at the plain list of all groups before it, again and again. Each stage of the contract's order
of judgement is a function; the first fault met is the code. Nothing of the package is imported.
"""

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


def check(query, groups, accounts, context):
    """Return ("BALANCE_FOLDED", the whole result) or (the code of the refusal, None)."""
    try:
        judge_query(query)
        judge_accounts(accounts)
        judge_context(context)
        judge_question(query, accounts, context)
        prefix = prefix_of(query, context)
        judge_structures(prefix, groups)
        judge_history(query, prefix, groups, accounts, context)
    except Refused as refusal:
        return refusal.args[0], None
    return "BALANCE_FOLDED", answer(query, prefix, groups, accounts, context)


def check_balances(query, groups, accounts, context):
    """The same about all accounts of the query's currency: (code, their balances or None)."""
    try:
        members(query, QUESTION)
        judge_accounts(accounts)
        judge_context(context)
        judge_scope_of_question(query, context["head"])
        for group in groups:
            judge_group(group)
        judge_history({**query, "checkpoint": None}, [], groups, accounts, context)
    except Refused as refusal:
        return refusal.args[0], None
    shown = [group for group in groups if group["available_at"] <= query["knowledge_cutoff"]]
    return "BALANCE_FOLDED", [
        said_of(account, raw_balance({**query, "account_id": account["account_id"]}, shown))
        for account in sorted(accounts, key=lambda account: account["account_id"])
        if scope_of(account) == scope_of(query) and account["currency"] == query["currency"]
    ]


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


def judge_history(query, prefix, groups, accounts, context):
    through = int(query["checkpoint"]["through_sequence"]) if query["checkpoint"] else 0
    history = [*prefix, *groups]
    for place, group in enumerate(history):
        if place == len(prefix):
            judge_checkpoint(query, prefix)
        if place >= len(prefix):
            refuse_unless(first_of(group) > through, "CHECKPOINT_OVERLAP")
        before = history[:place]
        judge_place(before, group)
        judge_scope(group, accounts, context["head"])
        judge_identities(before, group)
        for journal in group["journals"]:
            refuse_unless(moved(journal, lambda _leg: True) == 0, "INVALID_GROUP")
        if group["kind"] == "correction":
            judge_correction(before, group)
        judge_clocks(before, group, context["head"])
    if not groups:
        judge_checkpoint(query, prefix)
    refuse_unless(last_of(history) == int(context["head"]["head_sequence"]), "INCOMPLETE_EXPORT")


def judge_checkpoint(query, prefix):
    asked = query["checkpoint"]
    if asked is None:
        return
    stands = (
        str(last_of(prefix)) == asked["through_sequence"]
        and position(prefix, asked["through_sequence"]).items() <= asked.items()
    )
    refuse_unless(stands, "CHECKPOINT_MISMATCH")
    refuse_unless(
        str(raw_balance(query, prefix)) == asked["raw_balance_minor"], "CHECKPOINT_BALANCE_MISMATCH"
    )


def position(groups, through):
    """What a checkpoint says about the end of the groups that it stands on."""
    if not groups:
        last = {"last_group_id": None, "last_recorded_at": None, "last_available_at": None}
    else:
        last = {
            "last_group_id": groups[-1]["group_id"],
            "last_recorded_at": groups[-1]["journals"][-1]["recorded_at"],
            "last_available_at": groups[-1]["available_at"],
        }
    return {"through_sequence": through} | last


def first_of(group):
    return int(group["journals"][0]["sequence"])


def last_of(groups):
    return int(groups[-1]["journals"][-1]["sequence"]) if groups else 0


def judge_place(before, group):
    for earlier in before:
        if earlier["group_id"] == group["group_id"]:
            raise Refused("DUPLICATE_GROUP" if earlier == group else "GROUP_ID_CONFLICT")
    refuse_unless(first_of(group) > last_of(before), "OUT_OF_ORDER_GROUP")
    refuse_unless(first_of(group) == last_of(before) + 1, "SEQUENCE_GAP")


def judge_scope(group, accounts, head):
    refuse_unless(scope_of(group) == scope_of(head), "SCOPE_MISMATCH")
    for said in commands([group]):
        refuse_unless(scope_of(said) == scope_of(head), "SCOPE_MISMATCH")
        refuse_unless(said["currency"] in CURRENCIES, "UNSUPPORTED_CURRENCY")
        for leg in said["legs"]:
            judge_account(named(leg["account_id"], accounts), scope_of(head), said["currency"])


def commands(groups):
    return [journal["command"] for group in groups for journal in group["journals"]]


def judge_identities(before, group):
    for name, code in (
        ("journal_id", "DUPLICATE_JOURNAL"),
        ("business_operation_id", "DUPLICATE_BUSINESS_OPERATION"),
    ):
        ids = [said[name] for said in commands([*before, group])]
        refuse_unless(len(ids) == len(set(ids)), code)


def judge_correction(before, group):
    reversal, replacement = commands([group])
    said = group["correction"]
    for name in (
        "ledger_id",
        "entity_id",
        "currency",
        "effective_at",
        "source_available_at",
        "booking_period",
    ):
        refuse_unless(reversal[name] == replacement[name], "INVALID_CORRECTION_LINK")
    own = (said["reversal_journal_id"], said["replacement_journal_id"])
    links = [each["correction"] for each in before if each["correction"] is not None]
    originals = [
        each for each in commands(before) if each["journal_id"] == said["original_journal_id"]
    ]
    right = (
        own == (reversal["journal_id"], replacement["journal_id"])
        and 1 <= len(said["reason"]) <= 240
        and said["reason"] == said["reason"].strip()
        and said["correction_id"] not in [each["correction_id"] for each in links]
        and originals
    )
    refuse_unless(right, "INVALID_CORRECTION_LINK")
    target = said["original_journal_id"]
    reversals = [each["reversal_journal_id"] for each in links]
    refuse_unless(target not in reversals, "REVERSAL_OF_REVERSAL")
    reversed_ = [each["original_journal_id"] for each in links]
    refuse_unless(target not in reversed_, "ALREADY_REVERSED")
    exact = [leg | {"side": TURNED[leg["side"]]} for leg in originals[0]["legs"]]
    refuse_unless(reversal["legs"] == exact, "INVALID_REVERSAL")


def judge_clocks(before, group, head):
    recorded = [journal["recorded_at"] for each in [*before, group] for journal in each["journals"]]
    available = [each["available_at"] for each in [*before, group]]
    rises = recorded == sorted(recorded) and available == sorted(available)
    refuse_unless(rises, "CLOCK_ORDER_VIOLATION")
    for journal in group["journals"]:
        said = journal["command"]
        follows = (
            said["effective_at"] <= journal["recorded_at"]
            and said["source_available_at"] <= journal["recorded_at"]
            and journal["recorded_at"] <= group["available_at"] <= head["observed_at"]
        )
        refuse_unless(follows, "CLOCK_ORDER_VIOLATION")


# The answer


def moved(journal, counts):
    """Debits less credits of the legs that count."""
    return sum(
        {"debit": 1, "credit": -1}[leg["side"]] * int(leg["amount_minor"])
        for leg in journal["command"]["legs"]
        if counts(leg)
    )


def selected(query, group):
    return [
        journal
        for journal in group["journals"]
        if journal["command"]["effective_at"] <= query["effective_cutoff"]
        and any(leg["account_id"] == query["account_id"] for leg in journal["command"]["legs"])
    ]


def raw_balance(query, groups):
    return sum(
        moved(journal, lambda leg: leg["account_id"] == query["account_id"])
        for group in groups
        for journal in selected(query, group)
    )


def amounts(account, raw):
    normal = raw if account["normal_side"] == "debit" else -raw
    return {"raw_balance_minor": str(raw), "normal_balance_minor": str(normal)}


def said_of(account, raw):
    names = ("account_id", "currency", "normal_side")
    return {name: account[name] for name in names} | amounts(account, raw)


def answer(query, prefix, groups, accounts, context):
    account = named(query["account_id"], accounts)
    head = context["head"]
    shown = [group for group in groups if group["available_at"] <= query["knowledge_cutoff"]]
    visible = [*prefix, *shown]
    through = str(last_of(visible))

    stands = {
        "schema_version": "d30-balance-checkpoint-v1",
        "checkpoint_id": f"CP-{through}-{re.sub('[-:.]', '', query['effective_cutoff'])}",
        "stream_id": head["stream_id"],
        "ledger_id": query["ledger_id"],
        "entity_id": query["entity_id"],
        "account_id": query["account_id"],
        "currency": query["currency"],
        "normal_side": account["normal_side"],
        "effective_cutoff": query["effective_cutoff"],
        "raw_balance_minor": str(raw_balance(query, visible)),
        "provenance_ref": head["receipt_ref"],
    } | position(visible, through)
    return {
        "status": "ok",
        "code": "BALANCE_FOLDED",
        "balance": said_of(account, raw_balance(query, visible)),
        "coverage": {
            "stream_id": head["stream_id"],
            "receipt_ref": head["receipt_ref"],
            "head_sequence": head["head_sequence"],
            "validated_through_sequence": str(last_of([*prefix, *groups])),
            "visible_through_sequence": through,
            "checkpoint_id": query["checkpoint"] and query["checkpoint"]["checkpoint_id"],
            "observed_at": head["observed_at"],
        },
        "trace": [
            {
                "group_id": group["group_id"],
                "first_sequence": str(first_of(group)),
                "last_sequence": str(last_of([group])),
                "available_at": group["available_at"],
                "selected_journal_ids": [
                    journal["command"]["journal_id"] for journal in selected(query, group)
                ],
                "raw_delta_minor": str(raw_balance(query, [group])),
                **amounts(account, raw_balance(query, [*prefix, *shown[: place + 1]])),
            }
            for place, group in enumerate(shown)
        ],
        "checkpoint": stands,
        "checkpoint_registry_entry": {"checkpoint": stands, "prefix_groups": visible},
    }
