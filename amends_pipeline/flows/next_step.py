"""What a person can do next, in words: about a verdict, about an outbox, about an error.

The sentences are the same in Dagster and on the command line; only what is to be started is named
as each of the two has it.
"""

from __future__ import annotations

from typing import NamedTuple

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
"""The key under which it stands among metadata and in JSON."""

NOTHING = "There is nothing to do."

SHOWN_EXCLUSIONS = 1_000
"""Exclusions that a manifest in metadata holds; a longer one is only told of."""

ANOTHER_HISTORY = (
    "Restore the history and the configuration that the namespace was made from. A log that was"
    " begun anew is another source: it needs a name and a namespace of its own."
)
_OF_READERS = {Kind.ALERT, Kind.BALANCE, Kind.STATUS}


class Ways(NamedTuple):
    """What the sentences end in, as it is done where they are read."""

    namespace: str
    verify: str
    when_behind: str
    """What makes an incomplete verdict complete."""
    go_on: str
    fill: str
    """What a namespace that was made anew needs."""
    provisioned: str
    """What stands behind the advice to provision a namespace."""
    manifest: str
    """Where the manifest comes from that accepts what was found."""
    partition: str = ""
    """Option for the partition that the verdict is about, if it is about one."""


def in_dagster(unit: Unit) -> Ways:
    """How a unit is worked on in Dagster."""
    verify = f"launch the job verify for {unit}"
    return Ways(
        namespace=unit.namespace,
        verify=verify,
        when_behind=f"When the stages that distance names are there, {verify}.",
        go_on="launch refold, or wait for it",
        fill="backfill its units",
        provisioned="Its partitions are then added by the sensor new_records, which removes those"
        " of other names.",
        manifest="Save manifest_to_accept as manifest.json",
        partition=f" --partition {unit.partition}",
    )


def on_command_line(namespace: str) -> Ways:
    """How a namespace is worked on with `amends`."""
    drain = f"amends inventory drain --namespace {namespace}"
    verify = f"amends inventory verify --namespace {namespace}"
    return Ways(
        namespace=namespace,
        verify=f"run {verify}",
        when_behind=f"Bring the stages there: {drain}, then: {verify}.",
        go_on=drain,
        fill="drain and verify it",
        provisioned="Those that are there: amends inventory namespaces.",
        manifest=f"Save rejections and conflicts of {verify} --json as manifest.json",
    )


# --- about a verdict


def after_verdict(report: Report, ways: Ways) -> str:
    """Say what turns a verdict green."""
    match report.status:
        case Status.ERROR:
            begins = tuple(stopped_in(each.partition) for each in report.boundary)
            stopped = any(each.startswith(begins) for each in report.errors)
            return _after_stop(ways) if stopped else after_failure(ways.verify)
        case Status.INCOMPLETE if oracle_can_read(report.distance):
            return ways.when_behind
        case Status.INCOMPLETE:
            return ANOTHER_HISTORY
        case Status.BLOCKED:
            decides = (
                "Append one more revision, with a higher number, of each transaction that blocks a"
                " key: it decides. The table conflicts names them."
            )
            return f"{decides} {_after_drift(report, ways)}" if report.differences else decides
        case Status.DRIFT:
            return _after_drift(report, ways)
        case Status.PASS | Status.PASS_WITH_EXCLUSIONS:
            return _after_agreement(report, ways)


def after_failure(verify: str) -> str:
    """Say what to do about a verification that failed itself."""
    return f"Mend what the error names, then {verify}."


def _after_drift(report: Report, ways: Ways) -> str:
    if {each.kind for each in report.differences} <= _OF_READERS:
        return (
            "Make the rows of readers anew from the output log: amends inventory reproject"
            f" --namespace {ways.namespace}. Then {ways.verify}. If rows still differ,"
            f" {_rebuild(ways)}"
        )
    return f"Stored evidence differs from the records: {_rebuild(ways)}"


def _after_agreement(report: Report, ways: Ways) -> str:
    if report.accepted:
        excluded = report.rejections or report.conflicts
        return "These exclusions are accepted." if excluded else NOTHING
    count = len(report.rejections) + len(report.conflicts)
    if count > SHOWN_EXCLUSIONS and ways.partition:
        return (
            f"{count} exclusions are too many to show. Take rejections and conflicts from the"
            f" output of: amends inventory verify --namespace {ways.namespace} --json"
        )
    return (
        f"{ways.manifest}, then: amends inventory accept manifest.json"
        f" --namespace {ways.namespace}{ways.partition}"
    )


# --- about an outbox, and an error


def after_gap(ways: Ways) -> str:
    """Say what to do about an outbox that is not whole."""
    return f"Restore the segments of the outbox from a backup. If there is none, {_rebuild(ways)}"


def after_error(error: AmendsError, ways: Ways) -> str | None:
    """Say what to do about the error that ended the work; None where the error says it all."""
    match error:
        case CloseOverflow():
            return (
                f"Declare the record out of the input: amends inventory set-aside --namespace"
                f" {ways.namespace} --partition {error.partition} --offset {error.offset}"
                f" --reason TEXT. The next run goes on after it: {ways.go_on}."
            )
        case ProtocolStop():
            return _after_stop(ways)
        case ForeignIncarnation():
            return ANOTHER_HISTORY
        case UnknownNamespace():
            return f"Provision it: amends inventory provision CONFIG.json. {ways.provisioned}"
    return None


def _after_stop(ways: Ways) -> str:
    return (
        "Restore the output log from a backup, then: amends inventory reproject --namespace"
        f" {ways.namespace}. If there is none, {_rebuild(ways)}"
    )


def _rebuild(ways: Ways) -> str:
    return (
        f"make another namespace from the source: amends inventory rebuild NEW --from"
        f" {ways.namespace}, then {ways.fill}."
    )
