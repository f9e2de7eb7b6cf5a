"""Rows of beginning again: a rebuild, a worker after its predecessor's death, a cold run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from amends_pipeline.store.server import LEDGER_DATABASE
from amends_pipeline_tests.bench.measure import Measurement, Peer, Row, at_most, rows
from amends_pipeline_tests.bench.player import ROOT, Player
from amends_pipeline_tests.bench.rivals import Corrections, Sqlmesh, load_and_query
from amends_pipeline_tests.bench.rows_late import warm
from amends_pipeline_tests.bench.stage import Stage, WrongError

PARTITION_TAG = "dagster/partition"
REBUILT = 1_000_000
"""Records of a slice of a rebuild."""


@rows("7", title="rebuild over 1M records to an applied view")
def rebuild(stage: Stage) -> Iterator[Measurement]:
    seconds, peers, peaks, note = [], [], [], ""
    for _ in range(stage.long_runs):
        with stage.copy("source", "1m") as database, stage.ours(database) as player:
            done = player.ask("rebuild", namespace="again", old="1m", slice_records=REBUILT)
            seconds.append(done.seconds)
            peaks.append(done.peak_mb)
            stage.say(f"rebuild: {done.seconds:.1f} s, {done.peak_mb:.0f} MB")
            stage.verified(player, "again")
            note = f"slices of {REBUILT:,}; {done.envelopes / done.records:.2f} envelopes a record"
        peers.append(load_and_query(stage, "1m"))
    row = Row("7", "rebuild of 1M to an applied view", "s", seconds, f"{note}; {max(peaks):.0f} MB")
    yield row.beside(Peer("DuckDB load+query", median(peers)), at_most(7, 3))


@rows("16", title="a worker killed, and the first decision of its successor")
def killed(stage: Stage) -> Iterator[Measurement]:
    samples, corrections = [], Corrections(stage, "1m")
    with stage.copy("applied", "1m") as database:
        for _ in range(stage.runs):
            first = stage.ours(database)
            warm(stage, first, "1m")
            first.tell("correct", lines=corrections.take(2_000))
            time.sleep(0.2)
            start = time.monotonic()
            first.kill()
            with stage.ours(database) as second:
                (line, *_) = corrections.take(1)
                done = second.ask("first_decision", namespace="1m", line=line)
                samples.append(done.moment - start)
        with stage.ours(database) as player:
            stage.carried_on(player, "1m")
    note = "of the worker; the server lives; with the start of the new process"
    yield Row("16", "SIGKILL to the first new durable decision", "s", samples, note).told(
        at_most(8, 1.5)
    )


@rows("14", title="one correction through a cold run of Dagster")
def cold_run(stage: Stage) -> Iterator[Measurement]:
    samples, corrections = [], Corrections(stage, "1m")
    home = stage.scratch("dagster")
    shutil.copy(ROOT / "dagster.yaml", home)
    environment = {**os.environ, "AMENDS_HOME": str(stage.folder), "DAGSTER_HOME": str(home)}
    environment.pop("AMENDS_POSTGRES_URL", None)
    with (
        Sqlmesh(stage) as sqlmesh,
        stage.copy("applied", "1m", LEDGER_DATABASE) as database,
        stage.ours(database, environment) as player,
    ):
        player.ask("register", namespace="1m", dagster_home=str(home))
        (line,) = corrections.take(1)
        _appended(player, home, line)
        _run(stage, environment)  # the first one makes Dagster's tables
        for _ in range(stage.runs):
            (line,) = corrections.take(1)
            _appended(player, home, line)
            start = time.monotonic()
            _run(stage, environment)
            samples.append(time.monotonic() - start)
            sqlmesh.correct()
            stage.say(f"cold run: {samples[-1]:.2f} s")
        stage.verified(player, "1m")
        stood = player.ask("progress", namespace="1m")
        if stood.view_next != stood.next_sequence:
            raise WrongError(f"a run did not carry its correction on: {stood}")
    note = "command to exit; worker, relay and view; median of the runs after the first"
    row = Row("14", "one correction, cold Dagster run", "s", samples, note)
    yield row.beside(sqlmesh.restated, at_most(1.5, 1))


def _appended(player: Player, home: Path, line: str) -> None:
    news = home / "correction.jsonl"
    news.write_text(line + "\n")
    player.ask("append", namespace="1m", path=str(news))


def _run(stage: Stage, environment: dict[str, str]) -> None:
    """Start Dagster, load the definitions, execute the job on the unit, and end."""
    command = [str(Path(sys.executable).with_name("dagster")), "job", "execute"]
    tags = json.dumps({PARTITION_TAG: "1m|p0"})
    with stage.log.open("ab") as log:
        subprocess.run(
            [*command, "-m", "amends_pipeline.definitions", "-j", "refold", "--tags", tags],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            check=True,
        )
