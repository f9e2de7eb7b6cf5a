"""Exports of a bank written in few words: what is left out is right and says nothing new."""

from __future__ import annotations

from datetime import datetime, timedelta

LEDGER, ENTITY, STREAM = "CB-GENERAL", "CB-A", "CB-GENERAL.CB-A"
SIDES = {
    "asset": "debit",
    "expense": "debit",
    "liability": "credit",
    "equity": "credit",
    "revenue": "credit",
}
_START = datetime(2025, 10, 1)  # noqa: DTZ001 - written with a Z below


def at(milliseconds):
    """A timestamp so many milliseconds after 1 October 2025."""
    moment = _START + timedelta(milliseconds=milliseconds)
    return moment.isoformat(timespec="milliseconds") + "Z"


def account(account_id, account_type="liability", currency="USD", **others):
    return {
        "account_id": account_id,
        "ledger_id": LEDGER,
        "entity_id": ENTITY,
        "currency": currency,
        "account_type": account_type,
        "normal_side": SIDES[account_type],
    } | others


def legs(text):
    """Legs as in `Cash +5, Ada -5`: plus is a debit, minus a credit."""
    written = []
    for part in text.split(","):
        account_id, amount = part.split()
        side = {"+": "debit", "-": "credit"}[amount[0]]
        written.append({"account_id": account_id, "side": side, "amount_minor": amount[1:]})
    return written


def reversed_legs(of):
    turned = {"debit": "credit", "credit": "debit"}
    return [leg | {"side": turned[leg["side"]]} for leg in of]


def journal(sequence, written, *, effective, recorded, currency="USD", source=None, journal_id=""):
    """A journal. Times are timestamps; `source` is when it could be known, by default at once."""
    return {
        "command": {
            "schema_version": "d30-journal-v1",
            "ledger_id": LEDGER,
            "entity_id": ENTITY,
            "journal_id": journal_id or f"J-{sequence}",
            "business_operation_id": f"B-{sequence}",
            "currency": currency,
            "effective_at": effective,
            "source_available_at": source or effective,
            "booking_period": effective[:7],
            "legs": legs(written) if isinstance(written, str) else written,
        },
        "sequence": str(sequence),
        "recorded_at": recorded,
        "adjustment_reason": "",
    }


def posting(sequence, written, *, effective, recorded=None, available=None, **others):
    """A group of one journal, by default recorded when effective and available when recorded."""
    recorded = recorded or effective
    return {
        "schema_version": "d30-committed-group-v1",
        "group_id": f"G-{sequence}",
        "kind": "posting",
        "ledger_id": LEDGER,
        "entity_id": ENTITY,
        "available_at": available or recorded,
        "journals": [journal(sequence, written, effective=effective, recorded=recorded, **others)],
        "correction": None,
    }


def correction(sequence, original, written, *, effective, recorded=None, available=None, **others):
    """A group that turns `original`, an exported journal, around and says it again."""
    recorded = recorded or effective
    turned = reversed_legs(original["command"]["legs"])
    members = [
        journal(sequence, turned, effective=effective, recorded=recorded, **others),
        journal(sequence + 1, written, effective=effective, recorded=recorded, **others),
    ]
    return posting(sequence, turned, effective=effective) | {
        "kind": "correction",
        "available_at": available or recorded,
        "journals": members,
        "correction": {
            "correction_id": f"C-{sequence}",
            "original_journal_id": original["command"]["journal_id"],
            "reversal_journal_id": members[0]["command"]["journal_id"],
            "replacement_journal_id": members[1]["command"]["journal_id"],
            "reason": "Wrong account",
        },
    }


def context(groups, *registry, observed="9999-12-31T23:59:59.999Z", head_sequence=None):
    """What is trusted about `groups`, which are the whole stream."""
    last = groups[-1]["journals"][-1]["sequence"] if groups else "0"
    return {
        "head": {
            "stream_id": STREAM,
            "ledger_id": LEDGER,
            "entity_id": ENTITY,
            "observed_at": observed,
            "head_sequence": head_sequence or last,
            "receipt_ref": "R-1",
        },
        "checkpoint_registry": list(registry),
    }


def query(account_id, effective, known, *, currency="USD", checkpoint=None):
    return {
        "schema_version": "d30-balance-fold-v1",
        "ledger_id": LEDGER,
        "entity_id": ENTITY,
        "account_id": account_id,
        "currency": currency,
        "effective_cutoff": effective,
        "knowledge_cutoff": known,
        "checkpoint": checkpoint,
    }


def checkpoint(account_, prefix, raw, effective, **others):
    """A checkpoint after `prefix`, whose groups are the stream so far."""
    last = prefix[-1]["journals"][-1] if prefix else None
    through = last["sequence"] if last else "0"
    return {
        "schema_version": "d30-balance-checkpoint-v1",
        "checkpoint_id": f"CP-{through}-{''.join(filter(str.isalnum, effective))}",
        "stream_id": STREAM,
        "ledger_id": LEDGER,
        "entity_id": ENTITY,
        "account_id": account_["account_id"],
        "currency": account_["currency"],
        "normal_side": account_["normal_side"],
        "through_sequence": through,
        "effective_cutoff": effective,
        "raw_balance_minor": str(raw),
        "last_group_id": prefix[-1]["group_id"] if prefix else None,
        "last_recorded_at": last["recorded_at"] if last else None,
        "last_available_at": prefix[-1]["available_at"] if prefix else None,
        "provenance_ref": "R-0",
    } | others


# The story of Ada, Ben and Cora, in minor units

CEDAR = [
    account("Cash", "asset"),
    account("Fees", "revenue"),
    *(account(name) for name in ("Ada", "Ben", "Cora")),
]


def cedar():
    """Funding, a payment to the wrong person, its correction, a fee: sequences 1, 2, 3 to 4, 5."""
    funding = posting(1, "Cash +100000, Ada -100000", effective="2025-10-10T09:00:00.000Z")
    wrong = posting(2, "Ada +2500, Ben -2500", effective="2025-10-15T09:00:00.000Z")
    corrected = correction(
        3,
        wrong["journals"][0],
        "Ada +2400, Cora -2400",
        effective="2025-10-15T09:00:00.000Z",
        recorded="2025-10-21T09:00:00.000Z",
        available="2025-10-21T09:00:02.000Z",
    )
    corrected["journals"][1]["recorded_at"] = "2025-10-21T09:00:00.500Z"
    fee = posting(5, "Ada +250, Fees -250", effective="2025-10-23T09:00:00.000Z")
    return [funding, wrong, corrected, fee]
