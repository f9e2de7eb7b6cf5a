"""Cut a log into slices in any way, decide them, keep what they commit, show it to a reader.

The shelf is a store as naive as can be: rows by day, of which a decision may overwrite those that
it says it changed, and no others. It serves each slice with no more than the slice may ask for.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from amends_pipeline.inventory import view
from amends_pipeline.inventory.authority import Authority, Observation
from amends_pipeline.inventory.config import NamespaceConfig, parse_configuration
from amends_pipeline.inventory.decision import Decision, Known, decide
from amends_pipeline.inventory.envelope import (
    Encoder,
    Envelope,
    EnvelopeBatch,
    OutputId,
    encoded_id,
)
from amends_pipeline.inventory.keyfold import NeedsWholeKey
from amends_pipeline.inventory.known_keys import KnownKeys
from amends_pipeline.inventory.refold import EVERY_DAY, KeyState, Rows, untouched
from amends_pipeline.inventory.slice import (
    Records,
    Rejection,
    Slice,
    earliest_days,
    identities,
    read_slice,
)
from amends_pipeline.inventory.trial import Excess
from amends_pipeline_tests.tables import Line

Loading = Callable[[Slice, dict], dict[int, int]]
"""From which day on each touched key is loaded."""


def suffix(slice_: Slice, authorities: dict) -> dict[int, int]:
    """No day more than the slice needs."""
    return earliest_days(slice_, authorities)


def whole(slice_: Slice, authorities: dict) -> dict[int, int]:
    """All days."""
    return dict.fromkeys(earliest_days(slice_, authorities), EVERY_DAY)


@dataclass
class Shelf:
    """Committed state of one partition."""

    config: NamespaceConfig
    headers: dict[int, KeyState] = field(default_factory=dict)
    days: dict[int, dict[int, tuple]] = field(default_factory=lambda: defaultdict(dict))
    authorities: dict[tuple[int, str], Authority] = field(default_factory=dict)
    observations: list[Observation] = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)

    def key(self, number: int, from_day: int) -> KeyState:
        """The state of a key with its rows from `from_day` on."""
        key = self.config.keys[number]
        header = self.headers.get(
            number, untouched(number, key.opening_balance, key.reorder_threshold)
        )
        earlier = [row for day, row in sorted(self.days[number].items()) if day < from_day]
        loaded = [row for day, row in sorted(self.days[number].items()) if day >= from_day]
        rows = Rows(*map(list, zip(*loaded, strict=True))) if loaded else Rows.none()
        before = Rows(*earlier[-1]).closes if earlier else key.opening_balance
        return header._replace(before=before, loaded_from=from_day, rows=rows)

    def known(self, slice_: Slice, loading: Loading) -> Known:
        """What a slice needs to be decided."""
        seen = {
            identity: self.authorities[identity]
            for identity in identities(slice_)
            if identity in self.authorities
        }
        days = loading(slice_, seen)
        states = {key: self.key(key, day) for key, day in days.items()}
        return Known(KnownKeys(states), seen)

    def commit(self, decision: Decision) -> None:
        """Overwrite what the decision says it changed."""
        self.authorities.update(decision.authorities)
        self.observations += decision.observations
        self.rejections += decision.rejections
        for number, (state, changed, headed) in decision.keys.items():
            stored = self.key(number, state.loaded_from)
            if not headed:
                assert state._replace(rows=stored.rows) == stored
                assert all(min(self.days[number]) <= day for day in state.rows.days[:1])
            self.headers[number] = state._replace(rows=Rows.none())
            rows = list(zip(*state.rows, strict=True))
            for row in rows[slice(*changed)]:
                self.days[number][row[0]] = row
            kept = self.key(number, state.loaded_from).rows
            assert kept == state.rows, "a row outside `changed` differs from what is stored"


@dataclass
class Run:
    """What became of a log."""

    shelf: Shelf
    partition: int
    decisions: list[Decision]
    frontier: int
    excess: Excess | None

    @property
    def config(self) -> NamespaceConfig:
        return self.shelf.config

    @property
    def envelopes(self) -> list[Envelope]:
        return [envelope for decision in self.decisions for envelope in decision.envelopes]

    def wire(self) -> list[list[bytes]]:
        """The bytes of each decision's envelopes."""
        encode = Encoder(self.config, self.partition).encode
        return [[encode(each) for each in decision.envelopes] for decision in self.decisions]

    def visible(self) -> dict[str, dict]:
        """What a reader sees: payload by encoded output id."""
        return shown(self.config, deliver(self.config, self.envelopes, self.partition))

    def conflicts(self) -> set[tuple[str, str, str, int]]:
        """Every revision of which the evidence holds two assertions."""
        said = defaultdict(set)
        for (key, txn_id), authority in self.shelf.authorities.items():
            said[key, txn_id, authority.candidate.revision].add(authority.candidate)
        for seen in self.shelf.observations:
            said[seen.key, seen.txn_id, seen.candidate.revision].add(seen.candidate)
        return {
            (*self.config.keys[key].stock_key, txn_id, revision)
            for (key, txn_id, revision), candidates in said.items()
            if len(candidates) > 1
        }


