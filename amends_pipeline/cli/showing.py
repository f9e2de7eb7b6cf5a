"""Status and explanation, as JSON documents and as tables for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amends_pipeline.cli.output import Table
from amends_pipeline.cli.rows import reasons_text
from amends_pipeline.inventory.refold import Status
from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import InputError
from amends_pipeline.kernel.instants import (
    Instant,
    InstantSyntaxError,
    day_text,
    instant_text,
    parse_day,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from amends_pipeline.cli.session import Session
    from amends_pipeline.flows.explain import Explained
    from amends_pipeline.flows.status import NamespaceStatus, UnitStatus
    from amends_pipeline.inventory.authority import Candidate
    from amends_pipeline.inventory.config import StockKey

SHOWN_CONTRIBUTIONS = 100
"""Contributing transactions that people are shown, the latest ones. `--json` has them all."""


def day_of(text: str) -> int:
    """Read a day of the command line. Raises InputError."""
    try:
        return parse_day(text)
    except InstantSyntaxError:
        raise InputError("DAY", expected="a day such as 2026-01-31", found=shown(text)) from None


# --- status


def status(session: Session, found: NamespaceStatus) -> None:
    """Print where a namespace stands."""
    if session.as_json:
        session.out.document(_status_document(found))
        return
    info = found.info
    out = session.out
    out.text(f"namespace {info.namespace}, source {info.source}, configuration {info.digest[:12]}")
    if found.source_incarnation != info.incarnation:
        out.text(
            f"The source is another one than the namespace was bound to: incarnation"
            f" {found.source_incarnation}, not {info.incarnation}."
        )
    out.text()
    table = Table(
        out,
        "#partition, #source end, #worker next, #lag, #pending, #output end, #view next,"
        "#quarantined, #set aside",
    )
    for unit in found.units:
        table.row(
            unit.partition,
            unit.source.end,
            unit.progress.next_offset,
            unit.lag,
            unit.progress.pending,
            unit.output_end,
            unit.progress.view_next,
            unit.quarantined,
            len(unit.set_asides),
        )
    table.end()
    for unit in found.units:
        if unit.progress.view_stop is not None:
            out.text()
            out.text(f"The view of partition {unit.partition} stopped: {unit.progress.view_stop}")
    _show_set_asides(session, found)
    _show_blocked(session, found)


def _show_set_asides(session: Session, found: NamespaceStatus) -> None:
    if any(unit.set_asides for unit in found.units):
        session.out.text()
        table = Table(session.out, "#partition, #set aside offset, reason")
        for unit in found.units:
            for entry in unit.set_asides:
                table.row(unit.partition, entry.offset, entry.reason)
        table.end()


def _show_blocked(session: Session, found: NamespaceStatus) -> None:
    if found.blocked:
        session.out.text()
        table = Table(session.out, "#partition, blocked item, location, conflicts")
        for key in found.blocked:
            table.row(key.partition, *key.stock_key, reasons_text(key.reasons))
        table.end()


def _status_document(found: NamespaceStatus) -> dict[str, object]:
    info = found.info
    return {
        "namespace": info.namespace,
        "source": info.source,
        "digest": info.digest,
        "incarnation": info.incarnation,
        "source_incarnation": found.source_incarnation,
        "follows": info.follows,
        "partitions": [_unit_document(unit) for unit in found.units],
        "blocked": [
            {
                "partition": key.partition,
                "stock_key": _stock_key(key.stock_key),
                "reasons": _reasons(key.reasons),
            }
            for key in found.blocked
        ],
        "lag": sum(unit.lag for unit in found.units),
        "quarantined": sum(unit.quarantined for unit in found.units),
    }


def _unit_document(unit: UnitStatus) -> dict[str, object]:
    return {
        "partition": unit.partition,
        "source_start": unit.source.start,
        "source_end": unit.source.end,
        "worker_next": unit.progress.next_offset,
        "lag": unit.lag,
        "pending": unit.progress.pending,
        "output_end": unit.output_end,
        "view_next": unit.progress.view_next,
        "view_lag": unit.view_lag,
        "view_stop": unit.progress.view_stop,
        "quarantined": unit.quarantined,
        "set_asides": [entry._asdict() for entry in unit.set_asides],
    }


def _stock_key(stock_key: StockKey) -> dict[str, str]:
    return {"item": stock_key.item, "location": stock_key.location}


def _reasons(reasons: Iterable[tuple[str, int]]) -> list[dict[str, object]]:
    return [{"txn_id": txn_id, "revision": revision} for txn_id, revision in reasons]


# --- explanation


def explanation(session: Session, found: Explained) -> None:
    """Print why a key has its balance."""
    if session.as_json:
        session.out.document(_explanation_document(found))
        return
    _show_balance(session, found)
    _show_contributing(session, found)
    _show_bystanders(session, found)
    _show_conflicts(session, found)


def _trust(status_: Status) -> str:
    """An untouched key is READY too."""
    return "BLOCKED" if status_ is Status.BLOCKED else "READY"


def _show_balance(session: Session, found: Explained) -> None:
    out, why = session.out, found.explanation
    item, location = found.stock_key
    out.text(f"{item} at {location}, end of {day_text(why.day)}: {why.balance}")
    if why.published is None:
        out.text("  the opening balance: no activity until then")
    elif why.published.day != why.day:
        out.text(f"  carried over from {day_text(why.published.day)}")
    elif why.published.alerting:
        out.text(f"  an alert: the close crossed the threshold {why.threshold} downward")
    out.text(
        f"  partition {found.unit.partition}, source records before offset {found.next_offset}"
    )
    out.text(f"  {_trust(why.status)}{_blocked_text(found)}")


def _blocked_text(found: Explained) -> str:
    why = found.explanation
    if why.status is not Status.BLOCKED:
        return ""
    return (
        f" by {reasons_text(why.reasons)}: the balance is that of the moment before;"
        f" what is certain now makes {why.computed}"
    )


def _show_contributing(session: Session, found: Explained) -> None:
    out, why = session.out, found.explanation
    out.text()
    out.text(f"Opening {why.opening}, and contributing:")
    hidden = len(why.contributing) - SHOWN_CONTRIBUTIONS
    if hidden > 0:
        close = why.contributing[hidden - 1].close
        out.text(f"  {hidden} earlier transactions, up to a close of {close} (--json has them)")
    table = Table(out, "valid time, txn_id, #revision, kind, #offset, #quantity, #close")
    for txn_id, offset, candidate, close in why.contributing[max(hidden, 0) :]:
        table.row(
            _valid_time(candidate),
            txn_id,
            candidate.revision,
            candidate.kind,
            offset,
            candidate.qty,
            close,
        )
    table.end("no transactions")


def _show_bystanders(session: Session, found: Explained) -> None:
    if found.explanation.bystanders:
        session.out.text()
        session.out.text("No part of it:")
        table = Table(
            session.out, "valid time, txn_id, #revision, kind, #offset, #quantity, why, #by offset"
        )
        for txn_id, offset, candidate, fate, by in found.explanation.bystanders:
            table.row(
                _valid_time(candidate),
                txn_id,
                candidate.revision,
                candidate.kind,
                offset,
                candidate.qty,
                fate,
                by,
            )
        table.end()


def _show_conflicts(session: Session, found: Explained) -> None:
    if found.explanation.conflicts:
        session.out.text()
        session.out.text("Conflicts of the key:")
        table = Table(session.out, "txn_id, #revision, state, #offset, valid time, kind, #quantity")
        for txn_id, revision, current, assertions in found.explanation.conflicts:
            state = "current" if current else "superseded"
            for offset, candidate in assertions:
                valid_time = _valid_time(candidate)
                table.row(
                    txn_id, revision, state, offset, valid_time, candidate.kind, candidate.qty
                )
        table.end()


def _valid_time(candidate: Candidate) -> str:
    return instant_text(Instant(candidate.day, candidate.nanosecond))


def _explanation_document(found: Explained) -> dict[str, object]:
    why = found.explanation
    return {
        "namespace": found.unit.namespace,
        "partition": found.unit.partition,
        "worker_next": found.next_offset,
        "stock_key": _stock_key(found.stock_key),
        "day": day_text(why.day),
        "status": _trust(why.status),
        "reasons": _reasons(why.reasons),
        "opening_balance": why.opening,
        "reorder_threshold": why.threshold,
        "balance": why.balance,
        "published": None
        if why.published is None
        else {
            "day": day_text(why.published.day),
            "close": why.published.close,
            "alert": why.published.alerting,
        },
        "computed": why.computed,
        "contributing": [
            {"txn_id": txn_id, "offset": offset, **_assertion(candidate), "close": close}
            for txn_id, offset, candidate, close in why.contributing
        ],
        "not_contributing": [
            {
                "txn_id": txn_id,
                "offset": offset,
                **_assertion(candidate),
                "why": str(fate),
                "by_offset": by,
            }
            for txn_id, offset, candidate, fate, by in why.bystanders
        ],
        "conflicts": [
            {
                "txn_id": txn_id,
                "revision": revision,
                "current": current,
                "assertions": [
                    {"offset": offset, **_assertion(candidate)} for offset, candidate in assertions
                ],
            }
            for txn_id, revision, current, assertions in why.conflicts
        ],
    }


def _assertion(candidate: Candidate) -> dict[str, object]:
    return {
        "revision": candidate.revision,
        "kind": candidate.kind,
        "valid_time": _valid_time(candidate),
        "day": day_text(candidate.day),
        "qty": candidate.qty,
    }
