"""Rows of loading: throughput of worker, relay, view and oracle over a whole history."""

from __future__ import annotations

from collections.abc import Iterator

from amends_pipeline_tests.bench.measure import Measurement, Row, at_least, at_most, rows
from amends_pipeline_tests.bench.stage import SLICE, Stage


@rows("6", title="1M records in slices of 10,000")
def slices_of_ten_thousand(stage: Stage) -> Iterator[Measurement]:
    rates, peaks, amplification = [], [], 0.0
    for run in range(stage.runs):
        with stage.copy("source", "1m") as database, stage.ours(database) as player:
            done = player.ask("ingest", namespace="1m", slice_records=SLICE)
            rates.append(done.records / done.seconds)
            peaks.append(done.peak_mb)
            amplification = done.envelopes / done.records
            stage.say(f"row 6, run {run + 1}: {rates[-1]:,.0f} records/s")
            stage.check_state(player, "1m")
            if run == 0:
                stage.check_outbox(player, "1m")
    note = f"{amplification:.2f} envelopes a record; peak {max(peaks):.0f} MB"
    yield Row("6", "1M records, slices of 10,000", "records/s", rates, note).told(
        at_least(60_000, 120_000)
    )
    yield Row("9", "peak memory after 1M records", "MB", peaks).told(at_most(600, 400))


@rows("5", title="1M records one by one")
def one_by_one(stage: Stage) -> Iterator[Measurement]:
    rates, envelopes = [], []
    for run in range(min(stage.runs, 3)):
        with stage.copy("source", "1m") as database, stage.ours(database) as player:
            done = player.ask("ingest", namespace="1m", slice_records=1)
            rates.append(done.records / done.seconds)
            envelopes.append(done.envelopes / done.seconds)
            stage.say(f"row 5, run {run + 1}: {rates[-1]:,.0f} records/s")
            stage.check_state(player, "1m")
            if run == 0:
                stage.check_outbox(player, "1m")
            note = (
                f"{done.envelopes / done.records:.2f} envelopes a record, {max(envelopes):,.0f}/s"
            )
    yield Row("5", "1M records, slice_records=1", "records/s", rates, note).told(
        at_least(30_000, 80_000)
    )


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
                    raise AssertionError(f"a redelivery published {after - before} envelopes")
                rates.append(done.records / done.seconds)
                stage.say(f"row 17, run {run + 1}: {rates[-1]:,.0f} records/s")
        with stage.ours(database) as player:
            stage.carried_on(player, "1m")
    yield Row("17", "redelivery of all 1M records, no envelope", "records/s", rates).told(
        at_least(150_000, 350_000)
    )
