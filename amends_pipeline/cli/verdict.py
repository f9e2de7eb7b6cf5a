"""Verification from the command line: asking for a report, and showing it to people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amends_pipeline.cli.output import Table, counted
from amends_pipeline.cli.session import next_step

if TYPE_CHECKING:
    from pathlib import Path

    from amends_pipeline.cli.progress import Advance, Meters
    from amends_pipeline.cli.session import Session
    from amends_pipeline.inventory.verify import Manifest, Report

SHOWN_ROWS = 200
"""Rows of a kind that people are shown. `--json` has them all."""


def manifest_of(path: Path) -> Manifest:
    """Read a manifest. Raises InputError."""
    from amends_pipeline.flows.reading import readable
    from amends_pipeline.inventory.verify import parse_manifest
    from amends_pipeline.kernel.display import shown

    with readable(shown(str(path))):
        raw = path.read_bytes()
    return parse_manifest(raw, where=shown(str(path)))


def ask(session: Session, namespace: str, manifest: Manifest | None, by: str) -> Report:
    """Judge a namespace by itself, with a meter for what the oracle has read."""
    from amends_pipeline.flows.judge import judge_namespace
    from amends_pipeline.flows.rebuild import follow_when_verified

    with session.ledger() as ledger:
        with session.meters() as meters:
            progress = _Reading(meters)
            report = judge_namespace(ledger, namespace, by, manifest=manifest, progress=progress)
        for name in follow_when_verified(ledger):
            session.say(f"every unit of {name} is verified and accepted: it follows its source now")
    return report


class _Reading:
    """Turns "so many of so many" into steps of a meter."""

    def __init__(self, meters: Meters) -> None:
        self._meters = meters
        self._advance: Advance | None = None
        self._passed = 0

    def __call__(self, passed: int, total: int) -> None:
        if self._advance is None:
            self._advance = self._meters.start("verify", "records", total)
        self._advance(passed - self._passed)
        self._passed = passed


def show(session: Session, namespace: str, report: Report) -> None:
    """Print a report, whole as JSON or in tables."""
    from amends_pipeline.flows.next_step import after_verdict, on_command_line

    if session.as_json:
        session.out.write(report.to_json().encode() + b"\n")
        return
    out = session.out
    out.text(f"{report.status}, {'accepted' if report.accepted else 'not accepted'}")
    for line in (*report.errors, *(distance.says for distance in report.distance)):
        out.text(f"  {line}")
    if not report.accepted:
        out.text(next_step(after_verdict(report, on_command_line(namespace))))
    out.text()
    boundary = Table(
        out, "#partition, #source end, #worker next, #pending, #output end, #view next"
    )
    for each in report.boundary:
        boundary.row(
            each.partition,
            each.source_end,
            each.worker_next,
            each.pending,
            each.output_end,
            each.view_next,
        )
    boundary.end()
    _show_differences(session, report)
    _show_exclusions(session, report)
    out.text()
    out.text("Not compared:")
    for omission in report.not_compared[:SHOWN_ROWS]:
        key = omission.stock_key
        out.text(f"  {omission.what}{f', {key.item} at {key.location}' if key else ''}")
    _say_more(session, len(report.not_compared))


def _show_differences(session: Session, report: Report) -> None:
    _heading(session, len(report.differences), "difference")
    if report.differences:
        table = Table(
            session.out, "about, item, location, day, #partition, #offset, expected, found"
        )
        for each in report.differences[:SHOWN_ROWS]:
            table.row(
                each.kind,
                each.item,
                each.location,
                each.day,
                each.partition,
                each.offset,
                each.expected or "nothing",
                each.found or "nothing",
            )
        table.end()
        _say_more(session, len(report.differences))


def _show_exclusions(session: Session, report: Report) -> None:
    _heading(session, len(report.rejections), "rejected record")
    if report.rejections:
        rejections = Table(session.out, "#partition, #offset, code")
        for rejected in report.rejections[:SHOWN_ROWS]:
            rejections.row(rejected.partition, rejected.offset, rejected.code)
        rejections.end()
        _say_more(session, len(report.rejections))
    _heading(session, len(report.conflicts), "conflict")
    if report.conflicts:
        conflicts = Table(session.out, "item, location, txn_id, #revision")
        for conflict in report.conflicts[:SHOWN_ROWS]:
            key = conflict.stock_key
            conflicts.row(key.item, key.location, conflict.txn_id, conflict.revision)
        conflicts.end()
        _say_more(session, len(report.conflicts))


def _heading(session: Session, number: int, noun: str) -> None:
    session.out.text()
    session.out.text(f"{counted(number, noun)}{':' if number else ''}")


def _say_more(session: Session, number: int) -> None:
    if number > SHOWN_ROWS:
        session.out.text(f"... and {number - SHOWN_ROWS} more; --json has them all")
