"""What a person can do next, in words: about a verdict, about an outbox, about a failed step."""

from __future__ import annotations

from amends_pipeline.inventory.compare import Kind
from amends_pipeline.inventory.verify import Report, oracle_can_read, stopped_in
from amends_pipeline.kernel.errors import (
    AmendsError,
    CloseOverflow,
    ForeignIncarnation,
    ProtocolStop,
    UnknownNamespace,
)
from amends_pipeline.kernel.verdict import Status
from amends_pipeline.ports import Unit

NEXT_STEP = "next_step"
"""The key under which it stands among metadata."""

NOTHING = "There is nothing to do."
CHOOSE_A_UNIT = (
    "Materialize a unit, or launch the job verify and choose a partition, such as main|p0."
)
MEND_AND_VERIFY = "Mend what the error names, then launch the job verify for the unit."

SHOWN_EXCLUSIONS = 1_000
"""Exclusions that a manifest in metadata holds; a longer one is only told of."""

ANOTHER_HISTORY = (
    "Restore the history and the configuration that the namespace was made from. A log that was"
    " begun anew is another source: it needs a name and a namespace of its own."
)
_OF_READERS = {Kind.ALERT, Kind.BALANCE, Kind.STATUS}


# --- about a verdict


def after_verdict(report: Report, unit: Unit) -> str:
    """Say what turns the verdict on a unit green."""
    match report.status:
        case Status.ERROR:
            stopped = any(each.startswith(stopped_in(unit.partition)) for each in report.errors)
            return _after_stop(unit) if stopped else MEND_AND_VERIFY
        case Status.INCOMPLETE if oracle_can_read(report.distance):
            return (
                f"When the stages that distance names are there, launch the job verify for {unit}."
            )
        case Status.INCOMPLETE:
            return ANOTHER_HISTORY
        case Status.BLOCKED:
            decides = (
                "Append one more revision, with a higher number, of each transaction that blocks a"
                " key: it decides. The table conflicts names them."
            )
            return f"{decides} {_after_drift(report, unit)}" if report.differences else decides
        case Status.DRIFT:
            return _after_drift(report, unit)
        case Status.PASS | Status.PASS_WITH_EXCLUSIONS:
            return _after_agreement(report, unit)


def _after_drift(report: Report, unit: Unit) -> str:
    if {each.kind for each in report.differences} <= _OF_READERS:
        return (
            "Make the rows of readers anew from the output log, then launch the job verify for"
            f" {unit}: amends inventory reproject --namespace {unit.namespace}. If rows still"
            f" differ, {_rebuild(unit)}"
        )
    return f"Stored evidence differs from the records: {_rebuild(unit)}"


def _after_agreement(report: Report, unit: Unit) -> str:
    if report.accepted:
        excluded = report.rejections or report.conflicts
        return "These exclusions are accepted." if excluded else NOTHING
    count = len(report.rejections) + len(report.conflicts)
    if count > SHOWN_EXCLUSIONS:
        return (
            f"{count} exclusions are too many to show. Take rejections and conflicts from the"
            f" output of: amends inventory verify --namespace {unit.namespace} --json"
        )
    return (
        "Save manifest_to_accept as manifest.json, then: amends inventory accept manifest.json"
        f" --namespace {unit.namespace} --partition {unit.partition}"
    )


# --- about an outbox, and a step


def after_gap(unit: Unit) -> str:
    """Say what to do about an outbox that is not whole."""
    return f"Restore the segments of the outbox from a backup. If there is none, {_rebuild(unit)}"


def after_error(error: AmendsError, unit: Unit) -> str | None:
    """Say what to do about the error that ended a step; None where the error says it all."""
    match error:
        case CloseOverflow():
            return (
                f"Declare the record out of the input: amends inventory set-aside --namespace"
                f" {unit.namespace} --partition {error.partition} --offset {error.offset}"
                " --reason TEXT. The next run goes on after it: launch refold, or wait for it."
            )
        case ProtocolStop():
            return _after_stop(unit)
        case ForeignIncarnation():
            return ANOTHER_HISTORY
        case UnknownNamespace():
            return (
                "Provision it: amends inventory provision CONFIG.json. Its partitions are then"
                " added by the sensor new_records, which removes those of other names."
            )
    return None


def _after_stop(unit: Unit) -> str:
    return (
        "Restore the output log from a backup, then: amends inventory reproject --namespace"
        f" {unit.namespace}. If there is none, {_rebuild(unit)}"
    )


def _rebuild(unit: Unit) -> str:
    return (
        f"make another namespace from the source: amends inventory rebuild NEW --from"
        f" {unit.namespace}, then backfill its units."
    )
