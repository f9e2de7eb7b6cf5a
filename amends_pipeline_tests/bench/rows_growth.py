"""Rows of growth: the same correction after 100k, 1M and 5M records, and explanations at 5M."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from statistics import median

from amends_pipeline.kernel.instants import parse_day
from amends_pipeline_tests.bench.measure import (
    Measurement,
    Peer,
    Row,
    at_most,
    rows,
    slope,
)
from amends_pipeline_tests.bench.rivals import SINGLE, Corrections
from amends_pipeline_tests.bench.rows_late import Late, warm, warming
from amends_pipeline_tests.bench.stage import Stage
from amends_pipeline_tests.bench.workload import ORIGIN

SIZES = ("100k", "1m", "5m")
QUESTIONS = 100


@rows("2", "9", "19", title="late corrections after 100k, 1M and 5M records")
def growth(stage: Stage) -> Iterator[Measurement]:
    with stage.last("decided", "5m") as database:
        if stage.wants("19"):
            yield from _explained(stage, database)
        if stage.wants("2"):
            yield from _latency(stage, database)
        else:
            with stage.ours(database) as player:
                stage.check_state(player, "5m")
    peak = [stage.peaks["5m"]]
    yield Row("9", "peak memory of the worker after 5M", "MB", peak).told(at_most(1_800, 1_000))


def _latency(stage: Stage, largest: str) -> Iterator[Measurement]:
    late = {name: Late() for name in SIZES}
    corrections = {name: Corrections(stage, name) for name in SIZES}
    with ExitStack() as stack:
        point = "applied" if stage.has("applied", "1m") else "decided"
        databases = {
            "100k": stack.enter_context(stage.last("decided", "100k")),
            "1m": stack.enter_context(stage.copy(point, "1m")),
            "5m": largest,
        }
        players = {}
        for name in SIZES:
            players[name] = stack.enter_context(stage.ours(databases[name]))
            warm(stage, players[name], name)
            players[name].ask("correct", lines=corrections[name].take(20))
        for _ in range(stage.runs):
            for name, player in players.items():
                late[name].add(player.ask("correct", lines=corrections[name].take(SINGLE)))
        for name, player in players.items():
            player.ask("release")
            stage.check_state(player, name, [*warming(stage, name), *corrections[name].taken])
    medians = {name: median(late[name].durable) for name in SIZES}
    note = ", ".join(f"{name} {medians[name]:.2f} ms" for name in SIZES)
    stage.say(note)
    row = Row("2", "late correction after 5M, durable, p50", "ms", late["5m"].durable)
    yield row.beside(Peer("100k", medians["100k"]), at_most(1.3, 1.1))
    records = [stage.workload(name).shape.records for name in SIZES]
    exponents = [
        slope(zip(records, costs, strict=True))
        for costs in zip(*(late[name].durable for name in SIZES), strict=True)
    ]
    row = Row("2", "growth of latency with history, as an exponent", "", exponents, note)
    yield row.told(at_most(0.05))


def _explained(stage: Stage, database: str) -> Iterator[Measurement]:
    shape = stage.workload("5m").shape
    draw = random.Random(19)  # noqa: S311 - the same questions each time
    first = parse_day(ORIGIN.isoformat())
    samples = []
    free = range(stage.workload("5m").conflicting.start)
    with stage.ours(database) as player:
        for _ in range(stage.runs):
            questions = [
                (draw.choice(free), first + draw.randrange(shape.days)) for _ in range(QUESTIONS)
            ]
            done = player.ask("explain", namespace="5m", questions=questions)
            samples.append(median(done.seconds) * 1000)
    note = f"{shape.records // shape.keys} transactions a key"
    yield Row("19", "explain at 5M, p50", "ms", samples, note).told(at_most(50, 5))
