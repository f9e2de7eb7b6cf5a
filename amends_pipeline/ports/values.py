"""What the roles of `ports` hand to each other: plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from amends_pipeline.inventory.authority import Authority, Observation
from amends_pipeline.inventory.envelope import Type
from amends_pipeline.inventory.envelope_columns import Envelopes
from amends_pipeline.inventory.slice import Rejection

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

OF_DAYS: Final = frozenset({Type.ALERT_RAISED, Type.BALANCE_STATED})
"""What readers see of a key and a day; the others of it are statuses."""


class Unit(NamedTuple):
    """A namespace and one partition of its source: what one owner works on at a time."""

    namespace: str
    partition: int

    def __str__(self) -> str:
        return f"{self.namespace}|p{self.partition}"


class Role(StrEnum):
    """The three who work on a unit, each with an owner and an epoch of its own."""

    WORKER = "worker"
    RELAY = "relay"
    VIEW = "view"


class Token(NamedTuple):
    """Proof of ownership in one role. It is worth nothing once a later epoch was claimed."""

    unit: Unit
    role: Role
    epoch: int
    digest: str
    """Digest of the namespace's configuration at the time of the claim."""


class Progress(NamedTuple):
    """Where the three roles of a unit stand. Frontiers are exclusive."""

    next_offset: int
    """Worker: first source offset not yet decided."""
    next_sequence: int
    """Worker: first outbox sequence not yet given."""
    acknowledged: int
    """Relay: first outbox sequence not yet acknowledged."""
    view_next: int
    """View: first output log offset not yet applied."""
    view_stop: str | None
    """Why the view stopped at `view_next`, if it did."""
    epochs: Mapping[Role, int]

    @property
    def pending(self) -> int:
        """How many outbox rows wait to be acknowledged."""
        return self.next_sequence - self.acknowledged


class Extent(NamedTuple):
    """What a log holds: offsets from `start` up to, and without, `end`."""

    start: int
    end: int


class SourceRecord(NamedTuple):
    """A record on its way into a source log."""

    partition: int
    raw_key: bytes | None
    value: bytes


class Segment(NamedTuple):
    """Consecutive rows of an outbox or an output log."""

    base: int
    """Sequence or offset of the first row."""
    envelopes: Envelopes

    @property
    def end(self) -> int:
        """Sequence or offset after the last row."""
        return self.base + len(self.envelopes)


class SourceBinding(NamedTuple):
    """What all namespaces over one source agree on."""

    source: str
    incarnation: str
    partitions: int
    routes: Mapping[tuple[str, str], int]
    """Explicit partitions by (item, location); any other key lies on its default partition."""


class NamespaceInfo(NamedTuple):
    """A provisioned namespace."""

    namespace: str
    source: str
    partitions: int
    digest: str
    incarnation: str
    """The source incarnation that the namespace was bound to."""
    first_offsets: tuple[int, ...]
    """For each partition, the source offset that the namespace starts from."""
    follows: bool
    """Whether the sensor asks for runs of its units."""


class DayColumns(NamedTuple):
    """Facts of keys and days that readers see, as columns of equal length, in any order."""

    keys: NDArray[np.int64]
    """Key numbers of the configuration."""
    days: NDArray[np.int64]
    """Days since 1970-01-01."""
    closes: NDArray[np.int64]


class UnitStanding(NamedTuple):
    """Where a unit stands between its two logs, and who is at it."""

    unit: Unit
    source: str
    follows: bool
    """Whether the sensor asks for runs of it."""
    bound: bool
    """Whether the source log is the one that the namespace was bound to."""
    extent: Extent | None
    """What the source log retains of the partition; None while there is no such log."""
    first_offset: int
    """The source offset that the unit starts from."""
    progress: Progress
    output_end: int
    holder: str | None
    """Who holds the lock of one of its roles at the moment."""

    @property
    def lag(self) -> int:
        """Source offsets that the worker has yet to pass."""
        return 0 if self.extent is None else max(0, self.extent.end - self.progress.next_offset)

    @property
    def behind(self) -> bool:
        """Whether a record is left to decide, or an envelope on its way to the readers."""
        return self.lag > 0 or self.on_its_way

    @property
    def on_its_way(self) -> bool:
        """Whether something that was decided has not reached the readers yet."""
        return self.progress.pending > 0 or self.progress.view_next < self.output_end


class SetAside(NamedTuple):
    """A record declared not to be part of the input."""

    offset: int
    reason: str


class Quarantined(NamedTuple):
    """A rejected record, kept byte for byte."""

    partition: int
    rejection: Rejection


class ConflictRef(NamedTuple):
    """A revision of a transaction that says two things, superseded or not."""

    item: str
    location: str
    txn_id: str
    revision: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """All accepted records of one key: what is in force, and what is not."""

    authorities: Sequence[tuple[str, Authority]]
    """(txn_id, authority), by txn_id as UTF-8 bytes."""
    observations: Sequence[Observation]
    """By offset."""
