"""Rows of late corrections by a warm worker: latency, batches, blocked keys, bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median
from types import SimpleNamespace

from amends_pipeline_tests.bench.measure import (
    Measurement,
    Peer,
    Row,
    at_least,
    at_most,
    quantile,
    rows,
)
from amends_pipeline_tests.bench.player import Player
from amends_pipeline_tests.bench.rivals import SINGLE, TOGETHER, Corrections, Duckdb, Pathway
from amends_pipeline_tests.bench.stage import Stage
from amends_pipeline_tests.bench.workload import DAY_SECONDS, record

BLOCKED = 30
"""Keys that are blocked and unblocked in a run."""


@dataclass
class Late:
    """What corrections cost, a median a run, in milliseconds."""

    durable: list[float] = field(default_factory=list)
    tails: list[float] = field(default_factory=list)
    """99th percentiles."""
    run: list[float] = field(default_factory=list)
    restated: list[int] = field(default_factory=list)

    def add(self, answer: SimpleNamespace) -> None:
        self.durable.append(median(answer.durable) * 1000)
        self.tails.append(quantile(answer.durable, 0.99) * 1000)
        self.run.append(median(answer.run) * 1000)
        self.restated += answer.restated


def warm(stage: Stage, player: Player, name: str) -> None:
    """Make a worker warm: it has every key in memory, and none of the transactions to come."""
    player.ask("hold", namespace=name)
    player.ask("correct_together", lines=warming(stage, name), slice_records=1_000)


def warming(stage: Stage, name: str) -> list[str]:
    """The corrections that make a worker warm."""
    return [line.decode() for line in stage.workload(name).warming()]


@rows("1", "4", "18", "20", title="late corrections after 1M records")
def late_corrections(stage: Stage) -> Iterator[Measurement]:
    """One warm worker does it all; what it leaves behind is verified at the end."""
    corrections = Corrections(stage, "1m")
    with stage.copy("applied", "1m") as database, stage.ours(database) as player:
        if stage.wants("20"):
            yield _stored(stage, database)
        warm(stage, player, "1m")
        player.ask("correct", lines=corrections.take(20))
        if stage.wants("20"):
            yield _written(stage, player, corrections)
        if stage.wants("18"):
            yield _blocked_and_unblocked(stage, player)
        if stage.wants("1", "4"):
            yield from _single_and_together(stage, player, corrections)
        player.ask("release")
        stage.carried_on(player, "1m")


def _single_and_together(
    stage: Stage, player: Player, corrections: Corrections
) -> Iterator[Measurement]:
    late, floors, batches = Late(), [], []
    with ExitStack() as stack:
        duckdb = stack.enter_context(Duckdb(stage)) if stage.wants("1") else None
        pathway = stack.enter_context(Pathway(stage))
        for run in range(stage.runs):
            floors.append(stage.floor(200))
            done = player.ask("correct", lines=corrections.take(SINGLE))
            late.add(done)
            if stage.wants("4"):
                lines = corrections.take(TOGETHER)
                whole = player.ask("correct_together", lines=lines, slice_records=len(lines))
                batches.append(len(lines) / whole.seconds)
            if duckdb is not None:
                duckdb.correct()
            pathway.correct()
            stage.say(f"late, run {run + 1}: {late.durable[-1]:.2f} ms, floor {floors[-1]:.2f} ms")
        pathway.check()
        if duckdb is not None:
            duckdb.check()
    note = f"{median(late.restated):.0f} rows restated; peak {done.peak_mb:.0f} MB"
    row = Row("1", "late correction after 1M, durable, p50", "ms", late.durable, note)
    yield row.beside(Peer("commit floor", median(floors)), at_most(6.5, 2.5))
    if duckdb is not None:
        yield row.beside(duckdb.full, at_least(600, 1_600))
    yield row.beside(pathway.single, at_least(6, 16))
    yield Row("1", "the same, p99", "ms", late.tails).told(at_most(6, 1.5))
    yield Row("1", "the same with finding out what is new, p50", "ms", late.run).told()
    if batches:
        row = Row("4", "1,000 corrections in one batch", "corrections/s", batches)
        yield row.beside(pathway.together, at_least(10, 33))


def _blocked_and_unblocked(stage: Stage, player: Player) -> Measurement:
    pairs, restated = [], []
    load = stage.workload("1m")
    told = (load.shape.days + 500) * DAY_SECONDS
    for run in range(stage.runs):
        lines = []
        for number in range(BLOCKED):
            key = (run * BLOCKED + number) % load.conflicting.start
            txn = f"B{run:02d}{number:03d}"
            for revision, kind, qty in ((1, "NEW", 5), (1, "NEW", 6), (2, "AMEND", 7)):
                lines.append(record(txn, revision, kind, key, 0, qty, told).decode())
        done = player.ask("correct", lines=lines)
        blocks, unblocks = done.durable[1::3], done.durable[2::3]
        pairs.append(median(map(sum, zip(blocks, unblocks, strict=True))) * 1000)
        restated += map(sum, zip(done.restated[1::3], done.restated[2::3], strict=True))
    note = f"both together, from the first day on; {median(restated):.0f} envelopes"
    row = Row("18", "block and unblock a key of 365 days", "ms", pairs, note)
    return row.told(at_most(4, 1))


def _stored(stage: Stage, database: str) -> Measurement:
    with stage.connection(database) as connection:
        outbox, envelopes, whole = connection.execute(SIZES).fetchone()
    records = stage.workload("1m").shape.records
    note = f"of the outbox; {whole / records:,.0f} bytes a record in all, log and view included"
    row = Row("20", "stored bytes per envelope", "B", [outbox / envelopes], note)
    return row.told(at_most(250, 30))


def _written(stage: Stage, player: Player, corrections: Corrections) -> Measurement:
    written, restated = [], []
    for _ in range(stage.runs):
        before = _log_end(stage)
        lines = corrections.take(SINGLE)
        done = player.ask("correct", lines=lines)
        restated += done.restated
        written.append((_log_end(stage) - before) / len(lines) / 1000)
    note = (
        f"the record's own append and whole pages after a checkpoint included;"
        f" {median(restated):.0f} rows restated"
    )
    return Row("20", "WAL per correction", "kB", written, note).told(at_most(45, 6))


SIZES = """
SELECT sum(pg_total_relation_size(c.oid)) FILTER (WHERE c.relname LIKE '%outbox%')::int8,
    (SELECT next_sequence FROM amends.worker_progress),
    sum(pg_total_relation_size(c.oid))::int8
FROM pg_class c WHERE c.relnamespace = 'amends'::regnamespace AND c.relkind = 'r'
"""


def _log_end(stage: Stage) -> int:
    """Bytes of write-ahead log since the server was made."""
    with stage.connection() as connection:
        (row,) = connection.execute("SELECT pg_current_wal_lsn() - '0/0'").fetchall()
    return int(row[0])
