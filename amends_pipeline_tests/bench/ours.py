"""Our own player: the flows, over a ledger in PostgreSQL, as the commands use them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from time import monotonic, perf_counter

from amends_pipeline.assembly import PostgresLedger, open_ledger
from amends_pipeline.flows import ingest
from amends_pipeline.flows.append import Line
from amends_pipeline.flows.append import append as append_lines
from amends_pipeline.flows.bulk import rarely_collected
from amends_pipeline.flows.catch_up import catch_up
from amends_pipeline.flows.drain import (
    Ingested,
    Options,
    ingest_unit,
    project_unit,
    relay_unit,
)
from amends_pipeline.flows.explain import explain as explain_balance
from amends_pipeline.flows.ingest import Worker
from amends_pipeline.flows.provision import provision as provision_namespace
from amends_pipeline.flows.rebuild import rebuild as rebuild_namespace
from amends_pipeline.flows.verify import verify as verify_namespace
from amends_pipeline.inventory.config import load_configuration
from amends_pipeline.inventory.slice import Records
from amends_pipeline.kernel.errors import AmendsError
from amends_pipeline.ports import Role, SourceLog, SourceRecord, Unit
from amends_pipeline_tests.bench import truth
from amends_pipeline_tests.bench.obeying import Answer, serve, timed


class Stamped:
    """A source log that remembers when it last handed out records; else the log itself."""

    def __init__(self, log: SourceLog) -> None:
        self._log = log
        self.read_at = 0.0

    def __getattr__(self, name: str) -> object:
        return getattr(self._log, name)

    def read(self, partition: int, start: int, until: int, limit: int) -> Records:
        records = self._log.read(partition, start, until, limit)
        self.read_at = perf_counter()
        return records


class Ours:
    """What may be asked for. Seconds are those of the flow alone."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._ledger: PostgresLedger | None = None
        self._held = ExitStack()
        self._worker: Worker | None = None
        self._log: Stamped | None = None

    @property
    def ledger(self) -> PostgresLedger:
        if self._ledger is None:
            self._ledger = open_ledger(self.url)
        return self._ledger

    def commands(self) -> dict[str, Callable[..., Answer]]:
        """Every public method but this one."""
        names = [name for name in dir(self) if not name.startswith("_")]
        return {
            name: getattr(self, name) for name in names if name not in {"commands", "ledger", "url"}
        }

    # --- the log

    def provision(self, configuration: str) -> Answer:
        """Make a namespace and its source."""
        with timed() as clock:
            provision_namespace(self.ledger, load_configuration(Path(configuration)))
        return {"seconds": clock.seconds}

    def register(self, namespace: str, dagster_home: str) -> Answer:
        """Make the units of a namespace known to Dagster."""
        import dagster  # noqa: PLC0415 - it takes a second, and only this command needs it

        from amends_pipeline.defs.partitions import register  # noqa: PLC0415 - as above

        with dagster.DagsterInstance.from_config(dagster_home) as instance:
            register(instance, self.ledger.store.info(namespace))
        return {}

    def append(self, namespace: str, path: str) -> Answer:
        """Append a file to the source of a namespace."""
        with timed() as clock, Path(path).open("rb") as file:
            lines = (Line(path, number, line[:-1]) for number, line in enumerate(file, 1))
            done = append_lines(self.ledger, namespace, lines)
        return {"seconds": clock.seconds, "records": done.appended, "end": done.ends[0]}

    # --- the three roles, each up to the present end

    def ingest(
        self,
        namespace: str,
        slice_records: int,
        commit_records: int = ingest.COMMIT_RECORDS,
        until: int | None = None,
    ) -> Answer:
        """Decide what the source holds, all of it or up to an offset."""
        options = Options("bench", slice_records, commit_records)
        with timed() as clock:
            end = until or self._source(namespace).extents()[0].end
            done = ingest_unit(self.ledger, Unit(namespace, 0), end, options)
        return {"seconds": clock.seconds, **done._asdict()}

    def relay(self, namespace: str) -> Answer:
        """Publish what is pending."""
        with timed() as clock:
            published = relay_unit(self.ledger, Unit(namespace, 0), Options("bench"))
        return {"seconds": clock.seconds, "envelopes": published}

    def project(self, namespace: str) -> Answer:
        """Apply what is published."""
        with timed() as clock:
            done = project_unit(self.ledger, Unit(namespace, 0), Options("bench"))
        return {"seconds": clock.seconds, **done._asdict()}

    def verify(self, namespace: str) -> Answer:
        """Ask the oracle, and compare."""
        with timed() as clock:
            report = verify_namespace(self.ledger.store, namespace)
        return {
            "seconds": clock.seconds,
            "status": str(report.status),
            "differences": len(report.differences),
        }

    def rebuild(self, namespace: str, old: str, slice_records: int) -> Answer:
        """Make a namespace over the source of another, and carry it to an applied view."""
        options = Options("bench", slice_records, slice_records)
        with timed() as clock:
            rebuild_namespace(self.ledger, namespace, old)
            done = catch_up(self.ledger, namespace, options)
        (drained,) = done.drained
        return {
            "seconds": clock.seconds,
            "stopped": len(done.stopped),
            **drained.ingested._asdict(),
        }

    def first_decision(self, namespace: str, line: str) -> Answer:
        """Append a record, decide what is there, and tell when the first of it was durable."""
        moments = []
        self._source(namespace).append([SourceRecord(0, None, line.encode())])
        options = Options("bench", on_decisions=lambda *_: moments.append(monotonic()))
        until = self._source(namespace).extents()[0].end
        done = ingest_unit(self.ledger, Unit(namespace, 0), until, options)
        return {"moment": moments[0], "records": done.records}

    def explain(self, namespace: str, questions: list[tuple[int, int]]) -> Answer:
        """Explain balances, each by key number and day; refuse one that does not add up."""
        config = self.ledger.store.config(namespace)
        seconds = []
        for key, day in questions:
            with timed() as clock:
                said = explain_balance(self.ledger, namespace, config.keys[key].stock_key, day)
            seconds.append(clock.seconds)
            if said.explanation.computed != said.explanation.balance:
                raise SystemExit(f"key {key}, day {day}: {said.explanation}")
        return {"seconds": seconds}

    # --- a warm worker

    def hold(self, namespace: str, slice_records: int = 1) -> Answer:
        """Become the unit's worker and stay it, warm from one correction to the next."""
        unit = Unit(namespace, 0)
        self._log = Stamped(self._source(namespace))
        token = self._held.enter_context(
            self.ledger.store.hold(unit, Role.WORKER, holder="bench", wait_seconds=60)
        )
        self._held.enter_context(rarely_collected())
        self._worker = Worker(
            self.ledger.store,
            self._log,
            token,
            self.ledger.store.config(namespace),
            slice_records,
        )
        return {}

    def release(self) -> Answer:
        """Be the worker no more."""
        self._held.close()
        self._worker = None
        return {}

    def correct(self, lines: list[str]) -> Answer:
        """Append and decide one record after the other.

        `durable` are the seconds from where the record was read to where its decision is
        committed; `run` those of the whole run, in which the worker also finds out what is new.
        """
        durable, run, restated = [], [], []
        at, envelopes = 0.0, 0

        def committed(decisions) -> None:
            nonlocal at, envelopes
            at = perf_counter()
            envelopes = sum(len(decision.envelopes) for decision in decisions)

        self._worker.on_commit = committed
        for line in lines:
            end = self._log.append([SourceRecord(0, None, line.encode())])[0]
            start = perf_counter()
            self._worker.run(end)
            run.append(perf_counter() - start)
            durable.append(at - self._log.read_at)
            restated.append(envelopes)
        return {"durable": durable, "run": run, "restated": restated}

    def advance(self, count: int, slice_records: int) -> Answer:
        """Decide the next `count` records, warm."""
        done = [0, 0]

        def committed(decisions) -> None:
            counted = Ingested().plus(decisions)
            done[:] = done[0] + counted.records, done[1] + counted.envelopes

        self._worker.slice_records = slice_records
        self._worker.on_commit = committed
        unit = self._worker.token.unit
        until = self.ledger.store.progress(unit).next_offset + count
        with timed() as clock:
            self._worker.run(until)
        return {"seconds": clock.seconds, "records": done[0], "envelopes": done[1]}

    def correct_together(self, lines: list[str], slice_records: int) -> Answer:
        """Append records at once, and decide them `slice_records` at a time, warm."""
        end = self._log.append([SourceRecord(0, None, line.encode()) for line in lines])[0]
        self._worker.slice_records = slice_records
        self._worker.on_commit = lambda _: None
        with timed() as clock:
            self._worker.run(end)
        self._worker.slice_records = 1
        return {"seconds": clock.seconds}

    # --- the truth

    def oracle_facts(self, configuration: str, path: str, more: list[str]) -> Answer:
        """What the oracle says of a log in a file, and some lines after it."""
        config = load_configuration(Path(configuration))
        with Path(path).open("rb") as file:
            lines = chain((line[:-1] for line in file), (line.encode() for line in more))
            return truth.said_by_oracle(config, lines)._asdict()

    def state_facts(self, namespace: str) -> Answer:
        """What the worker's state says."""
        keys = len(self.ledger.store.config(namespace).keys)
        return truth.kept_in_state(self.ledger.store, Unit(namespace, 0), keys)._asdict()

    def outbox_facts(self, namespace: str, blocked_keys: list[int]) -> Answer:
        """What the outbox says."""
        facts = truth.told_by_outbox(self.ledger.store, Unit(namespace, 0), blocked_keys)
        return facts._asdict()

    def progress(self, namespace: str) -> Answer:
        """Where the roles stand."""
        progress = self.ledger.store.progress(Unit(namespace, 0))
        return {
            "next_offset": progress.next_offset,
            "next_sequence": progress.next_sequence,
            "acknowledged": progress.acknowledged,
            "view_next": progress.view_next,
        }

    def source_end(self, namespace: str) -> Answer:
        """Where the source ends."""
        return {"end": self._source(namespace).extents()[0].end}

    def _source(self, namespace: str) -> SourceLog:
        return self.ledger.source(self.ledger.store.info(namespace).source)


def main() -> None:
    """Serve the ledger whose URL is the one argument."""
    try:
        serve(Ours(sys.argv[1]).commands())
    except AmendsError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
