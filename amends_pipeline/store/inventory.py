"""The ledger store in PostgreSQL: every method of the port, put together from its concerns.

namespaces.py  what was provisioned          ownership.py  locks, epochs, guards
evidence.py    accepted and rejected records  keys.py      heads and pages of stock keys
outbox.py      envelopes in order             view_rows.py what readers see
snapshot.py    one moment of a namespace     standing.py   where all units stand
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from amends_pipeline.inventory.authority import Authority
from amends_pipeline.inventory.config import NamespaceConfig
from amends_pipeline.inventory.decision import Decision, Identity
from amends_pipeline.inventory.envelope import Envelope, OutputId
from amends_pipeline.inventory.refold import KeyState
from amends_pipeline.inventory.view_batch import Moves
from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import FrontierMoved, InputError, ProtocolStop
from amends_pipeline.ports import (
    Evidence,
    NamespaceInfo,
    Progress,
    Role,
    Segment,
    SetAside,
    Snapshot,
    SourceBinding,
    Token,
    Unit,
    UnitStanding,
)
from amends_pipeline.store import outbox, view_moves, view_rows
from amends_pipeline.store.at_once import AtOnce
from amends_pipeline.store.evidence import EvidenceWrites, load_authorities, load_evidence
from amends_pipeline.store.keys import have_reasons, load_keys, save_keys
from amends_pipeline.store.namespaces import Namespaces
from amends_pipeline.store.ownership import CLAIM, LOCK_WORKER, Ownership, expect_at
from amends_pipeline.store.postgres import Database, Unmet
from amends_pipeline.store.snapshot import PostgresSnapshot, read_set_asides
from amends_pipeline.store.standing import read_standing

MOVE_WORKER: Final = """
UPDATE amends.worker_progress SET next_offset = %s, next_sequence = %s WHERE unit_id = %s
"""
MOVE_WORKER_FROM: Final = """
UPDATE amends.worker_progress SET next_offset = %s, next_sequence = %s
WHERE unit_id = %s AND epoch = %s AND next_offset = %s AND next_sequence = %s
"""
MOVE_RELAY: Final = "UPDATE amends.relay_progress SET acknowledged = %s WHERE unit_id = %s"
MOVE_VIEW: Final = """
UPDATE amends.view_progress SET view_next = %s, view_stop = %s WHERE unit_id = %s
"""
SELECT_NEXT_SEQUENCE: Final = "SELECT next_sequence FROM amends.worker_progress WHERE unit_id = %s"
SELECT_ACKNOWLEDGED: Final = "SELECT acknowledged FROM amends.relay_progress WHERE unit_id = %s"
INSERT_SET_ASIDE: Final = """
INSERT INTO amends.set_aside (unit_id, source_offset, reason) VALUES (%s, %s, %s)
"""

if TYPE_CHECKING:  # they bring a library along that only batches need
    from amends_pipeline.inventory.assertions import Integers, Texts
    from amends_pipeline.inventory.identities import Found
    from amends_pipeline.store.evidence_columns import ColumnWrites

    Writes = EvidenceWrites | ColumnWrites

FEW_IDENTITIES: Final = 16
"""Up to that many are looked up by the connection that commits, for that takes no time."""


class PostgresStore:
    """A `LedgerStore` in schema `amends`. Safe to use from several threads."""

    def __init__(self, database: Database, namespaces: Namespaces) -> None:
        self._database = database
        self._namespaces = namespaces
        self._ownership = Ownership(database, namespaces)

    # Namespaces

    def provision(
        self,
        config: NamespaceConfig,
        incarnation: str,
        first_offsets: Sequence[int],
        *,
        follows: bool,
    ) -> bool:
        """Create the namespace, unless it is there."""
        return self._namespaces.provision(config, incarnation, first_offsets, follows=follows)

    def source_binding(self, source: str) -> SourceBinding | None:
        """What the namespaces over a source agree on, or None when there is none."""
        return self._namespaces.binding(source)

    def namespaces(self) -> Sequence[NamespaceInfo]:
        """All namespaces by name."""
        return self._namespaces.all()

    def info(self, namespace: str) -> NamespaceInfo:
        """Return what was provisioned. Raises UnknownNamespace."""
        return self._namespaces.info(namespace)

    def config(self, namespace: str) -> NamespaceConfig:
        """Return the configuration. Raises UnknownNamespace."""
        return self._namespaces.config(namespace)

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
        """Take the lock of unit and role, then the next epoch."""
        return self._ownership.hold(
            unit, role, holder=holder, wait_seconds=wait_seconds, waiting=waiting
        )

    def claim(self, unit: Unit, role: Role, *, holder: str) -> Token:
        """Take the next epoch without the lock."""
        return self._ownership.claim(unit, role, holder=holder)

    def progress(self, unit: Unit) -> Progress:
        """Where the roles of a unit stand."""
        return self._ownership.progress(unit)

    # Worker

    def set_asides(self, unit: Unit) -> Sequence[SetAside]:
        """Declared records by offset."""
        unit_id = self._namespaces.unit_id(unit)
        with self._database.read() as connection:
            return read_set_asides(connection, unit_id)

    def set_aside(self, unit: Unit, offset: int, reason: str) -> None:
        """Declare a record not part of the input, and fence the worker."""
        unit_id = self._namespaces.unit_id(unit)
        where = f"record {offset} of {unit}"
        with self._database.write(LOCK_WORKER, (unit_id,)) as transaction:
            if not transaction.first:
                raise self._namespaces.missing(f"{Role.WORKER} of {unit}", unit, unit_id)
            _, _, next_offset, _ = transaction.first[0]
            declared = dict(read_set_asides(transaction.connection, unit_id))
            before = declared.get(offset)
            if before == reason:
                return
            if before is not None:
                expected = f"the reason that it was set aside for, {shown(before)}"
                raise InputError(where, expected=expected, found=shown(reason))
            if offset < next_offset:
                expected = f"an offset from the frontier {next_offset} on"
                raise InputError(where, expected=expected, found=str(offset))
            transaction.execute(INSERT_SET_ASIDE, (unit_id, offset, reason))
            transaction.execute(CLAIM[Role.WORKER], ("set-aside", unit_id))

    def authorities(
        self, unit: Unit, identities: Iterable[Identity]
    ) -> Mapping[Identity, Authority]:
        """Return what is in force of those identities that were seen before."""
        asked = list(identities)
        load = partial(load_authorities, unit_id=self._namespaces.unit_id(unit), identities=asked)
        if len(asked) <= FEW_IDENTITIES:
            return self._ownership.read(unit, load)
        with self._database.read() as connection:
            return load(connection)

    def in_force(self, unit: Unit, keys: Integers, txn_ids: Texts) -> Found:
        """Find what is in force of those identities that were seen before."""
        # Only batches are read as columns, and only they pay for the library that does so.
        from amends_pipeline.store import evidence_columns  # noqa: PLC0415 - as said above

        unit_id = self._namespaces.unit_id(unit)
        with self._database.read() as connection:
            return evidence_columns.find(connection, unit_id, keys, txn_ids)

    def keys(self, unit: Unit, from_days: Mapping[int, int]) -> Mapping[int, KeyState]:
        """State of each key with at least the rows from its given day on."""
        unit_id = self._namespaces.unit_id(unit)
        config = self._namespaces.config_of(unit)
        with self._database.read() as connection:
            return load_keys(connection, unit_id, config, from_days)

    def commit(self, token: Token, decisions: Sequence[Decision]) -> None:
        """Install consecutive decisions, all or none."""
        evidence = _evidence(decisions)
        if decisions and not evidence.many and not have_reasons(decisions):
            # One round trip. Where the row is not as expected, the other way says why.
            with suppress(Unmet):
                self._commit_at_once(token, decisions, evidence)
                return
        self._commit(token, decisions, evidence, lambda: decisions)

    def commit_begun(
        self, token: Token, evidence: Decision, decided: Callable[[], Decision]
    ) -> None:
        """Install a decision whose evidence is known before the rest of it."""
        self._commit(token, [evidence], _evidence([evidence]), lambda: [decided()])

    def _commit(
        self,
        token: Token,
        begun: Sequence[Decision],
        evidence: Writes,
        decided: Callable[[], Sequence[Decision]],
    ) -> None:
        """Install decisions; of those that were begun only the evidence is looked at."""
        with self._ownership.owning(token, Role.WORKER) as (transaction, unit_id, frontier):
            if not begun:
                return
            _follow(token.unit, frontier, begun)
            connection = transaction.connection
            if evidence.many:
                evidence.copy(connection, unit_id)
            decisions = decided()
            offset, sequence = _follow(token.unit, frontier, decisions)
            with connection.pipeline():
                if not evidence.many:
                    evidence.save(connection, unit_id)
                save_keys(connection, unit_id, decisions)
                outbox.save(connection, unit_id, decisions)
                transaction.execute(MOVE_WORKER, (offset, sequence, unit_id))
                transaction.commit()

    def _commit_at_once(
        self, token: Token, decisions: Sequence[Decision], evidence: Writes
    ) -> None:
        first = decisions[0]
        frontier = (first.start, first.base_sequence)
        offset, sequence = _follow(token.unit, frontier, decisions)
        with self._ownership.speaking(token, Role.WORKER) as (connection, unit_id):
            moved = (offset, sequence, unit_id, token.epoch, *frontier)
            writes = AtOnce(MOVE_WORKER_FROM, moved)
            evidence.save(writes, unit_id)
            save_keys(writes, unit_id, decisions)
            outbox.save(writes, unit_id, decisions)
            writes.run(connection)

    # Relay

    def pending(self, unit: Unit, limit: int) -> Sequence[Segment]:
        """Pending rows from the acknowledgement frontier on, at most `limit` of them, or one."""
        unit_id = self._namespaces.unit_id(unit)
        with self._database.read() as connection:
            return outbox.pending(connection, unit, unit_id, limit)

    def acknowledge(self, token: Token, base: int, count: int) -> None:
        """Move the acknowledgement frontier over the earliest pending rows."""
        with self._ownership.owning(token, Role.RELAY) as (transaction, unit_id, (acknowledged,)):
            where = f"earliest pending sequence of {token.unit}"
            expect_at(where, expected=base, found=acknowledged)
            ((sequence,),) = transaction.execute(SELECT_NEXT_SEQUENCE, (unit_id,))
            if not 0 <= count <= sequence - acknowledged:
                where = f"pending rows of {token.unit}"
                found = str(sequence - acknowledged)
                raise FrontierMoved(where, expected=f"at least {count}", found=found)
            transaction.execute(MOVE_RELAY, (acknowledged + count, unit_id))

    # View

    def view_rows(self, unit: Unit, outputs: Iterable[OutputId]) -> Mapping[OutputId, Envelope]:
        """Return what is stored of the given ids."""
        unit_id = self._namespaces.unit_id(unit)
        with self._database.read() as connection:
            return view_rows.load_rows(connection, unit_id, outputs)

    def commit_view(
        self,
        token: Token,
        start: int,
        until: int,
        rows: Mapping[OutputId, Envelope],
        stop: str | None,
    ) -> None:
        """Store rows and move the view frontier."""
        with self._ownership.owning(token, Role.VIEW) as (transaction, unit_id, frontier):
            _expect_view(token.unit, start, frontier)
            writes = view_rows.ViewWrites(rows)
            writes.copy(transaction.connection, unit_id)
            with transaction.connection.pipeline():
                writes.save(transaction.connection, unit_id)
                transaction.execute(MOVE_VIEW, (until, stop, unit_id))
                transaction.commit()

    def advance_view(self, token: Token, start: int, until: int, moves: Moves) -> bool:
        """Store rows and move the view frontier, unless something that is stored is in the way."""
        with (
            suppress(Unmet),
            self._ownership.owning(token, Role.VIEW) as (transaction, unit_id, frontier),
        ):
            _expect_view(token.unit, start, frontier)
            view_moves.save(transaction.connection, unit_id, moves)
            with transaction.connection.pipeline():
                view_moves.save_reasons(transaction.connection, unit_id, moves)
                transaction.execute(MOVE_VIEW, (until, None, unit_id))
                transaction.commit()
            return True
        return False

    def reset_view(self, token: Token) -> None:
        """Forget the view's rows, its stop and its frontier."""
        with self._ownership.owning(token, Role.VIEW) as (transaction, unit_id, _):
            transaction.execute(view_rows.DELETE_ROWS, (unit_id,))
            transaction.execute(MOVE_VIEW, (0, None, unit_id))

    # Reading

    def standing(self) -> Sequence[UnitStanding]:
        """Where every unit of every namespace stands."""
        with self._database.snapshot() as connection:
            return read_standing(connection)

    @contextmanager
    def _snapshot(self, namespace: str) -> Iterator[Snapshot]:
        home = self._namespaces.fresh(namespace)
        with self._database.snapshot() as connection:
            yield PostgresSnapshot(connection, home)

    def snapshot(self, namespace: str) -> AbstractContextManager[Snapshot]:
        """Look at a namespace as it is when the block is entered."""
        return self._snapshot(namespace)

    def outbox(self, unit: Unit) -> Iterator[tuple[int, bool, Envelope]]:
        """(sequence, acknowledged, envelope) in order, as of the first row read."""
        unit_id = self._namespaces.unit_id(unit)
        with self._database.snapshot() as connection:
            row = connection.execute(SELECT_ACKNOWLEDGED, (unit_id,)).fetchone()
            if row is None:
                raise self._namespaces.missing(f"{Role.RELAY} of {unit}", unit, unit_id)
            for segment in outbox.read(connection, unit, unit_id):
                for sequence, envelope in enumerate(segment.envelopes, segment.base):
                    yield sequence, sequence < row[0], envelope

    def outbox_segments(self, unit: Unit) -> Sequence[tuple[int, int]]:
        """(base sequence, count) of every stored segment."""
        unit_id = self._namespaces.unit_id(unit)
        with self._database.snapshot() as connection:
            return outbox.extents(connection, unit_id)

    def evidence(self, unit: Unit, key: int) -> Evidence:
        """All accepted records of one key."""
        unit_id = self._namespaces.unit_id(unit)
        with self._database.snapshot() as connection:
            return load_evidence(connection, unit_id, key)


def _evidence(decisions: Sequence[Decision]) -> Writes:
    if all(isinstance(each.authorities, dict) for each in decisions):
        return EvidenceWrites(decisions)
    from amends_pipeline.store import evidence_columns  # noqa: PLC0415 - as `in_force`

    return evidence_columns.writes(decisions)


def _follow(unit: Unit, frontier: Sequence[int], decisions: Sequence[Decision]) -> tuple[int, int]:
    """The frontier after `decisions`, each of which must begin where the one before it ended."""
    offset, sequence = frontier
    for decision in decisions:
        expect_at(f"source offset of {unit}", expected=decision.start, found=offset)
        where = f"outbox sequence of {unit}"
        expect_at(where, expected=decision.base_sequence, found=sequence)
        offset, sequence = decision.until, decision.next_sequence
    return offset, sequence


def _expect_view(unit: Unit, start: int, frontier: Sequence[Any]) -> None:
    at, stopped = frontier
    if stopped is not None:
        where = f"view of {unit}, output offset {at}"
        raise ProtocolStop(where, expected="no stop", found=stopped)
    expect_at(f"view frontier of {unit}", expected=start, found=at)
