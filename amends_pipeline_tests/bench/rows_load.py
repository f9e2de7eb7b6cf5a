"""Rows of loading 1M records: worker, relay, view and oracle; and delivering all of it again."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from amends_pipeline_tests.bench.measure import (
    Measurement,
    Peer,
    Row,
    at_least,
    at_most,
    rows,
)
from amends_pipeline_tests.bench.rivals import load_and_query, polars_load_and_query
from amends_pipeline_tests.bench.stage import SLICE, Stage, WrongError


class Loads:
    """Samples of one run after the other."""

    def __init__(self) -> None:
        self.worker: list[float] = []
        self.relay: list[float] = []
        self.view: list[float] = []
        self.applied: list[float] = []
        self.oracle: list[float] = []
        self.duckdb: list[float] = []
        self.polars: list[float] = []
        self.peaks: list[float] = []
        self.others: dict[str, float] = {}
        self.amplification = 0.0


@rows("6", "9", "11", "12", "15", title="1M records through worker, relay, view and oracle")
def through_all_roles(stage: Stage) -> Iterator[Measurement]:
    loads = Loads()
    for run in range(stage.runs):
        database = stage.fresh_copy("source", "1m")
        _work(stage, database, loads)
        if run < stage.long_runs and stage.wants("11", "12", "15"):
            _carry_on(stage, database, loads)
            stage.keep("applied", "1m", database)
        elif run == 0:
            with stage.ours(database) as player:
                stage.check_outbox(player, "1m")
        stage.drop(database)
    yield from _worker_rows(loads)
    if loads.relay:
        yield from _reader_rows(loads)


def _work(stage: Stage, database: str, loads: Loads) -> None:
    with stage.ours(database) as player:
        done = player.ask("ingest", namespace="1m", slice_records=SLICE)
        loads.worker.append(done.records / done.seconds)
        loads.peaks.append(done.peak_mb)
        loads.amplification = done.envelopes / done.records
        stage.say(f"worker: {loads.worker[-1]:,.0f} records/s")
        stage.check_state(player, "1m")


def _carry_on(stage: Stage, database: str, loads: Loads) -> None:
    """Relay, view and oracle, each a process of its own, and DuckDB beside the oracle."""
    for role in ("relay", "project", "verify"):
        with stage.ours(database) as player:
            if role == "verify":
                done = stage.verified(player, "1m")
                loads.oracle.append(done.seconds)
            else:
                done = player.ask(role, namespace="1m")
        if role == "relay":
            loads.relay.append(done.envelopes / done.seconds)
        elif role == "project":
            loads.view.append(done.rows / done.seconds)
            loads.applied.append(done.consumed / done.seconds)
        loads.others[role] = max(done.peak_mb, loads.others.get(role, 0))
    loads.duckdb.append(load_and_query(stage, "1m"))
    loads.polars += polars_load_and_query(stage, "1m")
    stage.say(
        f"relay {loads.relay[-1]:,.0f} envelopes/s, view {loads.view[-1]:,.0f} rows/s,"
        f" oracle {loads.oracle[-1]:.2f} s, DuckDB {loads.duckdb[-1]:.2f} s"
    )


def _worker_rows(loads: Loads) -> Iterator[Measurement]:
    note = f"{loads.amplification:.2f} envelopes a record"
    yield Row("6", "1M records in slices of 10,000", "records/s", loads.worker, note).told(
        at_least(60_000, 120_000)
    )
    yield Row("9", "peak memory of the worker after 1M", "MB", loads.peaks).told(at_most(600, 400))


def _reader_rows(loads: Loads) -> Iterator[Measurement]:
    note = f"peak {loads.others['relay']:.0f} MB"
    yield Row("11", "relay", "envelopes/s", loads.relay, note).told(at_least(150_000, 450_000))
    note = f"{median(loads.applied):,.0f} envelopes/s; peak {loads.others['project']:.0f} MB"
    yield Row("12", "view application", "rows/s", loads.view, note).told(at_least(60_000, 100_000))
    note = f"peak {loads.others['verify']:.0f} MB"
    row = Row("15", "oracle and comparison over 1M", "s", loads.oracle, note)
    duckdb = Peer("DuckDB load+query", median(loads.duckdb))
    yield row.beside(duckdb, at_most(4, 1.3), plus=1)
    if loads.polars:
        yield Row("15", "for comparison: Polars load+query", "s", loads.polars).told()


@rows("17", title="redelivery of all 1M records")
def redelivery(stage: Stage) -> Iterator[Measurement]:
    rates = []
    path = str(stage.workload("1m").records_file)
    with stage.copy("applied", "1m") as database:
        for run in range(stage.runs):
            with stage.ours(database) as player:
                before = player.ask("progress", namespace="1m").next_sequence
                player.ask("append", namespace="1m", path=path)
                done = player.ask("ingest", namespace="1m", slice_records=SLICE)
                after = player.ask("progress", namespace="1m").next_sequence
                if done.envelopes or after != before:
                    raise WrongError(f"a redelivery published {after - before} envelopes")
                rates.append(done.records / done.seconds)
                stage.say(f"row 17, run {run + 1}: {rates[-1]:,.0f} records/s")
        with stage.ours(database) as player:
            stage.check_state(player, "1m")
    row = Row("17", "redelivery of all 1M records, 0 envelopes", "records/s", rates)
    yield row.told(at_least(150_000, 350_000))
