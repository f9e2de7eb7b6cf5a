"""The peers as a row meets them: what they are given, how often, and how their word is checked."""

from __future__ import annotations

import json
from contextlib import ExitStack
from statistics import median
from types import SimpleNamespace
from typing import Self

from amends_pipeline_tests.bench.measure import Peer
from amends_pipeline_tests.bench.player import Player, PlayerError
from amends_pipeline_tests.bench.stage import Stage
from amends_pipeline_tests.bench.workload import OPENING, THRESHOLD

SINGLE = 300
"""Corrections of a run, one by one."""
TOGETHER = 1_000
"""Corrections of a batch."""
PATHWAY_SINGLE = 60
LEVELS = {"opening": OPENING, "threshold": THRESHOLD}
NO_ENVIRONMENT = "no .venv-peers, or --no-peers"


class Corrections:
    """The late corrections of a workload, each handed out once."""

    def __init__(self, stage: Stage, name: str) -> None:
        self._stage = stage
        self._name = name
        self.taken: list[str] = []

    def take(self, count: int) -> list[str]:
        """The next ones; a tenth of so many, but some, where workloads are scaled down."""
        if self._stage.options.scale < 1 and count > 1:
            count = min(count, max(20, count // 10))
        lines = self._stage.workload(self._name).corrections(len(self.taken), count)
        found = [line.decode() for line in lines]
        self.taken += found
        return found


def load_and_query(stage: Stage, name: str) -> float:
    """Seconds that DuckDB needs from the file to all facts, in a fresh process."""
    path = str(stage.workload(name).records_file)
    with stage.peer("duckdb_peer", own_python=True) as peer:
        done = peer.ask("load_and_query", path=path, **LEVELS)
    stage.check_sums(done, name)
    return done.seconds


def polars_load_and_query(stage: Stage, name: str) -> list[float]:
    """Seconds that Polars needs for the same; nothing where it is missing."""
    player = stage.peer("polars_peer")
    if player is None:
        return []
    path = str(stage.workload(name).records_file)
    with player:
        done = player.ask("load_and_query", path=path, **LEVELS)
    stage.check_sums(done, name)
    return [done.seconds]


class Duckdb:
    """DuckDB with 1M records in a durable file, correcting by computing all of it again."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._corrections = Corrections(stage, "1m")
        self._samples: list[float] = []
        self._last = SimpleNamespace()

    def __enter__(self) -> Self:
        stage = self._stage
        self._player = Player.__enter__(stage.peer("duckdb_peer", own_python=True))
        folder = str(stage.scratch("duckdb"))
        path = str(stage.workload("1m").records_file)
        stage.check_sums(self._player.ask("open", folder=folder, path=path, **LEVELS), "1m")
        return self

    def __exit__(self, *_: object) -> None:
        self._player.close()

    @property
    def full(self) -> Peer:
        """A correction by full recomputation."""
        return Peer("DuckDB full", median(self._samples))

    def correct(self) -> None:
        """One correction."""
        self._last = self._player.ask("correct", lines=self._corrections.take(1))
        self._samples.append(self._last.seconds[0] * 1000)

    def check(self) -> None:
        """Refuse its last result unless it is the oracle's."""
        self._stage.check_sums(self._last, "1m", self._corrections.taken)


class Pathway:
    """Pathway with 1M records in memory; missing where its environment is."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._stack = ExitStack()
        self._corrections = Corrections(stage, "1m")
        self._player: Player | None = None
        self._last = SimpleNamespace()
        self._why = NO_ENVIRONMENT
        self._single: list[float] = []
        self._together: list[float] = []

    def __enter__(self) -> Self:
        stage = self._stage
        player = stage.peer("pathway_peer")
        if player is None:
            return self
        self._player = self._stack.enter_context(player)
        truth = stage.truth("1m")
        try:
            player.ask("start", **LEVELS)
            done = player.ask(
                "load",
                path=str(stage.workload("1m").records_file),
                balances=truth.balances,
                closes=truth.closes,
                alerts=truth.alerts,
            )
            player.ask("correct", lines=self._corrections.take(20))
        except PlayerError as error:
            self._player, self._why = None, str(error)
            return self
        rate = done.records / done.seconds
        stage.remembered["pathway"] = Peer("Pathway", rate, f"peak {done.peak_mb:,.0f} MB")
        stage.say(f"Pathway: {rate:,.0f} records/s, {done.peak_mb:,.0f} MB")
        return self

    def __exit__(self, *_: object) -> None:
        if self._player is not None:
            self._player.kill()  # its dataflow never ends by itself
        self._stack.close()

    @property
    def single(self) -> Peer:
        """One correction, in milliseconds; nothing of it is durable."""
        return Peer("Pathway", median(self._single) if self._single else None, self._why)

    @property
    def together(self) -> Peer:
        """Corrections a second, in one commit."""
        return Peer("Pathway", median(self._together) if self._together else None, self._why)

    def correct(self) -> None:
        """A run of single corrections and a batch."""
        if self._player is None:
            return
        self._last = self._player.ask("correct", lines=self._corrections.take(PATHWAY_SINGLE))
        self._single.append(median(self._last.seconds) * 1000)
        lines = self._corrections.take(TOGETHER)
        self._last = self._player.ask("correct_together", lines=lines)
        self._together.append(len(lines) / self._last.seconds)

    def check(self) -> None:
        """Refuse its last result unless it is the oracle's."""
        if self._player is not None:
            self._stage.check_sums(self._last, "1m", self._corrections.taken)


class Sqlmesh:
    """SQLMesh with 1M records in a durable file, restating from a named day on."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._stack = ExitStack()
        self._corrections = Corrections(stage, "1m")
        self._player: Player | None = None
        self._samples: list[float] = []
        self._why = NO_ENVIRONMENT

    def __enter__(self) -> Self:
        stage = self._stage
        player = stage.peer("sqlmesh_peer")
        if player is None:
            return self
        self._player = self._stack.enter_context(player)
        folder = str(stage.scratch("sqlmesh"))
        path = str(stage.workload("1m").records_file)
        try:
            done = player.ask("start", folder=folder, path=path, **LEVELS)
        except PlayerError as error:
            self._player, self._why = None, str(error)
            return self
        stage.check_sums(done, "1m")
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def restated(self) -> Peer:
        """A correction, in seconds."""
        return Peer("SQLMesh", median(self._samples) if self._samples else None, self._why)

    def correct(self) -> None:
        """One correction; the first one's result is checked."""
        if self._player is None:
            return
        (line,) = self._corrections.take(1)
        day = json.loads(line)["valid_time"][:10]
        done = self._player.ask("correct", line=line, day=day)
        if not self._samples:
            self._stage.check_sums(done, "1m", self._corrections.taken)
        self._samples.append(done.seconds)


def pathway_rate(stage: Stage) -> Peer:
    """Records a second that Pathway loads 1M with; measured once."""
    if "pathway" not in stage.remembered:
        with Pathway(stage) as pathway:
            stage.remembered.setdefault("pathway", pathway.single)
    return stage.remembered["pathway"]
