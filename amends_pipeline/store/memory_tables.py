"""What the memory store and its two logs keep, and the one lock around all of it.

`MemoryTables` stands where a database stands: `MemoryStore`, `MemorySource` and `MemoryOutputLog`
over the same tables see each other's commits at once. A value that was put in is never changed,
only replaced, so a copy of the containers is a snapshot.
"""

from __future__ import annotations

import secrets
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Condition

from amends_pipeline.inventory.authority import Authority, Observation
from amends_pipeline.inventory.config import NamespaceConfig, default_partition
from amends_pipeline.inventory.decision import Decision
from amends_pipeline.inventory.envelope import Envelope, EnvelopeBatch, OutputId
from amends_pipeline.inventory.refold import KeyState
from amends_pipeline.inventory.slice import Rejection
from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import (
    ConfigurationError,
    ForeignIncarnation,
    InputError,
    UnknownNamespace,
)
from amends_pipeline.ports import (
    Extent,
    Landed,
    NamespaceInfo,
    Progress,
    Role,
    Segment,
    SetAside,
    SourceBinding,
    Unit,
    Verdict,
)


@dataclass(slots=True)
class SourcePartition:
    """Retained records as columns; offsets `start` up to `end` were given, perhaps to nobody."""

    start: int = 0
    end: int = 0
    offsets: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes] = field(default_factory=list)

    @property
    def extent(self) -> Extent:
        """What is retained."""
        return Extent(self.start, self.end)

    def copy(self) -> SourcePartition:
        """The partition as it is now."""
        return SourcePartition(
            self.start, self.end, self.offsets.copy(), self.keys.copy(), self.values.copy()
        )


@dataclass(slots=True)
class SourceTable:
    """One source log."""

    incarnation: str
    partitions: list[SourcePartition]

    def copy(self) -> SourceTable:
        """The log as it is now."""
        return SourceTable(self.incarnation, [each.copy() for each in self.partitions])


@dataclass(slots=True)
class OutputTable:
    """One unit's output log: canonical bytes, and where each append began."""

    rows: list[bytes] = field(default_factory=list)
    bases: list[int] = field(default_factory=list)


@dataclass(slots=True)
class UnitTable:
    """Everything that is committed of one unit."""

    next_offset: int
    next_sequence: int = 0
    acknowledged: int = 0
    view_next: int = 0
    view_stop: str | None = None
    epochs: dict[Role, int] = field(default_factory=lambda: dict.fromkeys(Role, 0))
    owners: dict[Role, str] = field(default_factory=dict)
    """Who took the present epoch."""
    set_asides: dict[int, str] = field(default_factory=dict)
    keys: dict[int, KeyState] = field(default_factory=dict)
    """Whole states; an untouched key has none."""
    authorities: dict[int, dict[str, Authority]] = field(default_factory=dict)
    """By key number, then txn_id."""
    observations: dict[int, list[Observation]] = field(default_factory=dict)
    """By key number, in order of commit."""
    rejections: list[Rejection] = field(default_factory=list)
    outbox: list[tuple[int, tuple[Envelope, ...]]] = field(default_factory=list)
    """(base sequence, envelopes) of every decision that published something."""
    view: dict[OutputId, Envelope] = field(default_factory=dict)

    @property
    def progress(self) -> Progress:
        """Where the roles stand."""
        return Progress(
            self.next_offset,
            self.next_sequence,
            self.acknowledged,
            self.view_next,
            self.view_stop,
            self.epochs.copy(),
        )

    def listed_set_asides(self) -> list[SetAside]:
        """Declared records by offset."""
        return [SetAside(offset, reason) for offset, reason in sorted(self.set_asides.items())]

    def pending(self, limit: int) -> list[Segment]:
        """Segments from the acknowledgement frontier on, up to about `limit` rows."""
        found: list[Segment] = []
        rows = 0
        first = bisect_left(self.outbox, self.acknowledged, key=_last_sequence)
        for base, envelopes in self.outbox[first:]:
            if found and rows + len(envelopes) > limit:
                break
            skipped = max(0, self.acknowledged - base)
            batch = EnvelopeBatch()
            for envelope in envelopes[skipped:]:
                batch.add(envelope)
            found.append(Segment(base + skipped, batch))
            rows += len(batch)
        return found

    def add_evidence(self, decision: Decision) -> None:
        """Keep what a decision says of its records."""
        for (key, txn_id), authority in decision.authorities.items():
            self.authorities.setdefault(key, {})[txn_id] = authority
        for observation in decision.observations:
            self.observations.setdefault(observation.key, []).append(observation)
        self.rejections += decision.rejections


