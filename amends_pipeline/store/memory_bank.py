"""The live journal of the bank ledger in memory: the same promises as PostgreSQL's.

A stream has a lock of its own. What a block writes waits until the block ends well; a sequence or
a name that is taken is refused then, as the keys of the tables refuse it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Lock
from typing import Final

from amends_pipeline.bank.heads import KnownHead, Stream, empty_digest
from amends_pipeline.bank.posting import Asked, Facts
from amends_pipeline.bank.receipts import NO_RECEIPT, Receipt, Standing, stamped, with_receipt
from amends_pipeline.bank.values import Account, Group
from amends_pipeline.kernel.errors import DatabaseUnavailable
from amends_pipeline.ports.bank import CheckpointSet, KeptSet
from amends_pipeline.store import bank_refusals

STAMPED_AT_ONCE: Final = 10_000
"""Groups that get their receipts in one transaction, at most."""


def server_clock() -> str:
    """The present moment, cut to milliseconds."""
    now = datetime.now(UTC).replace(tzinfo=None)
    return f"{now.isoformat(timespec='milliseconds')}Z"


@dataclass
class StreamTable:
    """What is committed of one stream."""

    standing: Standing
    accounts: dict[str, Account] = field(default_factory=dict)
    groups: list[Group] = field(default_factory=list)
    """Without receipts."""
    receipts: list[Receipt] = field(default_factory=list)
    heads: set[KnownHead] = field(default_factory=set)
    checkpoints: dict[tuple[int, str, str], dict[str, int]] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)
    """Held by whoever posts, stamps or observes."""
    look: Lock = field(default_factory=Lock)
    """Held for a moment by who reads, and by who commits."""


@dataclass
class BankTables:
    """All streams, and the clock of the server."""

    clock: Callable[[], str] = server_clock
    streams: dict[str, StreamTable] = field(default_factory=dict)
    offered: dict[str, tuple[Stream, set[KnownHead]]] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)
    offering: Lock = field(default_factory=Lock)
    """Held by whoever accepts an offered export."""

    def of(self, stream_id: str) -> StreamTable:
        """Return what is kept of a stream. Raises UnknownStream."""
        with self.lock:
            table = self.streams.get(stream_id)
        if table is None:
            raise bank_refusals.unknown_stream(stream_id)
        return table


class MemoryBank:
    """A `BankJournal` over `BankTables`."""

    def __init__(self, tables: BankTables) -> None:
        self._tables = tables

    def open(self, stream: Stream, accounts: Sequence[Account]) -> bool:
        """Make the stream, or add accounts to the one that is there."""
        fresh = StreamTable(Standing(stream, 0, 0, None, None, None, empty_digest(stream)))
        with self._tables.lock:
            table = self._tables.streams.setdefault(stream.stream_id, fresh)
            try:
                with table.lock, table.look:
                    bank_refusals.check_stream(table.standing.stream, stream)
                    there = {each.account_id: each for each in accounts} | table.accounts
                    bank_refusals.check_accounts(list(there.values()), accounts)
                    table.accounts = there
            except BaseException:
                if table is fresh:
                    del self._tables.streams[stream.stream_id]
                raise
        return table is fresh

    def streams(self) -> Sequence[Standing]:
        """Where all streams stand, by name."""
        with self._tables.lock:
            tables = sorted(self._tables.streams.items())
        return [table.standing for _, table in tables]

    def standing(self, stream_id: str) -> Standing:
        """Where one stream stands."""
        return self._tables.of(stream_id).standing

    @contextmanager
    def locked(self, stream_id: str) -> Iterator[MemoryLockedStream]:
        """Hold the lock of a stream for a block."""
        table = self._tables.of(stream_id)
        with table.lock:
            stream = MemoryLockedStream(table, self._tables.clock)
            yield stream
            stream.commit()

    @contextmanager
    def snapshot(self, stream_id: str) -> Iterator[MemoryBankSnapshot]:
        """Look at a stream as it is when the block is entered."""
        yield MemoryBankSnapshot(self._tables.of(stream_id))

    @contextmanager
    def offering(self, stream: Stream) -> Iterator[MemoryOfferedStream]:
        """Hold the memory of a stream that is kept elsewhere for a block."""
        with self._tables.offering:
            there, heads = self._tables.offered.get(stream.stream_id, (stream, set()))
            bank_refusals.check_stream(there, stream)
            offered = MemoryOfferedStream(heads)
            yield offered
            if offered.remembered:
                self._tables.offered[stream.stream_id] = there, heads.union(offered.remembered)

    def keep_checkpoints(self, stream_id: str, checkpoints: CheckpointSet) -> None:
        """Register balances."""
        table = self._tables.of(stream_id)
        through, cutoff, provenance, balances = checkpoints
        with table.look:
            known = sum(account_id in table.accounts for account_id in balances)
            bank_refusals.check_kept(stream_id, expected=len(balances), found=known)
            kept = table.checkpoints.setdefault((through, cutoff, provenance), {})
            kept.update(balances)

    def checkpoints(self, stream_id: str) -> Sequence[KeptSet]:
        """All registered sets."""
        table = self._tables.of(stream_id)
        with table.look:
            return [KeptSet(*key, len(each)) for key, each in sorted(table.checkpoints.items())]

    def checkpoint_set(self, stream_id: str, kept: KeptSet) -> CheckpointSet:
        """The balances of a registered set."""
        table, key = self._tables.of(stream_id), kept[:3]
        with table.look:
            return CheckpointSet(*key, dict(sorted(table.checkpoints.get(key, {}).items())))


class MemoryLockedStream:
    """A `LockedStream` whose lock the caller holds."""

    def __init__(self, table: StreamTable, clock: Callable[[], str]) -> None:
        self._table = table
        self._clock = clock
        self._appended: list[Group] = []
        self._receipts: list[Receipt] = []
        self._heads: list[KnownHead] = []
        self._told: list[str] = []
        self.standing = table.standing

    def facts(self, asked: Asked) -> Facts:
        """Look up what is asked."""
        receipts = {each.last_sequence: each.available_at for each in self._table.receipts}
        groups = [
            with_receipt(group, receipts.get(int(group.journals[-1].sequence), NO_RECEIPT))
            for group in self._table.groups
            if _concerns(group, asked)
        ]
        moved = {
            leg.account_id
            for group in groups
            for journal in group.journals
            for leg in journal.command.legs
        }
        known, wanted = self._table.accounts, moved.union(asked.accounts)
        accounts = [known[each] for each in sorted(wanted) if each in known]
        return Facts(accounts, groups, (self._clock(), self._clock()))

    def unstamped(self) -> tuple[Sequence[Group], str]:
        """Committed groups without a receipt, or the first of them, and the clock."""
        first = len(self._table.receipts)
        return self._table.groups[first : first + STAMPED_AT_ONCE], self._clock()

    def append(self, group: Group) -> None:
        """Add the group that comes next."""
        self._appended.append(group)

    def stamp(self, receipts: Sequence[Receipt]) -> None:
        """Give receipts to the groups that come next."""
        self._receipts.extend(receipts)

    def remember(self, head: KnownHead) -> None:
        """Keep a head; every later receipt is after its observation."""
        self._heads.append(head)
        self.told(head.observed_at)

    def told(self, observed_at: str) -> None:
        """Let every later receipt be after a moment."""
        self._told.append(observed_at)

    def commit(self) -> None:
        """Install what was written, all or nothing."""
        table, standing = self._table, self.standing
        for group in self._appended:
            _check_next(table, standing, group)
            last = group.journals[-1]
            standing = standing._replace(
                last_sequence=int(last.sequence), recorded_at=last.recorded_at
            )
        standing = stamped(standing, self._receipts)
        if self._told:
            observed_at = max(*self._told, standing.observed_at or "")
            standing = standing._replace(observed_at=observed_at)
        with table.look:
            table.groups.extend(self._appended)
            table.receipts.extend(self._receipts)
            table.heads.update(self._heads)
            table.standing = standing


class MemoryOfferedStream:
    """An `OfferedStream` whose lock the caller holds."""

    def __init__(self, heads: set[KnownHead]) -> None:
        self._heads = heads
        self.remembered: list[KnownHead] = []

    def heads(self) -> Sequence[KnownHead]:
        """All accepted heads."""
        return sorted(self._heads)

    def remember(self, head: KnownHead) -> None:
        """Keep a head."""
        self.remembered.append(head)


class MemoryBankSnapshot:
    """A `BankSnapshot` of what was there when it was made."""

    def __init__(self, table: StreamTable) -> None:
        with table.look:
            self.standing = table.standing
            self._accounts = dict(table.accounts)
            self._heads = sorted(table.heads)
            self._receipts = list(table.receipts)
            self._groups = table.groups[: len(self._receipts)]

    def accounts(self) -> Sequence[Account]:
        """All of them by id."""
        return [account for _, account in sorted(self._accounts.items())]

    def heads(self) -> Sequence[KnownHead]:
        """All of them by sequence and observation."""
        return self._heads

    def last_head(self) -> KnownHead | None:
        """The last of them."""
        return self._heads[-1] if self._heads else None

    def groups(self, through: int, first: int = 1) -> Iterator[tuple[Group, bytes]]:
        """Groups with receipts in order."""
        for group, receipt in zip(self._groups, self._receipts, strict=True):
            if int(group.journals[0].sequence) >= first and receipt.last_sequence <= through:
                yield with_receipt(group, receipt.available_at), receipt.digest


def _concerns(group: Group, asked: Asked) -> bool:
    link = group.correction
    if link is not None and (
        link.correction_id == asked.correction or link.original_journal_id in asked.journals
    ):
        return True
    return any(
        each.command.journal_id in asked.journals
        or each.command.business_operation_id in asked.business_operations
        for each in group.journals
    )


def _check_next(table: StreamTable, standing: Standing, group: Group) -> None:
    """Raise DatabaseUnavailable for what the constraints of the tables refuse."""
    ids = [each.command.journal_id for each in group.journals]
    operations = [each.command.business_operation_id for each in group.journals]
    asked = Asked(journals=ids, business_operations=operations)
    if (
        int(group.journals[0].sequence) != standing.last_sequence + 1
        or any(_concerns(each, asked) for each in table.groups)
        or any(each.group_id == group.group_id for each in table.groups)
    ):
        where = f"stream {standing.stream.stream_id}"
        raise DatabaseUnavailable(where, expected="the next group", found="another")
