"""What a materialization tells: the same keys on every path, whether there was work or none."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import dagster as dg

from amends_pipeline.defs.inventory.changes import Change, Changes, Fact
from amends_pipeline.inventory.config import NamespaceConfig
from amends_pipeline.inventory.envelope import Cause, Type
from amends_pipeline.kernel.display import escape_terminal
from amends_pipeline.kernel.instants import day_text
from amends_pipeline.ports import Ledger, Progress, Unit

SHOWN_CHANGES = 50
"""Rows of a table of changes; the total stands beside it."""
SHOWN_CHARACTERS = 200
"""Characters of a text from outside that a cell shows."""

SHOWN_REASONS = 10
"""Reasons of a blocked key that a cell names."""
BOUNDARY = "boundary_offset"
"""The key under which a run keeps its source end."""
ROW_COUNT = "dagster/row_count"
"""The key under which Dagster looks for the rows of the unit in the asset's table."""
PICTURE = "what_changed_picture"
"""The key under which the view shows the most changed key before and after."""

Metadata = dict[str, dg.MetadataValue[Any] | int | str]

_BEYOND = " {} envelopes are about further outputs, which the table of changes leaves out."

_CHANGE_COLUMNS = {
    "item": "Of the stock key.",
    "location": "Of the stock key.",
    "day": "UTC day; empty for the status of the key.",
    "was": "What readers saw before: the close, and whether it crossed the threshold.",
    "now": "What readers see once the view has applied it.",
    "cause": "The record that triggered it: transaction, revision, source offset.",
}


class Standing(NamedTuple):
    """Where the roles of a unit and the logs around them stand. Frontiers are exclusive."""

    boundary: int
    """The source end when the run began; it processes nothing from there on."""
    source_end: int
    progress: Progress
    output_end: int

    def metadata(self) -> dict[str, int]:
        """Frontiers, and how far each role is behind the one before it."""
        progress = self.progress
        return {
            BOUNDARY: self.boundary,
            "source_end_offset": self.source_end,
            "worker_next_offset": progress.next_offset,
            "outbox_next_sequence": progress.next_sequence,
            "acknowledged_next_sequence": progress.acknowledged,
            "output_end_offset": self.output_end,
            "view_next_offset": progress.view_next,
            "lag_offsets": max(0, self.source_end - progress.next_offset),
            "pending_envelopes": progress.pending,
            "unapplied_envelopes": max(0, self.output_end - progress.view_next),
        }


NOWHERE = Standing(0, 0, Progress(0, 0, 0, 0, None, {}), 0)
"""Of a unit that its namespace does not have."""


def standing(ledger: Ledger, unit: Unit, boundary: int | None) -> Standing:
    """Look where a unit stands; without a boundary of the run, the source end is one."""
    progress = ledger.store.progress(unit)
    source = ledger.source(ledger.store.info(unit.namespace).source)
    end = source.extents()[unit.partition].end
    return Standing(end if boundary is None else boundary, end, progress, ledger.outputs.end(unit))


class Told(NamedTuple):
    """What one step did, in the words of its assets."""

    standing: Standing
    changed: Sequence[Change]
    left_out: int
    """Envelopes that the table of changes does not look at."""
    config: NamespaceConfig | None
    """None when the namespace has no such unit: then nothing changed either."""
    note: str
    picture: dg.MarkdownMetadataValue | None = None
    """The most changed key before and after; the view alone has one."""

    def version(self, frontier: int) -> str:
        """Name the content: one configuration at one frontier has one content."""
        return "none" if self.config is None else f"{self.config.digest[:16]}@{frontier}"

    def metadata(self, counts: Mapping[str, int]) -> Metadata:
        """What a person reads first: the picture, and what changed; then counts, frontiers, lag."""
        pictures = {} if self.picture is None else {PICTURE: self.picture}
        return {
            "note": self.note + (_BEYOND.format(self.left_out) if self.left_out else ""),
            **pictures,
            "what_changed": what_changed(self.config, self.changed),
            "changed_days": sum(not change.of_status for change in self.changed),
            "changed_statuses": sum(change.of_status for change in self.changed),
            "not_looked_at_envelopes": self.left_out,
            **counts,
            **self.standing.metadata(),
        }


def counts_by_type(changes: Changes) -> dict[str, int]:
    """How many envelopes said what."""
    return {
        "raised_alerts": changes.types[Type.ALERT_RAISED],
        "withdrawn_alerts": changes.types[Type.ALERT_RETRACTED],
        "stated_balances": changes.types[Type.BALANCE_STATED],
        "withdrawn_balances": changes.types[Type.BALANCE_RETRACTED],
        "stated_statuses": changes.types[Type.READY_STATED] + changes.types[Type.BLOCKED_STATED],
    }


def what_changed(
    config: NamespaceConfig | None, changed: Sequence[Change]
) -> dg.TableMetadataValue:
    """Write the largest changes as a table: item, location, day, was, now, cause."""
    rows = [] if config is None else [_row(config, each) for each in changed[:SHOWN_CHANGES]]
    return table(_CHANGE_COLUMNS, rows)


def table(
    columns: Mapping[str, str],
    rows: Sequence[Mapping[str, str | int]],
    integers: Collection[str] = (),
) -> dg.TableMetadataValue:
    """Write rows under described columns.

    A close stands as text: it has 64 bits, and a number in a browser has 53.
    """
    return dg.MetadataValue.table(
        [dg.TableRecord(dict(row)) for row in rows],
        schema=dg.TableSchema(
            [
                dg.TableColumn(name, "integer" if name in integers else "string", told)
                for name, told in columns.items()
            ]
        ),
    )


def cell(text: str) -> str:
    """Return a text from outside so that it can do no harm in a cell."""
    kept = escape_terminal(text[:SHOWN_CHARACTERS])
    return kept if len(text) <= SHOWN_CHARACTERS else f"{kept}... ({len(text)} characters)"


def _row(config: NamespaceConfig, change: Change) -> dict[str, str]:
    item, location = config.keys[change.key].stock_key
    return {
        "item": cell(item),
        "location": cell(location),
        "day": "" if change.of_status else day_text(change.day),
        "was": fact_text(change.was),
        "now": fact_text(change.now),
        "cause": cause_text(change.cause),
    }


def fact_text(fact: Fact) -> str:
    """Write what readers see: `70`, `50, alert`, `READY`, `BLOCKED by A r2`, or `none`."""
    reasons = fact.blocked_by
    if reasons:
        named = [f"{cell(txn_id)} r{revision}" for txn_id, revision in reasons[:SHOWN_REASONS]]
        more = len(reasons) - len(named)
        return f"BLOCKED by {', '.join(named)}{f' and {more} more' if more else ''}"
    if reasons is not None:
        return "READY"
    seen = [str(fact.close)] if fact.close is not None else []
    return ", ".join([*seen, *(["alert"] if fact.alert else [])]) or "none"


def cause_text(cause: Cause) -> str:
    """Write a cause: `ISSUE-001 r2 at offset 3`."""
    return f"{cell(cause.txn_id)} r{cause.revision} at offset {cause.offset}"
