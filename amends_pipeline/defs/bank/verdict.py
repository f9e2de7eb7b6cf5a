"""Verdicts of the bank ledger as Dagster shows them: a status word, a sentence, tables.

What a check tells has the same keys whatever it found, except that a table without rows is left
out: in its place the sentence says that there is nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import dagster as dg

from amends_pipeline.bank.codes import Code, Rejection
from amends_pipeline.bank.coverage import Coverage
from amends_pipeline.bank.verify import BalanceFact, CoverageFact, Difference, Distance, Report
from amends_pipeline.defs.bank.metadata import SHOWN_ROWS, fault_table
from amends_pipeline.defs.bank.table import Table
from amends_pipeline.defs.inventory.metadata import cell, table
from amends_pipeline.flows.bank_take import Taken
from amends_pipeline.kernel.drawing import counted
from amends_pipeline.kernel.verdict import Status

_RED = {Status.DRIFT, Status.ERROR}

_DIFFERENCES = {
    "account_id": "The account; empty where the reach of the cutoff differs.",
    "currency": "Of the answer that differs.",
    "expected": "Raw balance that the oracle finds, in minor units.",
    "found": "Raw balance in the file.",
    "off_by": "Found less expected.",
}
_TRIAL = {
    "currency": "As ISO 4217 has it.",
    "balances": "Sum of the raw balances in the file, in minor units.",
    "debits": "Of all legs that the oracle selects, in minor units.",
    "credits": "Likewise.",
    "difference": "Debits less credits.",
}
_DISTANCE = {
    "currency": "Of the answer that cannot be compared.",
    "says": "What keeps it from that.",
}


class Judged(NamedTuple):
    """Balances with what the oracle says of them."""

    made: Table
    report: Report


class Unjudged(NamedTuple):
    """Why there is nothing to compare."""

    status: Status
    sentence: str


# --- the export


def complete(covered: Coverage, taken: Taken) -> dg.AssetCheckResult:
    """Show that an export is complete."""
    sentence = (
        f"{Code.BALANCE_FOLDED}: {counted(covered.groups, 'group')} are whole and in balance"
        f" through sequence {covered.head.head_sequence}, the head's."
        if covered.groups
        else f"{Code.BALANCE_FOLDED}: the history is empty, and so says the head."
    )
    return _export(Status.PASS, sentence, str(Code.BALANCE_FOLDED), None, taken)


def rejected(rejection: Rejection, taken: Taken) -> dg.AssetCheckResult:
    """Show the first fault of an export."""
    return _export(Status.ERROR, f"{cell(str(rejection))}.", str(rejection.code), rejection, taken)


def no_export(error: str) -> dg.AssetCheckResult:
    """Show why there is no export to examine."""
    sentence = f"{Status.ERROR}: There is no export. {cell(error)}"
    return _export(Status.ERROR, sentence, str(Status.ERROR), None, None)


def _export(
    status: Status, sentence: str, code: str, rejection: Rejection | None, taken: Taken | None
) -> dg.AssetCheckResult:
    head = taken.head if taken else None
    return dg.AssetCheckResult(
        passed=status is Status.PASS,
        severity=dg.AssetCheckSeverity.ERROR,
        description=sentence,
        metadata={
            "code": code,
            "fault": fault_table(rejection),
            "groups_in_file": taken.lines if taken else 0,
            "head_sequence": head.head_sequence if head else "",
            "receipt_ref": head.receipt_ref if head else "",
            "folder": dg.MetadataValue.path(str(taken.folder)) if taken else "",
            "not_compared": "whether the head is authentic: it comes from the journal or its owner",
        },
    )


# --- the balances


def agreement(judged: Judged | Unjudged) -> dg.AssetCheckResult:
    """Show how the balances compare with the oracle's."""
    if isinstance(judged, Unjudged):
        return _balances(*judged, None, accepted=False)
    report = judged.report
    return _balances(report.status, _agreement(report), report, accepted=report.accepted)


def _agreement(report: Report) -> str:
    if report.errors:
        return f"There is no verdict. {cell(report.errors[0])}"
    if report.distance:
        first = report.distance[0]
        return f"The balances cannot be compared: {cell(first.says)}."
    boundary = report.boundary
    if boundary is None:
        return "There is no verdict."
    reach = (
        f" Effective by {boundary.effective_cutoff}, known by {boundary.knowledge_cutoff},"
        f" through sequence {boundary.visible_through_sequence} of {boundary.through_sequence}."
    )
    accounts = counted(boundary.account_count, "account")
    legs = counted(boundary.contribution_count, "leg")
    if report.difference_count:
        rows = counted(report.difference_count, "row")
        return f"{rows} of {accounts} differ from what DuckDB adds up from {legs}.{reach}"
    if report.status is Status.DRIFT:
        return f"All {accounts} agree, but a currency does not add up to zero.{reach}"
    return f"The balances of {accounts} agree with {legs} that DuckDB adds up.{reach}"


