"""The same operations on both ledgers, in any order: the same results, the same errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from amends_pipeline.flows import ingest
from amends_pipeline.flows.accept import accept
from amends_pipeline.flows.append import Line, append
from amends_pipeline.flows.drain import Options, ingest_unit, project_unit, relay_unit
from amends_pipeline.flows.explain import explain
from amends_pipeline.flows.project import reproject
from amends_pipeline.flows.provision import provision
from amends_pipeline.flows.rebuild import rebuild
from amends_pipeline.flows.set_aside import set_aside
from amends_pipeline.flows.status import status
from amends_pipeline.flows.verify import verify
from amends_pipeline.inventory.config import StockKey, parse_configuration
from amends_pipeline.inventory.verify import Manifest
from amends_pipeline.kernel.errors import AmendsError
from amends_pipeline.ports import Counted, Role, SourceRecord, Token, Unit
from amends_pipeline.sources import table
from amends_pipeline.store.memory_tables import MemoryTables
from amends_pipeline_tests.contracts.bench import SOURCE, Bench, decision
from amends_pipeline_tests.contracts.ledgers import MemoryLedger
from amends_pipeline_tests.store.postgres_ledger import TestedLedger
from amends_pipeline_tests.strategies import histories
from amends_pipeline_tests.tables import STOCK_KEYS, configuration, day

DOCUMENT = configuration(partitions=2)
DOCUMENT["keys"][1]["partition"] = 1
MORE_KEYS = configuration(partitions=2, keys="abc")
MORE_KEYS["keys"][1]["partition"] = 1
DOCUMENTS = [
    DOCUMENT,
    DOCUMENT,
    MORE_KEYS,
    DOCUMENT | {"origin": "2026-01-02T00:00:00Z"},
    configuration(partitions=3),
    configuration(partitions=2, keys="b"),
]
NAMESPACES = st.sampled_from(["main", "main", "main", "other"])
PARTITIONS = st.sampled_from([0, 0, 0, 1, 1, 2])
UNITS = st.builds(Unit, NAMESPACES, PARTITIONS)
ROLES = st.sampled_from(Role)
OFFSETS = st.integers(-1, 12)


@dataclass
class Side:
    """A ledger, and the tokens that were taken of it."""

    ledger: Any
    tokens: list[Token] = field(default_factory=list)

    def config(self, namespace: str):
        return self.ledger.store.config(namespace)

    def claim(self, unit: Unit, role: Role) -> Token:
        token = self.ledger.store.claim(unit, role, holder="somebody")
        self.tokens.append(token)
        return token

    def observed(self) -> dict[str, Any]:
        """Everything that can be seen, but how outbox rows are kept together."""
        store, seen = self.ledger.store, {}
        for info in store.namespaces():
            seen[info.namespace] = Bench(self.ledger, store.config(info.namespace)).observed()
            for partition in range(info.partitions):
                unit = str(Unit(info.namespace, partition))
                del seen[info.namespace][unit]["segments"]
        return {**seen, "standing": store.standing()}


class SideBySide(RuleBasedStateMachine):
    """Whatever is done to one ledger is done to the other."""

    url: str

    def __init__(self) -> None:
        super().__init__()
        tables = TestedLedger(self.url)
        self.fake = mock.patch.object(table.secrets, "token_hex", self._incarnation)
        self.fake.start()
        self.sides = Side(MemoryLedger(MemoryTables(self._incarnation))), Side(tables)
        self.steps = self.logs = 0
        self.both(lambda side: provision(side.ledger, parse_configuration(DOCUMENT)))

    def _incarnation(self, _: int = 0) -> str:
        """What both ledgers give to the same log."""
        return f"incarnation-{self.logs}"

    def teardown(self) -> None:
        self.fake.stop()
        tables = self.sides[1].ledger
        tables.empty()
        tables.close()

    def both(self, act: Callable[[Side], Any]) -> Any:
        """Do something on both sides, hold what comes of it together, and return it."""
        came = [self._tried(act, side) for side in self.sides]
        assert came[0] == came[1]
        assert self.sides[0].observed() == self.sides[1].observed()
        self.steps += 1
        return came[0]

    @staticmethod
    def _tried(act: Callable[[Side], Any], side: Side) -> Any:
        try:
            return act(side)
        except AmendsError as error:
            return type(error).__name__, str(error)

    # Namespaces

    @rule(namespace=NAMESPACES, document=st.sampled_from(DOCUMENTS), follows=st.booleans())
    def provision(self, namespace, document, follows):
        config = parse_configuration(document | {"namespace": namespace})
        self.both(lambda side: provision(side.ledger, config, follows=follows))

    @rule(more=st.booleans())
    def rebuild(self, more):
        config = parse_configuration(MORE_KEYS) if more else None
        self.both(lambda side: rebuild(side.ledger, "other", "main", config))

    @rule(namespace=NAMESPACES, follows=st.booleans())
    def follow(self, namespace, follows):
        self.both(lambda side: side.ledger.operations.follow(namespace, follows=follows))

    @rule()
    def remove(self):
        self.both(lambda side: side.ledger.operations.remove("other"))

    # The source

    @rule(partition=PARTITIONS, data=st.data())
    def append(self, partition, data):
        lines = data.draw(histories(DOCUMENT, max_size=8))
        records = [SourceRecord(partition, line.raw_key, line.value) for line in lines]
        self.both(lambda side: side.ledger.source(SOURCE).append(records))

    @rule(namespace=NAMESPACES, partition=PARTITIONS, data=st.data())
    def append_lines(self, namespace, partition, data):
        drawn = data.draw(histories(DOCUMENT, max_size=8))
        lines = [Line("file", number, line.value) for number, line in enumerate(drawn, 1)]
        self.both(
            lambda side: append(side.ledger, namespace, lines, undecodable_partition=partition)
        )

    @rule(partition=st.integers(0, 1), count=st.integers(0, 3))
    def skip_offsets(self, partition, count):
        self.both(lambda side: side.ledger.skip(SOURCE, partition, count))

    @precondition(lambda self: self.steps > 20)
    @rule(partition=st.integers(0, 1), before=OFFSETS)
    def forget(self, partition, before):
        self.both(lambda side: side.ledger.forget(SOURCE, partition, before))

    @precondition(lambda self: self.steps > 25 and self.logs == 0)
    @rule()
    def recreate(self):
        self.logs += 1
        self.both(lambda side: side.ledger.recreate(SOURCE))

    # The three roles

    @rule(unit=UNITS, size=st.sampled_from([1, 2, 5]), commit=st.integers(1, 9))
    def ingest(self, unit, size, commit):
        options = Options("worker", slice_records=size, commit_records=commit)

        def act(side):
            info = side.ledger.store.info(unit.namespace)
            extents = side.ledger.source(info.source).extents()
            end = extents[unit.partition].end if unit.partition < len(extents) else 0
            return ingest_unit(side.ledger, unit, end, options)

        self.both(act)

    @rule(unit=UNITS)
    def relay(self, unit):
        self.both(lambda side: relay_unit(side.ledger, unit, Options("relay")))

    @rule(unit=UNITS, limit=st.integers(0, 4))
    def publish_without_acknowledging(self, unit, limit):
        def act(side):
            pending = side.ledger.store.pending(unit, limit)
            return [side.ledger.outputs.append(unit, each.envelopes) for each in pending[:1]]

        self.both(act)

    @rule(unit=UNITS)
    def project(self, unit):
        self.both(lambda side: project_unit(side.ledger, unit, Options("view")))

    @rule(unit=UNITS, size=st.sampled_from([1, 2, 5]), commit=st.integers(1, 9), data=st.data())
    def drain(self, unit, size, commit, data):
        self.append(unit.partition, data)
        self.ingest(unit, size, commit)
        self.relay(unit)
        self.project(unit)

    # What owners do, also those that were replaced

    @rule(unit=UNITS, role=ROLES)
    def claim(self, unit, role):
        self.both(lambda side: side.claim(unit, role))

    @precondition(lambda self: self.sides[0].tokens)
    @rule(data=st.data(), count=st.integers(0, 3), of=st.integers(0, 2))
    def commit(self, data, count, of):
        at = self._some_token(data)

        def act(side):
            token = side.tokens[at]
            next_offset, sequence, *_ = side.ledger.store.progress(token.unit)
            start = next_offset + of - 1
            side.ledger.store.commit(token, [decision(start, start + count, sequence)])

        self.both(act)

    @precondition(lambda self: self.sides[0].tokens)
    @rule(data=st.data(), of=st.integers(-1, 1), count=st.integers(-1, 3))
    def acknowledge(self, data, of, count):
        at = self._some_token(data)

        def act(side):
            token = side.tokens[at]
            base = side.ledger.store.progress(token.unit).acknowledged + of
            side.ledger.store.acknowledge(token, base, count)

        self.both(act)

    @precondition(lambda self: self.sides[0].tokens)
    @rule(data=st.data(), of=st.integers(-1, 1), stop=st.none() | st.just("a stop"))
    def commit_view(self, data, of, stop):
        at = self._some_token(data)

        def act(side):
            token = side.tokens[at]
            start = side.ledger.store.progress(token.unit).view_next + of
            side.ledger.store.commit_view(token, start, start, {}, stop)

        self.both(act)

    @precondition(lambda self: self.sides[0].tokens)
    @rule(data=st.data())
    def reproject(self, data):
        at = self._some_token(data)

        def act(side):
            token, ledger = side.tokens[at], side.ledger
            config = side.config(token.unit.namespace)
            return reproject(ledger.store, ledger.outputs, token, config)

        self.both(act)

    def _some_token(self, data) -> int:
        return data.draw(st.integers(0, len(self.sides[0].tokens) - 1), label="token")

    @rule(unit=UNITS, role=ROLES)
    def be_kept_out(self, unit, role):
        def act(side):
            store = side.ledger.store
            with (
                store.hold(unit, role, holder="one"),
                store.hold(unit, role, holder="other", wait_seconds=0),
            ):
                pass

        self.both(act)

    @rule(role=ROLES, partition=PARTITIONS)
    def remove_what_is_held(self, role, partition):
        def act(side):
            with side.ledger.store.hold(Unit("other", partition), role, holder="one"):
                side.ledger.operations.remove("other")

        self.both(act)

    # What people do

    @rule(unit=UNITS, offset=OFFSETS, reason=st.sampled_from(["wrong", "bad", "\u202e", " "]))
    def set_aside(self, unit, offset, reason):
        self.both(lambda side: set_aside(side.ledger, unit, offset, reason))

    @rule(namespace=NAMESPACES, processed=st.booleans(), accepting=st.booleans())
    def verify(self, namespace, processed, accepting):
        def act(side):
            store = side.ledger.store
            report = verify(store, namespace, processed=processed, wait_seconds=0)
            if accepting:
                manifest = Manifest(rejections=report.rejections, conflicts=report.conflicts)
                accept(side.ledger, namespace, manifest)
            return report, side.ledger.operations.manifest(namespace)

        self.both(act)

    @rule(unit=UNITS, key=st.sampled_from("abc"), number=st.integers(1, 5))
    def look(self, unit, key, number):
        self.both(lambda side: status(side.ledger, unit.namespace))
        self.both(lambda side: side.ledger.operations.row_counts(unit, list(Counted)))
        self.both(
            lambda side: explain(
                side.ledger, unit.namespace, StockKey(*STOCK_KEYS[key]), day(number)
            )
        )


def test_memory_and_postgres_do_the_same(tables_url, monkeypatch):
    monkeypatch.setattr(ingest, "BATCH_RECORDS", 4)
    monkeypatch.setattr(SideBySide, "url", tables_url, raising=False)
    # What differs is told by the step at which it does. To look for a shorter way takes minutes.
    phases = [Phase.reuse, Phase.generate]
    run_state_machine_as_test(
        SideBySide, settings=settings(max_examples=5, stateful_step_count=30, phases=phases)
    )
