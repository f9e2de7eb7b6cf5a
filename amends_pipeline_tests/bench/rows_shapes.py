"""Rows of other shapes: deep, wide and hot logs, one record after the other."""

from __future__ import annotations

from collections.abc import Iterator

from amends_pipeline_tests.bench.measure import Bound, Measurement, Row, at_least, rows
from amends_pipeline_tests.bench.stage import SLICE, Stage

PARTS = 5
LAST = 0.1
"""Part of a log that is decided one by one; what comes before it is loaded in slices."""
SHAPES: dict[str, Bound] = {
    "deep": at_least(6_000, 16_000),
    "wide": at_least(25_000, 75_000),
    "hot": at_least(20_000, 54_000),
}


@rows("8", title="deep, wide and hot logs, one record after the other")
def shapes(stage: Stage) -> Iterator[Measurement]:
    for name, bound in SHAPES.items():
        yield _shape(stage, name, bound)


def _shape(stage: Stage, name: str, bound: Bound) -> Measurement:
    rates, records, envelopes = [], 0, 0
    with stage.copy("source", name) as database:
        with stage.ours(database) as player:
            total = player.ask("source_end", namespace=name).end
            last = int(total * LAST / PARTS) * PARTS
            loaded = player.ask("ingest", namespace=name, slice_records=SLICE, until=total - last)
        with stage.ours(database) as player:
            player.ask("hold", namespace=name)
            for _ in range(PARTS):
                done = player.ask("advance", count=last // PARTS, slice_records=1)
                rates.append(done.records / done.seconds)
                records += done.records
                envelopes += done.envelopes
            player.ask("release")
            stage.check_state(player, name)
    stage.forget(("source", name))
    stage.say(f"{name}: {min(rates):,.0f} to {max(rates):,.0f} records/s")
    note = (
        f"the last {records:,} of {total:,}, in {PARTS} parts; {envelopes / records:.1f} envelopes"
        f" a record; the others in slices of 10,000 at {loaded.records / loaded.seconds:,.0f}/s"
    )
    return Row("8", f"{name}, slice_records=1", "records/s", rates, note).told(bound)