def source(lines: Iterable[Line], step: int = 1) -> list[tuple[int, bytes | None, bytes]]:
    """Lines with offsets, `step` apart."""
    return [(at * step, line.raw_key, line.value) for at, line in enumerate(lines)]


def records(
    taken: Sequence[tuple[int, bytes | None, bytes]], start: int = 0, until: int | None = None
) -> Records:
    """Records as a source log hands them over."""
    offsets, keys, values = map(list, zip(*taken, strict=True)) if taken else ([], [], [])
    end = until if until is not None else (offsets[-1] + 1 if offsets else start)
    return Records(start, end, offsets, keys, values)


def slices(log: Sequence[tuple[int, bytes | None, bytes]], sizes: Iterable[int]) -> list[Records]:
    """The log in runs of the given sizes; what they leave over is the last run."""
    cuts, start, at = [], 0, 0
    for size in [*sizes, len(log)]:
        taken = log[at : at + size]
        if not taken:
            break
        cuts.append(records(taken, start))
        start, at = cuts[-1].until, at + len(taken)
    return cuts


def drive(
    config: dict,
    log: Sequence[tuple[int, bytes | None, bytes]],
    sizes: Iterable[int],
    *,
    loading: Loading = suffix,
    partition: int = 0,
    aside: frozenset[int] = frozenset(),
) -> Run:
    """Decide a whole log, cut into slices of the given sizes; stop at an overflow."""
    shelf = Shelf(parse_configuration(config))
    run = Run(shelf, partition, [], 0, None)
    sequence = 0
    remaining = [
        read_slice(shelf.config, partition, cut, aside) for cut in reversed(slices(log, sizes))
    ]
    while remaining and run.excess is None:
        slice_ = remaining.pop()
        decision = _decided(shelf, slice_, sequence, loading)
        while decision.excess and decision.excess.undecided and remaining:
            slice_ = slice_.joined(remaining.pop())
            decision = _decided(shelf, slice_, sequence, loading)
        shelf.commit(decision)
        run.decisions.append(decision)
        run.frontier, run.excess, sequence = decision.until, decision.excess, decision.next_sequence
    return run


def _decided(shelf: Shelf, slice_: Slice, sequence: int, loading: Loading) -> Decision:
    known = shelf.known(slice_, loading)
    while True:
        try:
            return decide(known, slice_, sequence)
        except NeedsWholeKey as needs:
            if known.keys[needs.key].whole:
                raise
            known.keys[needs.key] = shelf.key(needs.key, EVERY_DAY)


def deliver(
    config: NamespaceConfig, envelopes: Iterable[Envelope], partition: int = 0, rows=None
) -> dict[OutputId, Envelope]:
    """The view's rows after these deliveries, in this order."""
    batch = EnvelopeBatch()
    for envelope in envelopes:
        batch.add(envelope)
    stored = dict(rows or {})
    applied = view.apply(config, partition, stored, batch)
    assert applied.fault is None
    return stored | applied.rows


def shown(config: NamespaceConfig, rows: dict[OutputId, Envelope]) -> dict[str, dict]:
    """The payloads of the visible rows by encoded output id."""
    encode = Encoder(config, 0).encode
    return {
        encoded_id(config, output): json.loads(encode(envelope))["payload"]
        for output, envelope in rows.items()
        if view.visible(envelope)
    }


def all_cuts(count: int) -> Iterator[list[int]]:
    """Every way to cut `count` records into slices, 2^(count-1) of them."""
    if count == 0:
        yield []
    for size in range(1, count + 1):
        for rest in all_cuts(count - size):
            yield [size, *rest]
