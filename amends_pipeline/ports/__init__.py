"""What a source, a store and an output log must do, whatever they are made of.

Flows are written against these roles alone; `amends_pipeline_tests/contracts` holds every
implementation to the same cases. All of them raise `AmendsError`s and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from amends_pipeline.inventory.authority import Authority
from amends_pipeline.inventory.config import NamespaceConfig
from amends_pipeline.inventory.decision import Decision, Identity
from amends_pipeline.inventory.envelope import VISIBLE, Envelope, OutputId, Type
from amends_pipeline.inventory.refold import KeyState
from amends_pipeline.inventory.slice import Records
from amends_pipeline.inventory.view_batch import Moves
from amends_pipeline.ports.bank import BankJournal
from amends_pipeline.ports.logs import OutputLog, SourceLog
from amends_pipeline.ports.operations import Counted, Landed, Operations, Verdict
from amends_pipeline.ports.values import (
    OF_DAYS,
    ConflictRef,
    DayColumns,
    Evidence,
    Extent,
    NamespaceInfo,
    Progress,
    Quarantined,
    Role,
    Segment,
    SetAside,
    SourceBinding,
    SourceRecord,
    Token,
    Unit,
    UnitStanding,
)

if TYPE_CHECKING:  # they bring a library along that only batches need
    from amends_pipeline.inventory.assertions import Integers, Texts
    from amends_pipeline.inventory.identities import Found

__all__ = [
    "OF_DAYS",
    "BankJournal",
    "ConflictRef",
    "Counted",
    "DayColumns",
    "Evidence",
    "Extent",
    "Landed",
    "Ledger",
    "LedgerStore",
    "NamespaceInfo",
    "Operations",
    "OutputLog",
    "Progress",
    "Quarantined",
    "Role",
    "Segment",
    "SetAside",
    "Snapshot",
    "SourceBinding",
    "SourceLog",
    "SourceRecord",
    "Token",
    "Unit",
    "UnitStanding",
    "Verdict",
]


class Snapshot(Protocol):
    """One consistent look at a namespace, all from one moment."""

    def info(self) -> NamespaceInfo:
        """What was provisioned."""
        ...

    def config(self) -> NamespaceConfig:
        """The configuration that was provisioned.

        Raises DatabaseUnavailable when another one is stored now.
        """
        ...

    def config_as_stored(self) -> NamespaceConfig:
        """The configuration that is there now, whatever was provisioned."""
        ...

    def source_incarnation(self) -> str:
        """The id of the source log that is there now, whatever the namespace was bound to."""
        ...

    def source_extents(self) -> Sequence[Extent]:
        """What the source retains, by partition."""
        ...

    def output_ends(self) -> Sequence[int]:
        """The output log's ends, by partition."""
        ...

    def progress(self) -> Sequence[Progress]:
        """Where the roles stand, by partition."""
        ...

    def records(self, partition: int, start: int, until: int) -> Iterator[Records]:
        """Raw source records, in runs of a convenient size."""
        ...

    def set_asides(self, partition: int) -> Sequence[SetAside]:
        """Declared records by offset."""
        ...

    def visible(self, types: Iterable[Type] = VISIBLE) -> Iterator[Envelope]:
        """The rows that readers see, or those of some types, in the order of their encoded ids."""
        ...

    def visible_days(self) -> Mapping[Type, DayColumns]:
        """The alerts and balances among them, each as columns without a cause."""
        ...

    def quarantine(self) -> Iterator[Quarantined]:
        """By partition and offset."""
        ...

    def conflicts(self) -> Iterator[ConflictRef]:
        """All conflicts in stored evidence, superseded ones too, in key and identity order."""
        ...


