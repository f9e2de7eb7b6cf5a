"""A namespace on the bench: records in words go in, and everything that can be seen comes out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from amends_pipeline.inventory import view
from amends_pipeline.inventory.config import NamespaceConfig, parse_configuration
from amends_pipeline.inventory.decision import Decision, Known, decide
from amends_pipeline.inventory.envelope import EnvelopeBatch
from amends_pipeline.inventory.envelope_columns import together
from amends_pipeline.inventory.keyfold import NeedsWholeKey
from amends_pipeline.inventory.refold import EVERY_DAY, KeyChange, KeyState, Rows, Span, Status
from amends_pipeline.inventory.slice import Slice, earliest_days, identities, read_slice
from amends_pipeline.ports import Role, SourceRecord, Token, Unit
from amends_pipeline_tests.tables import Line, configuration, history

SOURCE = "depot-feed-1"

STORY = """
    A r1 NEW day 1 -50
    B r1 NEW day 2 -20
    b/A r1 NEW day 2 -30
    malformed
    A r2 AMEND day 1 -30
    A r2 AMEND day 1 -30
    A r1 NEW day 1 -50
    B r2 CANCEL day 2
    b/C r1 NEW day 3 -5
    b/C r1 NEW day 3 -6
"""
"""Ten records: an amendment, its duplicate, a stale one, a cancellation; b ends up blocked."""


@dataclass
class Bench:
    """A provisioned namespace of a ledger, with keys a, b and c on partition 0 of its source."""

    ledger: Any
    config: NamespaceConfig

    @property
    def store(self):
        return self.ledger.store

    @property
    def source(self):
        return self.ledger.source(self.config.source)

    def unit(self, partition: int = 0) -> Unit:
        return Unit(self.config.namespace, partition)

    def claim(self, role: Role = Role.WORKER, partition: int = 0) -> Token:
        return self.store.claim(self.unit(partition), role, holder="bench")

    def progress(self, partition: int = 0):
        return self.store.progress(self.unit(partition))

    # Source to outbox

    def append(self, text: str, partition: int = 0) -> None:
        """Append the records of a table."""
        self.append_lines(history(text), partition)

    def append_lines(self, lines: Iterable[Line], partition: int = 0) -> None:
        self.source.append([SourceRecord(partition, line.raw_key, line.value) for line in lines])

    def slice(self, start: int, until: int, partition: int = 0) -> Slice:
        """Records of the log, classified."""
        records = self.source.read(partition, start, until, until - start)
        aside = {entry.offset for entry in self.store.set_asides(self.unit(partition))}
        return read_slice(self.config, partition, records, frozenset(aside))

    def decide(self, *untils: int, partition: int = 0) -> list[Decision]:
        """Decide consecutive slices up to each of `untils`, or to the end of the log; no commit.

        A single slice is given exactly the days it asks for; several find their keys whole.
        """
        unit = self.unit(partition)
        start, sequence = self.progress(partition)[:2]
        decisions: list[Decision] = []
        known = Known()
        for until in untils or (self.source.extents()[partition].end,):
            slice_ = self.slice(start, until, partition)
            missing = identities(slice_) - known.authorities.keys()
            known.authorities.update(self.store.authorities(unit, missing))
            days = earliest_days(slice_, known.authorities)
            if len(untils) > 1:
                days = {key: EVERY_DAY for key in days if key not in known.keys}
            known.keys.update(self.store.keys(unit, days))
            decision = self._decided(unit, known, slice_, sequence)
            known.install(decision)
            decisions.append(decision)
            start, sequence = decision.until, decision.next_sequence
        return decisions

    def _decided(self, unit: Unit, known: Known, slice_: Slice, sequence: int) -> Decision:
        while True:
            try:
                return decide(known, slice_, sequence)
            except NeedsWholeKey as needs:
                known.keys.update(self.store.keys(unit, {needs.key: EVERY_DAY}))

    def work(self, text: str = "", *, size: int = 1, partition: int = 0) -> None:
        """Append the records of a table, then decide and commit them, `size` at a time."""
        self.append(text, partition)
        token = self.claim(partition=partition)
        end = self.source.extents()[partition].end
        while (at := self.progress(partition).next_offset) < end:
            until = min(at + size, end)
            self.store.commit(token, self.decide(until, partition=partition))

    # Outbox to view

    def publish(self, partition: int = 0) -> None:
        """Publish and acknowledge what is pending."""
        token = self.claim(Role.RELAY, partition)
        while segments := self.store.pending(self.unit(partition), 100):
            batch = together([segment.envelopes for segment in segments])
            self.ledger.outputs.append(self.unit(partition), batch)
            self.store.acknowledge(token, segments[0].base, len(batch))

    def project(self, partition: int = 0) -> None:
        """Apply the output log to the view."""
        unit = self.unit(partition)
        token = self.claim(Role.VIEW, partition)
        start = self.progress(partition).view_next
        segments = list(self.ledger.outputs.read(unit, start, 10_000))
        batch = together([segment.envelopes for segment in segments])
        stored = self.store.view_rows(unit, {each.output_id for each in batch})
        applied = view.apply(self.config, partition, stored, batch)
        assert applied.fault is None
        self.store.commit_view(token, start, start + applied.consumed, applied.rows, None)

    def drain(self, text: str = "", *, size: int = 1, partition: int = 0) -> None:
        """All three."""
        self.work(text, size=size, partition=partition)
        self.publish(partition)
        self.project(partition)

    # What can be seen

    def observed(self) -> dict[str, Any]:
        """Everything that the ports show of the namespace."""
        units = [self.unit(partition) for partition in range(self.config.partitions)]
        return {
            "info": self.store.info(self.config.namespace),
            "config": self.store.config(self.config.namespace),
            "binding": self.store.source_binding(self.config.source),
            **{str(unit): self._observed_unit(unit) for unit in units},
            "snapshot": self._observed_snapshot(),
        }

    def _observed_unit(self, unit: Unit) -> dict[str, Any]:
        store = self.store
        numbers = range(len(self.config.keys))
        evidence = {key: store.evidence(unit, key) for key in numbers}
        seen = {(key, txn_id) for key in numbers for txn_id, _ in evidence[key].authorities}
        outbox = list(store.outbox(unit))
        outputs = {envelope.output_id for _, _, envelope in outbox}
        return {
            "progress": store.progress(unit),
            "set-asides": list(store.set_asides(unit)),
            "keys": dict(store.keys(unit, dict.fromkeys(numbers, EVERY_DAY))),
            "evidence": {
                k: (list(e.authorities), list(e.observations)) for k, e in evidence.items()
            },
            "authorities": dict(store.authorities(unit, seen)),
            "outbox": outbox,
            "segments": list(store.outbox_segments(unit)),
            "pending": segments_of(store.pending(unit, 10_000)),
            "view": dict(store.view_rows(unit, outputs)),
            "log": segments_of(self.ledger.outputs.read(unit, 0, 10_000)),
        }

    def _observed_snapshot(self) -> dict[str, Any]:
        with self.store.snapshot(self.config.namespace) as snapshot:
            return {
                "info": snapshot.info(),
                "incarnation": snapshot.source_incarnation(),
                "extents": list(snapshot.source_extents()),
                "output ends": list(snapshot.output_ends()),
                "progress": list(snapshot.progress()),
                "visible": list(snapshot.visible()),
                "quarantine": list(snapshot.quarantine()),
                "conflicts": list(snapshot.conflicts()),
            }

    @contextmanager
    def unchanged(self):
        """Nothing that can be seen changes in the block."""
        before = self.observed()
        yield
        assert self.observed() == before


def segments_of(segments) -> list[tuple[int, Any]]:
    """(sequence or offset, envelope) of segments, which must follow one another."""
    rows: list[tuple[int, Any]] = []
    for segment in segments:
        assert not rows or segment.base == rows[-1][0] + 1
        assert len(segment.envelopes) > 0
        rows += enumerate(segment.envelopes, segment.base)
    return rows


def provisioned(ledger, document: dict | None = None, *, first_offsets=None, follows=True) -> Bench:
    """A bench with its namespace and its source made."""
    config = parse_configuration(document or configuration(keys="abc"))
    source = ledger.source(config.source)
    source.create(config.partitions)
    first = first_offsets or [0] * config.partitions
    assert ledger.store.provision(config, source.incarnation(), first, follows=follows)
    return Bench(ledger, config)


# Decisions by hand

DayRow = tuple[int, int, int, int, bool, bool, int, int]
"""Day, sum, count, close, present, alerting, balance version, alert version."""


def state(key: int = 0, rows: Sequence[DayRow] = (), **members) -> KeyState:
    """A whole state of a key of `configuration()`."""
    columns = Rows(*map(list, zip(*rows, strict=True))) if rows else Rows.none()
    plain = KeyState(key, 100, 60, Status.READY, 1, (), 100, 100, EVERY_DAY, columns)
    return plain._replace(**members)


def change(new: KeyState, start: int = 0, stop: int | None = None) -> KeyChange:
    """A change of a key of which the rows from `start` to `stop` are new."""
    return KeyChange(new, Span(start, len(new.rows.days) if stop is None else stop))


def decision(start: int = 0, until: int = 1, base_sequence: int = 0, **members) -> Decision:
    """A decision that changes nothing but what is given."""
    parts: dict[str, Any] = {
        "keys": {},
        "authorities": {},
        "observations": [],
        "rejections": [],
        "envelopes": EnvelopeBatch(),
        "accepted": 0,
    }
    return Decision(start, until, base_sequence, **(parts | members))
