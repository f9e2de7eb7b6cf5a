"""The roll-up of all verdicts as Dagster shows it: one badge that is as bad as the worst unit.

The badge of a check with partitions shows whatever unit was judged last. This one reads the
verdicts that are kept in the ledger, and its units are the ledger's too, so that a unit that nobody
ever judged is named, and a verdict on one unit does not hide the one on another.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import dagster as dg

from amends_pipeline.defs.inventory.metadata import cell, table
from amends_pipeline.flows.review import Concern, Reviewed
from amends_pipeline.kernel.verdict import Status

SHOWN_UNITS = 200
NAMED = 3
"""Units that a sentence names before it counts the others."""

UNITS = "all_units"
"""The key of the table. Dagster shows what a check tells in the order of the keys."""

_UNITS = {
    "status": "Of the verdict that stands.",
    "unit": "Namespace and source partition.",
    "says": "What it comes to, and at which source offset: the verdict is about those before it.",
    "behind": "Source offsets since then.",
    "judged_at": "UTC.",
    "judged_by": "The run, by the first digits of its id, or the command that judged.",
    "counts": "Whether its namespace follows its source; others do not turn the badge.",
}
_NUMBERS = ("behind",)
_RUN = re.compile(r"Dagster (run [0-9a-f]{8})-[0-9a-f-]{27}")
_INSTANT = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?Z")
NEVER_JUDGED = "NOT JUDGED"


def rolled_up(units: Sequence[Reviewed]) -> dg.AssetCheckResult:
    """Show all units, which come the worst first. Passes if each that counts is accepted."""
    counted = [each for each in units if each.follows]
    asking = [each for each in counted if each.concern is not Concern.NONE]
    passed = bool(counted) and not asking
    status = _status(counted[0]) if counted else Status.INCOMPLETE
    wrong = [each for each in asking if each.concern is Concern.WRONG]
    return _result(
        status,
        " ".join(_sentences(units, counted, asking)),
        passed=passed,
        red=bool(wrong),
        units=units,
    )


def not_rolled_up(error: str) -> dg.AssetCheckResult:
    """Show why nothing is known of any unit."""
    return _result(Status.ERROR, f"There is no roll-up. {cell(error)}", passed=False, red=True)


def _result(
    status: Status, sentence: str, *, passed: bool, red: bool, units: Sequence[Reviewed] = ()
) -> dg.AssetCheckResult:
    counted = [each for each in units if each.follows]
    concerns = [each.concern for each in counted]
    return dg.AssetCheckResult(
        passed=passed,
        severity=dg.AssetCheckSeverity.ERROR if red else dg.AssetCheckSeverity.WARN,
        description=f"{status}: {sentence}",
        metadata={
            "status": str(status),
            UNITS: table(_UNITS, [_row(each) for each in units[:SHOWN_UNITS]], _NUMBERS),
            "counted_units": len(counted),
            "accepted_units": concerns.count(Concern.NONE),
            "wrong_units": concerns.count(Concern.WRONG),
            "doubtful_units": concerns.count(Concern.DOUBTFUL),
            "never_judged_units": sum(each.verdict is None for each in counted),
            "uncounted_units": len(units) - len(counted),
            "records_behind": sum(each.behind for each in counted),
        },
    )


def _status(worst: Reviewed) -> Status:
    """The status of a roll-up is that of its worst unit; without a verdict nothing is complete."""
    verdict = worst.verdict
    if verdict is None:
        return Status.INCOMPLETE
    agrees = verdict.status in {Status.PASS, Status.PASS_WITH_EXCLUSIONS}
    if agrees and worst.failing is not None:
        return Status.INCOMPLETE
    unsaid = worst.concern is Concern.DOUBTFUL and verdict.status == Status.PASS
    if unsaid or (agrees and not worst.standing.bound):
        return Status.INCOMPLETE
    return Status(verdict.status) if verdict.status in set(Status) else Status.ERROR


def _sentences(
    units: Sequence[Reviewed], counted: Sequence[Reviewed], asking: Sequence[Reviewed]
) -> list[str]:
    told = []
    if not counted:
        told.append("There is no namespace that follows its source, so no unit is judged.")
    elif asking:
        named = _named([f"{each.unit} {_says(each)}" for each in asking])
        told.append(f"{len(asking)} of {_units(len(counted))} not verified and accepted: {named}.")
    else:
        are = "is" if len(counted) == 1 else "are"
        told.append(f"{_units(len(counted))} {are} verified and accepted.")
    late = [
        f"{each.unit} stands at {each.verdict.source_end}, {_records(each.behind)} behind"
        for each in counted
        if each.verdict is not None and each.concern is Concern.NONE and each.behind
    ]
    if late:
        told.append(f"Judged at an earlier boundary: {_named(late)}.")
    others = sorted({each.unit.namespace for each in units if not each.follows})
    if others:
        told.append(f"Not counted, as they do not follow their source: {_named(others)}.")
    return told


def _says(each: Reviewed) -> str:
    if each.failing is None:
        return _says_verdict(each)
    stuck = f"is stuck at source offset {each.standing.progress.next_offset}"
    return f"{_says_verdict(each)}; {stuck}: {cell(each.failing)}"


def _says_verdict(each: Reviewed) -> str:
    verdict = each.verdict
    if verdict is None:
        return "was never judged"
    if not each.standing.bound:
        return "was bound to another log of its source than the one that is there now"
    if verdict.status == Status.PASS_WITH_EXCLUSIONS:
        consent = "accepted" if verdict.accepted else "that nobody has accepted"
        says = f"has exclusions {consent}"
    elif verdict.status == Status.PASS:
        says = "agrees" if verdict.accepted else "excludes less than what is accepted"
    else:
        says = f"is {cell(verdict.status)}"
        if verdict.differences:
            rows = "row differs" if verdict.differences == 1 else "rows differ"
            says = f"{says}, {verdict.differences} {rows}"
    behind = f", {_records(each.behind)} behind" if each.behind else ""
    return f"{says} at source offset {verdict.source_end}{behind}"


def _row(each: Reviewed) -> dict[str, str | int]:
    verdict = each.verdict
    return {
        "status": NEVER_JUDGED if verdict is None else cell(verdict.status),
        "unit": str(each.unit),
        "says": _says(each),
        "behind": each.behind,
        "judged_at": "" if verdict is None else _short(_INSTANT, verdict.judged_at),
        "judged_by": "" if verdict is None else _short(_RUN, verdict.judged_by),
        "counts": "yes" if each.follows else "no",
    }


def _short(known: re.Pattern[str], text: str) -> str:
    """Write the parts of a text that matter, if it is one of ours."""
    found = known.fullmatch(text)
    return cell(text) if found is None else " ".join(found.groups())


def _units(count: int) -> str:
    return f"{count} unit{'' if count == 1 else 's'}"


def _records(count: int) -> str:
    return f"{count} record{'' if count == 1 else 's'}"


def _named(texts: Sequence[str]) -> str:
    """Name the first few and count the rest."""
    more = len(texts) - NAMED
    return "; ".join([*texts[:NAMED], *([f"and {more} more"] if more > 0 else [])])