def trial_balance(judged: Judged | Unjudged) -> dg.AssetCheckResult:
    """Show the sums of every currency."""
    if isinstance(judged, Unjudged):
        return _trial(*judged, (), "anything")
    report = judged.report
    sums = _sums(judged.made)
    oracle = {each.currency: each for each in report.trial_balance}
    rows = []
    unbalanced = []
    for currency in sorted({*sums, *oracle}):
        total, there = sums.get(currency), oracle.get(currency)
        rows.append(
            {
                "currency": currency,
                "balances": "none" if total is None else str(total),
                "debits": there.debits_minor if there else "none",
                "credits": there.credits_minor if there else "none",
                "difference": there.difference_minor if there else "none",
            }
        )
        if total or (there is not None and there.difference_minor != "0"):
            unbalanced.append(currency)
    status = Status.DRIFT if unbalanced else Status.ERROR if report.errors else Status.PASS
    if unbalanced:
        sentence = f"{', '.join(unbalanced)} does not add up to zero."
    elif report.errors:
        sentence = f"The balances add up to zero, but DuckDB has no sums. {cell(report.errors[0])}"
    else:
        sentence = f"Every currency adds up to zero: {', '.join(sums) or 'there is none'}."
    return _trial(status, sentence, rows, "single accounts: see bank_balances_agree")


def _trial(
    status: Status, sentence: str, rows: Sequence[Mapping[str, str]], not_compared: str
) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        passed=status is Status.PASS,
        severity=_severity(status),
        description=f"{status}: {sentence}",
        metadata={
            "status": str(status),
            "trial_balance": table(_TRIAL, rows[:SHOWN_ROWS]),
            "currencies": len(rows),
            "not_compared": not_compared,
        },
    )


def _sums(made: Table) -> Mapping[str, int]:
    sums = dict.fromkeys(made.currencies, 0)
    for row in made.rows:
        sums[row["currency"]] += int(row["raw_balance_minor"])
    return sums


# --- where there is nothing to judge


def without_stream() -> Unjudged:
    """Say that a run named no ledger stream, which "Execute all" in the UI does."""
    return Unjudged(
        Status.INCOMPLETE,
        "This run names no ledger stream, so nothing was compared. Launch the job fold_bank and"
        " choose a partition.",
    )


def nothing_there(stream_id: str) -> Unjudged:
    """Say that there are no balances to judge."""
    sentence = f"Stream {cell(stream_id)} has no export or no balances: materialize both."
    return Unjudged(Status.INCOMPLETE, sentence)


def of_another_export(made: str, there: str) -> Unjudged:
    """Say that balances and export are not of one moment."""
    sentence = f"The balances are of {cell(made)}, the export is {cell(there)}"
    return Unjudged(Status.INCOMPLETE, f"{sentence}: materialize bank_balances.")


def failed(error: str) -> Unjudged:
    """Say why there is no verdict."""
    return Unjudged(Status.ERROR, f"There is no verdict. {cell(error)}")


# --- what all of them tell


def _balances(
    status: Status, sentence: str, report: Report | None, *, accepted: bool
) -> dg.AssetCheckResult:
    boundary = report.boundary if report else None
    differences = report.differences if report else ()
    return dg.AssetCheckResult(
        passed=accepted,
        severity=_severity(status),
        description=f"{status}: {sentence}",
        metadata={
            "status": str(status),
            "differing_rows": report.difference_count if report else 0,
            **_table("differences", _DIFFERENCES, map(_difference, differences)),
            **_table("distance", _DISTANCE, map(_distance, report.distance if report else ())),
            "effective_cutoff": boundary.effective_cutoff if boundary else "",
            "knowledge_cutoff": boundary.knowledge_cutoff if boundary else "",
            "accounts": boundary.account_count if boundary else 0,
            "legs": boundary.contribution_count if boundary else 0,
            "not_compared": (
                "; ".join(each.what for each in report.not_compared) if report else "anything"
            ),
        },
    )


def _table(
    key: str, columns: Mapping[str, str], rows: Iterable[Mapping[str, str]]
) -> Mapping[str, dg.TableMetadataValue]:
    """Write rows as a table; nothing where there are none."""
    kept = list(rows)[:SHOWN_ROWS]
    return {key: table(columns, kept)} if kept else {}


def _distance(distance: Distance) -> Mapping[str, str]:
    return {"currency": cell(distance.currency), "says": cell(distance.says)}


def _severity(status: Status) -> dg.AssetCheckSeverity:
    return dg.AssetCheckSeverity.ERROR if status in _RED else dg.AssetCheckSeverity.WARN


def _difference(difference: Difference) -> Mapping[str, str]:
    return {
        "account_id": cell(difference.account_id or ""),
        "currency": cell(difference.currency),
        "expected": _fact(difference.expected),
        "found": _fact(difference.found),
        "off_by": difference.off_by_minor or "",
    }


def _fact(fact: BalanceFact | CoverageFact | None) -> str:
    if fact is None:
        return "nothing"
    if isinstance(fact, CoverageFact):
        return f"visible through sequence {cell(fact.visible_through_sequence)}"
    return cell(fact.raw_balance_minor)
