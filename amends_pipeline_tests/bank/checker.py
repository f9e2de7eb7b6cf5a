"""A second opinion on an export, written from the contract for reading, not for speed.

It keeps no index and carries no state from group to group: every rule looks at the group in hand
and at the plain list of all groups before it, again and again. Each stage of the contract's order
of judgement is a function; the first fault met is the code. Nothing of the package is imported.
"""

from __future__ import annotations

import re

from amends_pipeline_tests.bank.shapes import (
    CURRENCIES,
    QUESTION,
    TURNED,
    Refused,
    judge_account,
    judge_accounts,
    judge_context,
    judge_group,
    judge_query,
    judge_question,
    judge_scope_of_question,
    judge_structures,
    members,
    named,
    prefix_of,
    refuse_unless,
    scope_of,
)


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
