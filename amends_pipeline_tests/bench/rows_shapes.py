"""Rows of one decision a record: 1M records, and the ends of deep, wide and hot logs."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from amends_pipeline_tests.bench.measure import Bound, Measurement, Row, at_least, rows
from amends_pipeline_tests.bench.rivals import pathway_rate
from amends_pipeline_tests.bench.stage import SLICE, Stage

PARTS = 2
LAST = 0.1
"""Part of a log that is decided one by one; what comes before it is loaded in slices."""
SHAPES: dict[str, Bound] = {
    "deep": at_least(6_000, 16_000),
    "wide": at_least(25_000, 75_000),
    "hot": at_least(20_000, 54_000),
}


@rows("5", title="1M records one by one")
def one_by_one(stage: Stage) -> Iterator[Measurement]:
    rates, envelopes, note = [], [], ""
    for run in range(stage.long_runs):
        with stage.copy("source", "1m") as database, stage.ours(database) as player:
            done = player.ask("ingest", namespace="1m", slice_records=1)
            rates.append(done.records / done.seconds)
            envelopes.append(done.envelopes / done.seconds)
            stage.say(f"row 5, run {run + 1}: {rates[-1]:,.0f} records/s")
            stage.check_state(player, "1m")
            if run == 0:
                stage.check_outbox(player, "1m")
            note = f"{done.envelopes / done.records:.2f} envelopes a record"
    note = f"{note}, {median(envelopes):,.0f}/s"
    row = Row("5", "1M records, slice_records=1", "records/s", rates, note)
    yield row.told(at_least(30_000, 80_000))
    yield row.beside(pathway_rate(stage), at_least(1.5, 4))


@rows("8", title="deep, wide and hot logs, one record after the other")
def shapes(stage: Stage) -> Iterator[Measurement]:
    for name, bound in SHAPES.items():
        yield _shape(stage, name, bound)


def _shape(stage: Stage, name: str, bound: Bound) -> Measurement:
    rates, records, envelopes = [], 0, 0
    with stage.last("source", name) as database, stage.ours(database) as player:
        total = player.ask("source_end", namespace=name).end
        last = int(total * LAST / PARTS) * PARTS
        player.ask("hold", namespace=name)
        loaded = player.ask("advance", count=total - last, slice_records=SLICE)
        for _ in range(PARTS):
            done = player.ask("advance", count=last // PARTS, slice_records=1)
            rates.append(done.records / done.seconds)
            records += done.records
            envelopes += done.envelopes
        player.ask("release")
        stage.check_state(player, name)
    stage.say(f"{name}: {min(rates):,.0f} to {max(rates):,.0f} records/s")
    note = (
        f"the last {records:,} of {total:,}, in {PARTS} parts; {envelopes / records:.1f} envelopes"
        f" a record; the others in slices of 10,000 at {loaded.records / loaded.seconds:,.0f}/s"
    )
    return Row("8", f"{name}, slice_records=1", "records/s", rates, note).told(bound)
