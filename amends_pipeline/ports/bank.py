"""What keeps a live journal of the bank ledger, whatever it is made of.

Accounts and groups are the values of an export. A group without a receipt has NO_RECEIPT as its
`available_at`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from amends_pipeline.bank.heads import KnownHead, Stream
from amends_pipeline.bank.posting import Asked, Facts
from amends_pipeline.bank.receipts import Receipt, Standing
from amends_pipeline.bank.values import Account, Group


class CheckpointSet(NamedTuple):
    """Balances at one cutoff after one prefix of a stream, which all of them share."""

    through_sequence: int
    effective_cutoff: str
    provenance_ref: str
    raw_balances: Mapping[str, int]
    """By account id."""


class KeptSet(NamedTuple):
    """A registered set of checkpoints, without its balances."""

    through_sequence: int
    effective_cutoff: str
    provenance_ref: str
    accounts: int
    """How many balances it holds."""


class LockedStream(Protocol):
    """A stream while nobody else posts, stamps or observes, from the first look at it on."""

    @property
    def standing(self) -> Standing:
        """As it was when the lock was taken."""
        ...

    def facts(self, asked: Asked) -> Facts:
        """Look up what is asked."""
        ...

    def unstamped(self) -> tuple[Sequence[Group], str]:
        """Committed groups without a receipt, in order, and the clock after they were read.

        The first of them where there are many, so that they fit into memory; never none of some.
        """
        ...

    def append(self, group: Group) -> None:
        """Add the group that comes next. It is committed with the end of the block."""
        ...

    def stamp(self, receipts: Sequence[Receipt]) -> None:
        """Give receipts to the groups that come next."""
        ...

    def remember(self, head: KnownHead) -> None:
        """Keep a head that is handed out; once more is no change."""
        ...

    def told(self, observed_at: str) -> None:
        """Let every later receipt be after a moment that somebody was told of."""
        ...


class OfferedStream(Protocol):
    """What is remembered of a stream that is kept elsewhere, while nobody else accepts of it."""

    def heads(self) -> Sequence[KnownHead]:
        """All accepted heads, by sequence and observation."""
        ...

    def remember(self, head: KnownHead) -> None:
        """Keep a head; once more is no change."""
        ...


class BankSnapshot(Protocol):
    """One consistent look at a stream, all from one moment."""

    standing: Standing

    def accounts(self) -> Sequence[Account]:
        """All of them by id."""
        ...

    def heads(self) -> Sequence[KnownHead]:
        """All of them by sequence and observation."""
        ...

    def last_head(self) -> KnownHead | None:
        """The last of them; None while there is none."""
        ...

    def groups(self, through: int, first: int = 1) -> Iterator[tuple[Group, bytes]]:
        """Groups with receipts from sequence `first` to `through`, each with its prefix's digest.

        They come in order as they are read, so that no more than a few are in memory.
        """
        ...


class BankJournal(Protocol):
    """Streams of committed groups. Every method is one transaction.

    Methods that take the name of a stream raise UnknownStream.
    """

    def open(self, stream: Stream, accounts: Sequence[Account]) -> bool:
        """Make the stream, or add accounts to the one that is there. False when it was there.

        accounts: valid ones of the stream's own scope. Raises InputError when the stream has
        another ledger or entity, or one of the accounts another definition.
        """
        ...

    def streams(self) -> Sequence[Standing]:
        """Where all streams stand, by name."""
        ...

    def standing(self, stream_id: str) -> Standing:
        """Where one stream stands."""
        ...

    def locked(self, stream_id: str) -> AbstractContextManager[LockedStream]:
        """Hold the lock of a stream for a block; what was written is committed at its end.

        Nothing is, when the block raises. Raises OutcomeUnknown when no reply to the commit came,
        Contended when the database chose to end this transaction for another one.
        """
        ...

    def snapshot(self, stream_id: str) -> AbstractContextManager[BankSnapshot]:
        """Look at a stream as it is when the block is entered."""
        ...

    def offering(self, stream: Stream) -> AbstractContextManager[OfferedStream]:
        """Hold the memory of a stream that is kept elsewhere for a block, as `locked` does.

        Raises InputError when its accepted heads are of another ledger or entity.
        """
        ...

    def keep_checkpoints(self, stream_id: str, checkpoints: CheckpointSet) -> None:
        """Register balances; those that are registered already are replaced."""
        ...

    def checkpoints(self, stream_id: str) -> Sequence[KeptSet]:
        """All registered sets, by sequence, cutoff and provenance."""
        ...

    def checkpoint_set(self, stream_id: str, kept: KeptSet) -> CheckpointSet:
        """The balances of a registered set; none where it is not registered."""
        ...
