"""Rows of one late correction: how long until it is durable, whatever the history."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median

from amends_pipeline_tests.bench.measure import (
    Measurement,
    Peer,
    Row,
    at_most,
    quantile,
    rows,
)
from amends_pipeline_tests.bench.player import Player
from amends_pipeline_tests.bench.stage import Stage

SINGLE = 300
"""Corrections of a run."""


@dataclass
class Late:
    """What corrections cost, a median a run, in milliseconds."""

    durable: list[float] = field(default_factory=list)
    tails: list[float] = field(default_factory=list)
    """99th percentiles."""
    run: list[float] = field(default_factory=list)
    restated: list[int] = field(default_factory=list)

    def add(self, answer) -> None:
        self.durable.append(median(answer.durable) * 1000)
        self.tails.append(quantile(answer.durable, 0.99) * 1000)
        self.run.append(median(answer.run) * 1000)
        self.restated += answer.restated


def warm(stage: Stage, player: Player, name: str) -> None:
    """Make a worker warm: it has every key in memory, and none of the transactions to come."""
    player.ask("hold", namespace=name)
    lines = [line.decode() for line in stage.workload(name).warming()]
    player.ask("correct_together", lines=lines, slice_records=1_000)
    player.ask("correct", lines=corrections(stage, name, 0, 20))


def corrections(stage: Stage, name: str, start: int, count: int) -> list[str]:
    """Late corrections as text; the first 20 are for warming."""
    return [line.decode() for line in stage.workload(name).corrections(start, count)]


def singles(stage: Stage) -> int:
    """How many corrections a run has, at this scale."""
    return SINGLE if stage.options.scale >= 1 else 60


@rows("1", title="one late correction after 1M records")
def one_late_correction(stage: Stage) -> Iterator[Measurement]:
    late, floors, count = Late(), [], singles(stage)
    with stage.copy("applied", "1m") as database, stage.ours(database) as player:
        warm(stage, player, "1m")
        for run in range(stage.runs):
            floors.append(stage.floor(200))
            late.add(player.ask("correct", lines=corrections(stage, "1m", 20 + run * count, count)))
            stage.say(f"row 1, run {run + 1}: {late.durable[-1]:.2f} ms, floor {floors[-1]:.2f}")
        peak = player.ask("release").peak_mb
        stage.carried_on(player, "1m")
    note = f"{median(late.restated):.0f} rows restated; peak {peak:.0f} MB"
    row = Row("1", "late correction after 1M, durable, p50", "ms", late.durable, note)
    yield row.beside(Peer("commit floor", median(floors)), at_most(6.5, 2.5), faster=False)
    yield Row("1", "the same, p99", "ms", late.tails).told(at_most(6, 1.5))
    yield Row("1", "the same with finding out what is new, p50", "ms", late.run).told()
