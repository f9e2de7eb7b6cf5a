"""What the assets of the bank ledger tell: the same keys on every path."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import dagster as dg

from amends_pipeline.bank.codes import Rejection
from amends_pipeline.bank.coverage import Coverage
from amends_pipeline.bank.movements import Line
from amends_pipeline.bank.values import Group
from amends_pipeline.defs.bank.table import Table
from amends_pipeline.defs.inventory.metadata import ROW_COUNT, Metadata, cell, table
from amends_pipeline.flows.bank_take import Taken
from amends_pipeline.kernel.drawing import counted
from amends_pipeline.ports.bank import CheckpointSet, KeptSet

SHOWN_ROWS = 50
"""Rows of a table in metadata; the total stands beside it."""
PICTURE = "busiest_account_picture"

_FAULT = {
    "code": "The first fault in the order of judgement.",
    "group": "The group at fault, where its identifier could be read.",
    "sequence": "The first sequence of that group, where it could be read.",
    "where": "The place; groups count from 1.",
    "expected": "What would have been right.",
    "found": "What is there.",
}
_CLOCKS = {
    "clock": "Which of a history's clocks.",
    "first": "Its earliest moment.",
    "last": "Its latest moment.",
}
_CLOCK_NAMES = {
    "effective_at": "effective_at: economic time",
    "recorded_at": "recorded_at: when it was recorded",
    "available_at": "available_at: knowledge time",
}
_GROUPS = {
    "group": "Identifier of the group.",
    "kind": "posting or correction.",
    "sequences": "Of its journals.",
    "effective_at": "When its last journal took effect economically.",
    "available_at": "When it was seen to be committed.",
    "moves": "Accounts and amounts of its last journal, debits first.",
}
_BALANCES = {
    "account_id": "The account.",
    "currency": "Of the account.",
    "normal_side": "The side that makes it grow.",
    "normal_balance_minor": "In minor units, as the normal side counts.",
    "raw_balance_minor": "Debits less credits.",
}
_CHANGES = {
    "account_id": "The account.",
    "currency": "Of the account.",
    "was": "Normal balance before, in minor units; empty where there was none.",
    "now": "Normal balance now.",
    "change": "What was added to it.",
}
_STATEMENT = {
    "sequence": "Of the journal.",
    "group": "That made it visible.",
    "journal": "Identifier of the journal.",
    "kind": "posting, reversal or replacement.",
    "effective_at": "When it took effect economically.",
    "available_at": "When it became known.",
    "amount": "What it adds, in minor units, as the normal side counts.",
    "balance": "After it.",
}
_SETS = {
    "through_sequence": "Where the prefix ends that the whole set shares.",
    "effective_cutoff": "Up to which economic moment it counts.",
    "provenance_ref": "Reference of the head under which it was made.",
    "accounts": "Balances in the set.",
}
SHOWN_LEGS = 6
_NAMED_SEQUENCE = re.compile(r"sequence ([0-9]+)$")  # of a head, which is no group


# --- the export


def of_export(taken: Taken, offered: str | None) -> Metadata:
    """Tell of an export, valid or not."""
    head, fault = taken.head, taken.found
    rejected = isinstance(fault, Rejection)
    origin = "Of the live journal" if offered is None else f"Offered in {cell(offered)}"
    where = f"through sequence {head.head_sequence}" if head else "with a context nobody can read"
    return {
        "note": f"{origin}, {where}{': rejected' if rejected else ''}.",
        "head_sequence": head.head_sequence if head else "",
        "observed_at": head.observed_at if head else "",
        "receipt_ref": head.receipt_ref if head else "",
        ROW_COUNT: taken.lines,
        "fault": fault_table(fault if isinstance(fault, Rejection) else None),
        "size_bytes": taken.size_bytes,
        "sha256": taken.origin.digest,
        "folder": dg.MetadataValue.path(str(taken.folder)),
    }


def fault_table(rejection: Rejection | None) -> dg.TableMetadataValue:
    """Write a rejection as a table of one row; of none where there is none."""
    rows = [] if rejection is None else [_fault(rejection)]
    return table(_FAULT, rows)


def _fault(rejection: Rejection) -> Mapping[str, str]:
    named = _NAMED_SEQUENCE.search(rejection.where)
    return {
        "code": str(rejection.code),
        "group": cell(rejection.group_id or ""),
        "sequence": cell(rejection.sequence or (named[1] if named else "")),
        "where": cell(rejection.where),
        "expected": cell(rejection.expected),
        "found": cell(rejection.found),
    }


# --- the history


def of_history(covered: Coverage) -> Metadata:
    """Tell what a valid export covers."""
    through = covered.head.head_sequence
    beyond = covered.beyond_the_reference
    return {
        "note": f"Whole and in balance through sequence {through}, the head's.",
        "validated_through_sequence": through,
        ROW_COUNT: covered.legs,
        "groups": covered.groups,
        "journals": covered.journals,
        "corrections": covered.corrections,
        "accounts": len(covered.in_scope),
        "currencies": ", ".join(covered.currencies),
        "clocks": table(_CLOCKS, list(_clocks(covered))),
        "latest_groups": table(_GROUPS, list(map(_group, covered.latest[:SHOWN_ROWS]))),
        "reference": f"{'beyond' if beyond else 'within'} the reference",
        "receipt_ref": covered.head.receipt_ref,
    }


def _clocks(covered: Coverage) -> Iterator[Mapping[str, str]]:
    for clock, name in _CLOCK_NAMES.items():
        if clock in covered.times:
            first, last = covered.times[clock]
            yield {"clock": name, "first": first, "last": last}


def _group(group: Group) -> Mapping[str, str]:
    first, last = group.journals[0], group.journals[-1]
    legs = sorted(last.command.legs, key=lambda leg: leg.side == "credit")
    moves = [f"{leg.side} {leg.account_id} {leg.amount_minor}" for leg in legs[:SHOWN_LEGS]]
    more = len(legs) - len(moves)
    sequences = [first.sequence, *([last.sequence] if last is not first else [])]
    return {
        "group": group.group_id,
        "kind": group.kind,
        "sequences": " and ".join(sequences),
        "effective_at": last.command.effective_at,
        "available_at": group.available_at,
        "moves": ", ".join([*moves, *([f"{more} more"] if more else [])]),
    }


# --- the balances


class Busiest(NamedTuple):
    """The account with the most legs, and what moved it."""

    account_id: str
    lines: Sequence[Line]
    picture: dg.MarkdownMetadataValue


def of_balances(balances: Table, before: Table | None, busiest: Busiest, path: Path) -> Metadata:
    """Tell of balances, and what changed since the ones before, if there were any."""
    coverage, cutoffs = balances.coverage, balances.cutoffs
    changes = changed(before, balances)
    largest = sorted(
        balances.rows, key=lambda row: (-abs(int(row["raw_balance_minor"])), row["account_id"])
    )
    accounts = len(balances.rows)
    since = "before" if before else "zero, where all of them began"
    return {
        "note": (
            f"{counted(accounts, 'account')}, {len(changes)} of them with another balance than"
            f" {since}."
        ),
        "what_changed": table(_CHANGES, changes[:SHOWN_ROWS]),
        "balances": table(_BALANCES, [{n: row[n] for n in _BALANCES} for row in largest[:50]]),
        PICTURE: busiest.picture,
        "busiest_account": busiest.account_id,
        "statement": table(_STATEMENT, [_line(each) for each in busiest.lines[-SHOWN_ROWS:]]),
        ROW_COUNT: accounts,
        "changed_accounts": len(changes),
        "effective_cutoff": cutoffs.effective,
        "knowledge_cutoff": cutoffs.knowledge,
        "visible_through_sequence": str(coverage["visible_through_sequence"]),
        "validated_through_sequence": str(coverage["validated_through_sequence"]),
        "receipt_ref": str(coverage["receipt_ref"]),
        "file": dg.MetadataValue.path(str(path)),
    }


def changed(before: Table | None, after: Table) -> list[Mapping[str, str]]:
    """Return the balances that differ, the largest change first."""
    was = {row["account_id"]: row["normal_balance_minor"] for row in before.rows} if before else {}
    changes = []
    for row in after.rows:
        account_id, now = row["account_id"], row["normal_balance_minor"]
        earlier = was.get(account_id, "")
        if int(earlier or "0") != int(now):
            change = int(now) - int(earlier or "0")
            changes.append(
                (
                    -abs(change),
                    {
                        "account_id": account_id,
                        "currency": row["currency"],
                        "was": earlier,
                        "now": now,
                        "change": f"{change:+}",
                    },
                )
            )
    return [row for _, row in sorted(changes, key=itemgetter(0))]


def _line(line: Line) -> Mapping[str, str]:
    movement = line.movement
    return {
        "sequence": str(movement.sequence),
        "group": movement.group_id,
        "journal": movement.journal_id,
        "kind": movement.kind,
        "effective_at": movement.effective_at,
        "available_at": movement.available_at,
        "amount": f"{movement.amount:+}",
        "balance": str(line.balance),
    }


# --- the checkpoints


def of_checkpoints(note: str, kept: CheckpointSet | None, sets: Sequence[KeptSet]) -> Metadata:
    """Tell which set was kept, if one was, and which there are, the latest first."""
    return {
        "note": note,
        ROW_COUNT: sum(each.accounts for each in sets),
        "kept_rows": 0 if kept is None else len(kept.raw_balances),
        "through_sequence": "" if kept is None else str(kept.through_sequence),
        "effective_cutoff": "" if kept is None else kept.effective_cutoff,
        "provenance_ref": "" if kept is None else kept.provenance_ref,
        "checkpoint_sets": len(sets),
        "latest_sets": table(_SETS, [_set(each) for each in [*reversed(sets)][:SHOWN_ROWS]]),
    }


def _set(each: KeptSet) -> Mapping[str, str]:
    return {
        "through_sequence": str(each.through_sequence),
        "effective_cutoff": each.effective_cutoff,
        "provenance_ref": each.provenance_ref,
        "accounts": str(each.accounts),
    }