class LedgerStore(Protocol):
    """State of the inventory ledger. Every method is one transaction unless it says otherwise.

    Methods that take a unit raise UnknownNamespace, or InputError for a partition that the
    namespace does not have. Nothing handed in or out is shared with the store.
    """

    # Namespaces

    def provision(
        self,
        config: NamespaceConfig,
        incarnation: str,
        first_offsets: Sequence[int],
        *,
        follows: bool,
    ) -> bool:
        """Create the namespace. False when the same digest is there already.

        Raises ConfigurationError when another digest lives under the name, or when the source's
        partition count or routes disagree; ForeignIncarnation when the source has another
        incarnation than its other namespaces were bound to. The first namespace over a source
        settles its routes; later ones add none.
        """
        ...

    def source_binding(self, source: str) -> SourceBinding | None:
        """What the namespaces over a source agree on; None while there is none."""
        ...

    def namespaces(self) -> Sequence[NamespaceInfo]:
        """All of them, by name."""
        ...

    def info(self, namespace: str) -> NamespaceInfo:
        """Raises UnknownNamespace."""
        ...

    def config(self, namespace: str) -> NamespaceConfig:
        """Raises UnknownNamespace."""
        ...

    # Ownership

    def hold(
        self,
        unit: Unit,
        role: Role,
        *,
        holder: str,
        wait_seconds: float | None = None,
        waiting: Callable[[str], None] | None = None,
    ) -> AbstractContextManager[Token]:
        """Take the lock of unit and role, then the next epoch, for the length of the block.

        Waits up to `wait_seconds` (None: as long as it takes), telling `waiting` who holds it;
        then raises Held.
        """
        ...

    def claim(self, unit: Unit, role: Role, *, holder: str) -> Token:
        """Take the next epoch without the lock, as a replacement owner does."""
        ...

    def progress(self, unit: Unit) -> Progress:
        """Where the roles of a unit stand."""
        ...

    # Worker

    def set_asides(self, unit: Unit) -> Sequence[SetAside]:
        """Declared records by offset."""
        ...

    def set_aside(self, unit: Unit, offset: int, reason: str) -> None:
        """Declare the record at `offset` not part of the input.

        Takes the worker's next epoch too: a worker that is deciding may have read the record as
        input already, and must not commit that. Raises InputError when the frontier has passed the
        record, or when it was set aside for another reason. Repeating it with the same reason
        changes nothing, the epoch included.
        """
        ...

    def authorities(
        self, unit: Unit, identities: Iterable[Identity]
    ) -> Mapping[Identity, Authority]:
        """The authorities of those identities that were seen before."""
        ...

    def in_force(self, unit: Unit, keys: Integers, txn_ids: Texts) -> Found:
        """What `authorities` says of the identities of these columns, as columns."""
        ...

    def keys(self, unit: Unit, from_days: Mapping[int, int]) -> Mapping[int, KeyState]:
        """State of each key, its rows loaded at least from the given day on.

        EVERY_DAY loads the key whole. A key that was never touched has its untouched state.
        """
        ...

    def commit(self, token: Token, decisions: Sequence[Decision]) -> None:
        """Install consecutive decisions, all or none, and move the frontier.

        Of each key's rows those in `changed` are stored, over what stood at their days. All others
        are stored already, as they are and entered with the close that they are; none disappears.

        Raises Fenced when epoch or digest are no longer the token's or its role is another one,
        FrontierMoved when offset or sequence are not where the decisions start or the decisions do
        not follow one another, OutcomeUnknown when no reply came.
        """
        ...

    def commit_begun(
        self, token: Token, evidence: Decision, decided: Callable[[], Decision]
    ) -> None:
        """Install one decision as `commit` does, of which the evidence is known before the rest.

        `evidence` is the decision without keys and envelopes; `decided` waits for the whole of it.
        What `decided` raises is raised, and nothing is installed then.
        """
        ...

    # Relay

    def pending(self, unit: Unit, limit: int) -> Sequence[Segment]:
        """The earliest pending rows, whole segments, up to about `limit` rows and at least one.

        The first one starts exactly at the acknowledgement frontier, even inside a decision.
        """
        ...

    def acknowledge(self, token: Token, base: int, count: int) -> None:
        """Move the acknowledgement frontier over the earliest `count` pending rows.

        Raises as `commit`; FrontierMoved also when there are not so many.
        """
        ...

    # View

    def view_rows(self, unit: Unit, outputs: Iterable[OutputId]) -> Mapping[OutputId, Envelope]:
        """What is stored of the given ids, withdrawals too."""
        ...

    def commit_view(
        self,
        token: Token,
        start: int,
        until: int,
        rows: Mapping[OutputId, Envelope],
        stop: str | None,
    ) -> None:
        """Store rows and move the view frontier from `start` to `until`. Raises as `commit`.

        `stop` records why the view goes no further: until it is reset, ProtocolStop is raised.
        """
        ...

    def advance_view(self, token: Token, start: int, until: int, moves: Moves) -> bool:
        """Do as `commit_view` with these rows, if every one of them moves on from what is stored.

        False when that is not so, or cannot be told by the way: then nothing was done. Raises as
        `commit`, and ProtocolStop while a stop is recorded.
        """
        ...

    def reset_view(self, token: Token) -> None:
        """Forget the view's rows, its stop and its frontier, to make them anew.

        Raises as `commit`.
        """
        ...

    # Reading

    def standing(self) -> Sequence[UnitStanding]:
        """Where every unit of every namespace stands, by namespace and partition, at one moment.

        Cheap enough to be asked again and again; gives up after a few seconds.
        """
        ...

    def snapshot(self, namespace: str) -> AbstractContextManager[Snapshot]:
        """Look at a namespace as it is when the block is entered. Raises UnknownNamespace."""
        ...

    def outbox(self, unit: Unit) -> Iterator[tuple[int, bool, Envelope]]:
        """(sequence, acknowledged, envelope) in order."""
        ...

    def outbox_segments(self, unit: Unit) -> Sequence[tuple[int, int]]:
        """(base sequence, count) of every stored run of outbox rows, by base.

        Cheaper than `outbox`: the envelopes themselves are not read.
        """
        ...

    def evidence(self, unit: Unit, key: int) -> Evidence:
        """All accepted records of one key."""
        ...


class Ledger(Protocol):
    """A store with the logs on both sides of it."""

    @property
    def store(self) -> LedgerStore:
        """The state between the logs."""
        ...

    @property
    def outputs(self) -> OutputLog:
        """The log of what was published."""
        ...

    @property
    def operations(self) -> Operations:
        """What people and automation keep beside it."""
        ...

    @property
    def bank(self) -> BankJournal:
        """The live journals of the bank ledger, which lie in the same place."""
        ...

    def source(self, name: str) -> SourceLog:
        """The log of a source, whether it was created yet or not."""
        ...
