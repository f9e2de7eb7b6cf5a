"""A verdict as Dagster shows it: a status word, a sentence, counts, and what there is of tables.

A table that would be empty is left out, and so is a column: Dagster shows what a check tells in the
order of the keys, and what differs shall not be looked for among headings.

The run stays green; the check is red or amber. Descriptions are plain text, because one panel of
the UI renders Markdown and another does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import dagster as dg

from amends_pipeline.defs.inventory.metadata import cell, table
from amends_pipeline.flows.next_step import (
    NEXT_STEP,
    NOTHING,
    SHOWN_EXCLUSIONS,
    after_failure,
    after_verdict,
    in_dagster,
)
from amends_pipeline.inventory.compare import Difference, Key
from amends_pipeline.inventory.verify import (
    ConflictingRevision,
    Distance,
    Manifest,
    RejectedRecord,
    Report,
)
from amends_pipeline.kernel.verdict import Status
from amends_pipeline.ports import Unit

SHOWN_ROWS = 200
"""Rows of a table in metadata; the total stands beside it, and `verify --json` has them all."""
NAMED = 3
"""Things that a description names before it counts the others."""

CHOOSE_A_UNIT = (
    "Materialize a unit, or launch the job verify and choose a partition, such as main|p0."
)
MEND_AND_VERIFY = after_failure("launch the job verify for the unit")

Tables = Mapping[str, dg.TableMetadataValue | dg.JsonMetadataValue | int | str]

_RED = {Status.DRIFT, Status.ERROR}

_BOUNDARY = {
    "what": "Where the unit and the logs around it stood.",
    "at": "An offset, or a number of rows.",
}
_PLACES = {
    "source_end": "H, source end: the records before it are judged",
    "worker_next": "first source offset that is not decided",
    "pending": "outbox rows that are not acknowledged",
    "output_end": "O, end of the output log",
    "view_next": "first output offset that is not applied",
}
_DISTANCES = {
    "stage": "Who is not there yet.",
    "by": "Offsets or rows; negative when it went past.",
    "says": "The same in words.",
}
_DIFFERENCES = {
    "kind": "balance, alert, status, conflict or rejection.",
    "item": "Of the stock key.",
    "location": "Of the stock key.",
    "day": "UTC day of a balance or an alert.",
    "offset": "Source offset of a rejection.",
    "expected": "What the oracle says.",
    "found": "What readers see, or what is stored.",
}
_REJECTIONS = {
    "offset": "Where the record lies in the partition of the source.",
    "code": "The first rule that it breaks.",
}
_CONFLICTS = {
    "item": "Of the stock key.",
    "location": "Of the stock key.",
    "txn_id": "The transaction.",
    "revision": "The number under which it says two things.",
}
_NOT_COMPARED = {
    "what": "What the verdict says nothing about.",
    "item": "Of the stock key, where it is about one.",
    "location": "Of the stock key, where it is about one.",
}


def reported(report: Report, unit: Unit) -> dg.AssetCheckResult:
    """Show the report of a unit."""
    tables = {
        **_tables(report),
        **_manifest(report),
        NEXT_STEP: after_verdict(report, in_dagster(unit)),
    }
    sentence = f"{_sentence(report)}{_beyond(report, unit)}"
    return _result(report.status, sentence, tables, passed=report.accepted)


def failed(error: str) -> dg.AssetCheckResult:
    """Show why there is no report."""
    sentence = f"There is no verdict. {cell(error)}"
    return _result(Status.ERROR, sentence, _nothing_compared(MEND_AND_VERIFY), passed=False)


def not_of_this_namespace(missing: str) -> dg.AssetCheckResult:
    """Pass a unit that its namespace does not have."""
    sentence = f"{missing} Nothing was compared."
    return _result(Status.PASS, sentence, _nothing_compared(NOTHING), passed=True)


def without_unit() -> dg.AssetCheckResult:
    """Say that a run named no unit, which "Execute all" in the UI does."""
    sentence = f"This run names no unit, so nothing was compared. {CHOOSE_A_UNIT}"
    tables = _nothing_compared(CHOOSE_A_UNIT)
    return _result(Status.INCOMPLETE, sentence, tables, passed=False)


def _result(status: Status, sentence: str, tables: Tables, *, passed: bool) -> dg.AssetCheckResult:
    severity = dg.AssetCheckSeverity.ERROR if status in _RED else dg.AssetCheckSeverity.WARN
    return dg.AssetCheckResult(
        passed=passed,
        severity=severity,
        description=f"{status}: {sentence}",
        metadata={"status": str(status), "accepted": passed, **tables},
    )


def _manifest(report: Report) -> Tables:
    """What a person would accept by storing it, if there is something and it can be shown."""
    manifest = Manifest(rejections=report.rejections, conflicts=report.conflicts)
    count = len(report.rejections) + len(report.conflicts)
    less_than_accepted = report.agrees and not report.accepted
    if count > SHOWN_EXCLUSIONS or not (count or less_than_accepted):
        return {}
    return {"manifest_to_accept": dg.MetadataValue.json(manifest.model_dump(mode="json"))}


def _beyond(report: Report, unit: Unit) -> str:
    """Say where the rows are that a table has no room for."""
    longest = max(len(report.differences), len(report.rejections), len(report.conflicts))
    if longest <= SHOWN_ROWS:
        return ""
    command = f"amends inventory verify --namespace {unit.namespace} --json"
    return f" A table shows {SHOWN_ROWS} rows; all of them: {command}"


def _nothing_compared(next_step: str) -> Tables:
    return {
        "differing_rows": 0,
        "rejected_records": 0,
        "conflicting_revisions": 0,
        **_table("not_compared", _NOT_COMPARED, [{"what": "anything"}]),
        NEXT_STEP: next_step,
    }


def _tables(report: Report) -> Tables:
    return {
        "differing_rows": len(report.differences),
        "rejected_records": len(report.rejections),
        "conflicting_revisions": len(report.conflicts),
        **_table("differences", _DIFFERENCES, map(_difference, report.differences[:SHOWN_ROWS])),
        **_table("rejections", _REJECTIONS, map(_rejection, report.rejections[:SHOWN_ROWS])),
        **_table("conflicts", _CONFLICTS, map(_conflict, report.conflicts[:SHOWN_ROWS])),
        **_table("distance", _DISTANCES, map(_distance, report.distance[:SHOWN_ROWS])),
        **_table("judged_at", _BOUNDARY, _boundary(report)),
        **_table(
            "not_compared",
            _NOT_COMPARED,
            [
                {"what": each.what, **_stock_key(each.stock_key)}
                for each in report.not_compared[:SHOWN_ROWS]
            ],
        ),
    }


def _table(key: str, columns: Mapping[str, str], rows: Iterable[Mapping[str, str]]) -> Tables:
    """Write rows as a table without empty columns; nothing where there are no rows."""
    kept = list(rows)
    if not kept:
        return {}
    used = {name: told for name, told in columns.items() if any(row.get(name, "") for row in kept)}
    return {key: table(used, [{name: row.get(name, "") for name in used} for row in kept])}


def _boundary(report: Report) -> Iterator[Mapping[str, str]]:
    for boundary in report.boundary:
        for name, what in _PLACES.items():
            yield {"what": what, "at": str(getattr(boundary, name))}


def _distance(distance: Distance) -> Mapping[str, str]:
    by = "" if distance.by is None else str(distance.by)
    return {"stage": distance.stage, "by": by, "says": cell(distance.says)}


def _rejection(rejection: RejectedRecord) -> Mapping[str, str]:
    return {"offset": str(rejection.offset), "code": str(rejection.code)}


def _conflict(conflict: ConflictingRevision) -> Mapping[str, str]:
    return {
        **_stock_key(conflict.stock_key),
        "txn_id": cell(conflict.txn_id),
        "revision": str(conflict.revision),
    }


def _stock_key(key: Key | None) -> dict[str, str]:
    if key is None:
        return {"item": "", "location": ""}
    return {"item": cell(key.item), "location": cell(key.location)}


def _difference(difference: Difference) -> dict[str, str]:
    def told(value: object) -> str:
        return "nothing" if value is None else cell(str(value))

    return {
        "kind": str(difference.kind),
        "item": cell(difference.item or ""),
        "location": cell(difference.location or ""),
        "day": difference.day or "",
        "expected": told(difference.expected),
        "found": told(difference.found),
        "partition": str(difference.partition),
        "offset": "" if difference.offset is None else str(difference.offset),
    }


def _sentence(report: Report) -> str:
    match report.status:
        case Status.ERROR:
            return f"There is no verdict. {_named([cell(each) for each in report.errors])}."
        case Status.INCOMPLETE:
            return f"{_named([cell(each.says) for each in report.distance])}."
        case Status.BLOCKED:
            blocked = [
                f"{cell(each.stock_key.item)} at {cell(each.stock_key.location)}"
                for each in report.not_compared
                if each.stock_key is not None
            ]
            elsewhere = _differing(report) if report.differences else "All other rows agree"
            return f"Authority is in conflict for {_named(blocked)}. {elsewhere}. {_at(report)}"
        case Status.DRIFT:
            return f"{_differing(report)}. {_at(report)}"
        case Status.PASS_WITH_EXCLUSIONS:
            consent = "as accepted" if report.accepted else "which nobody has accepted"
            return f"All rows agree, beside {_excluded(report)}, {consent}. {_at(report)}"
        case Status.PASS:
            more = "" if report.accepted else ", and less is excluded than what is accepted"
            return f"All rows agree{more}. {_at(report)}"


def _differing(report: Report) -> str:
    rows = [_row_text(each) for each in report.differences[:NAMED]]
    count = len(report.differences)
    return f"{count} {'row differs' if count == 1 else 'rows differ'}: {_named(rows, count)}"


def _row_text(difference: Difference) -> str:
    row = _difference(difference)
    place = (
        f"{row['item']} at {row['location']}"
        if difference.item is not None
        else f"partition {row['partition']}, offset {row['offset']}"
    )
    on = f" on {row['day']}" if row["day"] else ""
    return f"{row['kind']} of {place}{on}, expected {row['expected']}, found {row['found']}"


def _excluded(report: Report) -> str:
    parts = []
    if report.rejections:
        parts.append(_count(len(report.rejections), "rejected record"))
    if report.conflicts:
        parts.append(_count(len(report.conflicts), "conflicting revision"))
    return " and ".join(parts)


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _at(report: Report) -> str:
    places = [
        f"source offset {each.source_end} and output offset {each.output_end}"
        for each in report.boundary
    ]
    never = "; ".join(each.what for each in report.not_compared if each.stock_key is None)
    return f"Judged at {_named(places)}. Not compared: {never}."


def _named(texts: Sequence[str], count: int | None = None) -> str:
    """Name the first few and count the rest."""
    kept = texts[:NAMED]
    more = (len(texts) if count is None else count) - len(kept)
    return "; ".join([*kept, *([f"and {more} more"] if more > 0 else [])])
