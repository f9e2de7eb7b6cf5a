"""The ledger store in memory: the same promises as PostgreSQL's, kept by one lock.

Every method checks all of its guards before it changes anything. It loads exactly the suffix of
days that was asked for, never more, so that a caller who needs more than it asked for is found
out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic

from amends_pipeline.inventory.assertions import Integers, Texts
from amends_pipeline.inventory.authority import Authority
from amends_pipeline.inventory.config import NamespaceConfig
from amends_pipeline.inventory.decision import Decision, Identity
from amends_pipeline.inventory.envelope import Envelope, OutputId
from amends_pipeline.inventory.identities import Found, found_among
from amends_pipeline.inventory.refold import KeyState
from amends_pipeline.inventory.view_batch import Moves
from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import (
    ConfigurationError,
    Fenced,
    FrontierMoved,
    Held,
    InputError,
    ProtocolStop,
)
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
from amends_pipeline.store.memory_keys import installed, suffix, untouched_of
from amends_pipeline.store.memory_snapshot import MemorySnapshot, standings
from amends_pipeline.store.memory_tables import (
    MemoryTables,
    NamespaceTable,
    UnitTable,
    binding_of,
    check_binding,
)


class MemoryStore:
    """A `LedgerStore` over `MemoryTables`."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

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
        tables = self._tables
        with tables.lock:
            there = tables.namespaces.get(config.namespace)
            if there is not None:
                if there.info.digest == config.digest:
                    return False
                raise ConfigurationError(
                    f"namespace {config.namespace}",
                    expected=f"the configuration {there.info.digest} that it was created with",
                    found=config.digest,
                )
            if len(first_offsets) != config.partitions:
                raise ConfigurationError(
                    f"namespace {config.namespace}",
                    expected=f"first offsets of {config.partitions} partitions",
                    found=str(len(first_offsets)),
                )
            binding = tables.bindings.get(config.source)
            if binding is None:
                tables.bindings[config.source] = binding_of(config, incarnation)
            else:
                check_binding(binding, config, incarnation)
            info = NamespaceInfo(
                config.namespace,
                config.source,
                config.partitions,
                config.digest,
                incarnation,
                tuple(first_offsets),
                follows,
            )
            units = [UnitTable(offset) for offset in first_offsets]
            tables.namespaces[config.namespace] = NamespaceTable(info, config, units)
            if follows:
                tables.current.setdefault(config.source, config.namespace)
            return True

    def source_binding(self, source: str) -> SourceBinding | None:
        """What the namespaces over a source agree on, or None when there is none."""
        with self._tables.lock:
            binding = self._tables.bindings.get(source)
        return binding and binding._replace(routes=dict(binding.routes))

    def namespaces(self) -> Sequence[NamespaceInfo]:
        """All namespaces by name."""
        with self._tables.lock:
            return [table.info for _, table in sorted(self._tables.namespaces.items())]

    def info(self, namespace: str) -> NamespaceInfo:
        """Return what was provisioned. Raises UnknownNamespace."""
        with self._tables.lock:
            return self._tables.namespace(namespace).info

    def config(self, namespace: str) -> NamespaceConfig:
        """Return the configuration. Raises UnknownNamespace."""
        with self._tables.lock:
            return self._tables.namespace(namespace).config

    # Ownership

    @contextmanager
    def hold(
        self,
        unit: Unit,
        role: Role,
        *,
        holder: str,
        wait_seconds: float | None = None,
        waiting: Callable[[str], None] | None = None,
    ) -> Iterator[Token]:
        """Take the lock of unit and role, then the next epoch."""
        tables = self._tables
        with tables.lock:
            tables.unit(unit)
            self._wait(unit, role, wait_seconds, waiting)
            tables.holders[unit, role] = holder
        try:
            yield self.claim(unit, role, holder=holder)
        finally:
            with tables.lock:
                del tables.holders[unit, role]
                tables.lock.notify_all()

    def _wait(
        self,
        unit: Unit,
        role: Role,
        wait_seconds: float | None,
        waiting: Callable[[str], None] | None,
    ) -> None:
        tables = self._tables
        deadline = None if wait_seconds is None else monotonic() + wait_seconds
        told = None
        while (by := tables.holders.get((unit, role))) is not None:
            left = None if deadline is None else deadline - monotonic()
            if left is not None and left <= 0:
                where = f"{role} of {unit}"
                raise Held(where, expected="its lock to be free", found=f"it held by {shown(by)}")
            if waiting is not None and told != by:
                waiting(by)
                told = by
            tables.lock.wait(left)

    def claim(self, unit: Unit, role: Role, *, holder: str) -> Token:
        """Take the next epoch without the lock."""
        with self._tables.lock:
            table = self._tables.unit(unit)
            table.epochs[role] += 1
            table.owners[role] = holder
            digest = self._tables.namespace(unit.namespace).info.digest
            return Token(unit, role, table.epochs[role], digest)

    def _owned(self, token: Token, role: Role) -> UnitTable:
        """The unit of a token that is good for `role`. Raises Fenced."""
        table = self._tables.unit(token.unit)
        where = f"{role} of {token.unit}"
        if token.role is not role:
            raise Fenced(where, expected=f"a token of the {role}", found=f"one of the {token.role}")
        digest = self._tables.namespace(token.unit.namespace).info.digest
        if token.digest != digest:
            raise Fenced(where, expected=f"configuration {token.digest}", found=digest)
        epoch = table.epochs[role]
        if token.epoch != epoch:
            owner = shown(table.owners.get(role, "nobody"))
            raise Fenced(where, expected=f"epoch {token.epoch}", found=f"{epoch} of {owner}")
        return table

    def progress(self, unit: Unit) -> Progress:
        """Where the roles of a unit stand."""
        with self._tables.lock:
            return self._tables.unit(unit).progress

    # Worker

    def set_asides(self, unit: Unit) -> Sequence[SetAside]:
        """Declared records by offset."""
        with self._tables.lock:
            return self._tables.unit(unit).listed_set_asides()

    def set_aside(self, unit: Unit, offset: int, reason: str) -> None:
        """Declare a record not part of the input, and fence the worker."""
        with self._tables.lock:
            table = self._tables.unit(unit)
            where = f"record {offset} of {unit}"
            before = table.set_asides.get(offset)
            if before == reason:
                return
            if before is not None:
                expected = f"the reason that it was set aside for, {shown(before)}"
                raise InputError(where, expected=expected, found=shown(reason))
            if offset < table.next_offset:
                expected = f"an offset from the frontier {table.next_offset} on"
                raise InputError(where, expected=expected, found=str(offset))
            table.set_asides[offset] = reason
            self.claim(unit, Role.WORKER, holder="set-aside")

    def authorities(
        self, unit: Unit, identities: Iterable[Identity]
    ) -> Mapping[Identity, Authority]:
        """Return what is in force of those identities that were seen before."""
        with self._tables.lock:
            known = self._tables.unit(unit).authorities
            found = {(key, txn_id): known.get(key, {}).get(txn_id) for key, txn_id in identities}
        return {identity: each for identity, each in found.items() if each is not None}

    def in_force(self, unit: Unit, keys: Integers, txn_ids: Texts) -> Found:
        """Find what is in force of those identities that were seen before."""
        asked = list(zip(keys.tolist(), txn_ids.to_pylist(), strict=True))
        return found_among(asked, self.authorities(unit, asked))

    def keys(self, unit: Unit, from_days: Mapping[int, int]) -> Mapping[int, KeyState]:
        """State of each key with exactly the rows from its given day on."""
        with self._tables.lock:
            config = self._tables.namespace(unit.namespace).config
            states = self._tables.unit(unit).keys
            return {
                key: suffix(states[key], day) if key in states else untouched_of(config, key)
                for key, day in from_days.items()
            }

    def commit(self, token: Token, decisions: Sequence[Decision]) -> None:
        """Install consecutive decisions, all or none."""
        with self._tables.lock:
            table = self._owned(token, Role.WORKER)
            offset, sequence = table.next_offset, table.next_sequence
            states: dict[int, KeyState] = {}
            config = self._tables.namespace(token.unit.namespace).config
            segments = []
            for decision in decisions:
                _expect_at(f"source offset of {token.unit}", offset, decision.start)
                _expect_at(f"outbox sequence of {token.unit}", sequence, decision.base_sequence)
                offset, sequence = decision.until, decision.next_sequence
                for key, change in decision.keys.items():
                    stored = states.get(key) or table.keys.get(key) or untouched_of(config, key)
                    states[key] = installed(stored, change)
                if decision.envelopes:
                    segments.append((decision.base_sequence, tuple(decision.envelopes)))
            # Nothing below this line can fail.
            table.keys.update(states)
            table.outbox += segments
            for decision in decisions:
                table.add_evidence(decision)
            table.next_offset, table.next_sequence = offset, sequence

    def commit_begun(
        self, token: Token, evidence: Decision, decided: Callable[[], Decision]
    ) -> None:
        """Install a decision whose evidence is known before the rest of it."""
        with self._tables.lock:
            table = self._owned(token, Role.WORKER)
            _expect_at(f"source offset of {token.unit}", table.next_offset, evidence.start)
        self.commit(token, [decided()])

    # Relay

    def pending(self, unit: Unit, limit: int) -> Sequence[Segment]:
        """Pending segments from the acknowledgement frontier on."""
        with self._tables.lock:
            return self._tables.unit(unit).pending(limit)

    def acknowledge(self, token: Token, base: int, count: int) -> None:
        """Move the acknowledgement frontier over the earliest pending rows."""
        with self._tables.lock:
            table = self._owned(token, Role.RELAY)
            _expect_at(f"earliest pending sequence of {token.unit}", table.acknowledged, base)
            waiting = table.next_sequence - table.acknowledged
            if not 0 <= count <= waiting:
                where = f"pending rows of {token.unit}"
                raise FrontierMoved(where, expected=f"at least {count}", found=str(waiting))
            table.acknowledged += count

    # View

    def view_rows(self, unit: Unit, outputs: Iterable[OutputId]) -> Mapping[OutputId, Envelope]:
        """Return what is stored of the given ids."""
        with self._tables.lock:
            view = self._tables.unit(unit).view
            return {output: view[output] for output in outputs if output in view}

    def commit_view(
        self,
        token: Token,
        start: int,
        until: int,
        rows: Mapping[OutputId, Envelope],
        stop: str | None,
    ) -> None:
        """Store rows and move the view frontier."""
        with self._tables.lock:
            table = self._viewed(token, start)
            table.view.update(rows)
            table.view_next, table.view_stop = until, stop

    def advance_view(self, token: Token, start: int, until: int, moves: Moves) -> bool:
        """Store rows and move the view frontier, unless something that is stored is in the way."""
        with self._tables.lock:
            table = self._viewed(token, start)
            if not moves.pass_over(table.view):
                return False
            table.view.update(moves.rows())
            table.view_next = until
            return True

    def _viewed(self, token: Token, start: int) -> UnitTable:
        """The unit of a token that may move its view on from `start`."""
        table = self._owned(token, Role.VIEW)
        if table.view_stop is not None:
            where = f"view of {token.unit}, output offset {table.view_next}"
            raise ProtocolStop(where, expected="no stop", found=table.view_stop)
        _expect_at(f"view frontier of {token.unit}", table.view_next, start)
        return table

    def reset_view(self, token: Token) -> None:
        """Forget the view's rows, its stop and its frontier."""
        with self._tables.lock:
            table = self._owned(token, Role.VIEW)
            table.view.clear()
            table.view_next, table.view_stop = 0, None

    # Reading

    def standing(self) -> Sequence[UnitStanding]:
        """Where every unit of every namespace stands."""
        return standings(self._tables)

    @contextmanager
    def snapshot(self, namespace: str) -> Iterator[Snapshot]:
        """Look at a namespace as it is when the block is entered."""
        yield MemorySnapshot(self._tables, namespace)

    def outbox(self, unit: Unit) -> Iterator[tuple[int, bool, Envelope]]:
        """(sequence, acknowledged, envelope) in order, as of now."""
        with self._tables.lock:
            table = self._tables.unit(unit)
            acknowledged, segments = table.acknowledged, table.outbox.copy()
        return (
            (sequence, sequence < acknowledged, envelope)
            for base, envelopes in segments
            for sequence, envelope in enumerate(envelopes, base)
        )

    def outbox_segments(self, unit: Unit) -> Sequence[tuple[int, int]]:
        """(base sequence, count) of every decision that published something."""
        with self._tables.lock:
            segments = self._tables.unit(unit).outbox
            return [(base, len(envelopes)) for base, envelopes in segments]

    def evidence(self, unit: Unit, key: int) -> Evidence:
        """All accepted records of one key."""
        with self._tables.lock:
            table = self._tables.unit(unit)
            authorities = list(table.authorities.get(key, {}).items())
            observations = list(table.observations.get(key, ()))
        # Code points sort as their UTF-8 bytes do.
        authorities.sort(key=lambda entry: entry[0])
        observations.sort(key=lambda observation: observation.offset)
        return Evidence(authorities, observations)


def _expect_at(where: str, frontier: int, given: int) -> None:
    if given != frontier:
        raise FrontierMoved(where, expected=f"{given}", found=f"{frontier}")