def _last_sequence(decided: tuple[int, tuple[Envelope, ...]]) -> int:
    base, envelopes = decided
    return base + len(envelopes) - 1


@dataclass(slots=True)
class NamespaceTable:
    """A provisioned namespace and its units by partition."""

    info: NamespaceInfo
    config: NamespaceConfig
    units: list[UnitTable]


@dataclass(slots=True)
class MemoryTables:
    """All tables. Whoever reads or writes them holds `lock`; who waits for a holder waits on it."""

    new_id: Callable[[], str] = lambda: secrets.token_hex(16)
    """Makes incarnation ids."""
    lock: Condition = field(default_factory=Condition)
    sources: dict[str, SourceTable] = field(default_factory=dict)
    bindings: dict[str, SourceBinding] = field(default_factory=dict)
    namespaces: dict[str, NamespaceTable] = field(default_factory=dict)
    outputs: dict[Unit, OutputTable] = field(default_factory=dict)
    landed: dict[str, list[Landed]] = field(default_factory=dict)
    """Files that were picked up, by source, in order."""
    verdicts: dict[Unit, Verdict] = field(default_factory=dict)
    manifests: dict[str, str] = field(default_factory=dict)
    """Accepted exclusions by namespace."""
    current: dict[str, str] = field(default_factory=dict)
    """The namespace that readers see, by source."""
    holders: dict[tuple[Unit, Role], str] = field(default_factory=dict)
    """Who holds the lock of a unit and role."""

    def source(self, name: str) -> SourceTable:
        """The log of a source. Raises InputError when it was not created."""
        table = self.sources.get(name)
        if table is None:
            raise InputError(
                f"source {shown(name)}", expected="a source that was created", found="none"
            )
        return table

    def source_partition(self, name: str, partition: int) -> SourcePartition:
        """One partition of a source. Raises InputError."""
        partitions = self.source(name).partitions
        if not 0 <= partition < len(partitions):
            raise no_such_partition(f"source {shown(name)}", len(partitions), partition)
        return partitions[partition]

    def namespace(self, name: str) -> NamespaceTable:
        """A namespace. Raises UnknownNamespace."""
        table = self.namespaces.get(name)
        if table is None:
            raise UnknownNamespace(name)
        return table

    def unit(self, unit: Unit) -> UnitTable:
        """What is committed of a unit. Raises UnknownNamespace, InputError."""
        units = self.namespace(unit.namespace).units
        if not 0 <= unit.partition < len(units):
            raise no_such_partition(f"namespace {unit.namespace}", len(units), unit.partition)
        return units[unit.partition]

    def output(self, unit: Unit) -> OutputTable:
        """The output log of a unit. Raises UnknownNamespace, InputError."""
        self.unit(unit)
        return self.outputs.setdefault(unit, OutputTable())


def no_such_partition(where: str, partitions: int, found: int) -> InputError:
    """The error for a partition that a source or namespace does not have."""
    expected = f"a partition from 0 to {partitions - 1}"
    return InputError(where, expected=expected, found=str(found))


def binding_of(config: NamespaceConfig, incarnation: str) -> SourceBinding:
    """What the first namespace over a source settles."""
    routes: dict[tuple[str, str], int] = {
        key.stock_key: key.partition
        for key in config.keys
        if key.partition != default_partition(key.stock_key, config.partitions)
    }
    return SourceBinding(config.source, incarnation, config.partitions, routes)


def check_binding(binding: SourceBinding, config: NamespaceConfig, incarnation: str) -> None:
    """Raise unless a later namespace agrees: ForeignIncarnation, ConfigurationError."""
    where = f"source {config.source}"
    if incarnation != binding.incarnation:
        raise ForeignIncarnation(
            where, expected=f"incarnation {binding.incarnation}", found=incarnation
        )
    if config.partitions != binding.partitions:
        expected = f"{binding.partitions} partitions, as its other namespaces have"
        raise ConfigurationError(where, expected=expected, found=str(config.partitions))
    for key in config.keys:
        route = binding.routes.get(key.stock_key)
        if route is None:
            route = default_partition(key.stock_key, binding.partitions)
        if key.partition != route:
            raise ConfigurationError(
                f"{where}, key {shown(key.stock_key.encoded)}",
                expected=f"partition {route}, where its other namespaces have it",
                found=f"partition {key.partition}",
            )
