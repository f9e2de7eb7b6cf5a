"""Rows of beginning again: a rebuild of everything, and a worker after its predecessor's death."""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median

from amends_pipeline_tests.bench.measure import Measurement, Peer, Row, at_most, rows
from amends_pipeline_tests.bench.rivals import Corrections, load_and_query
from amends_pipeline_tests.bench.rows_late import warm
from amends_pipeline_tests.bench.stage import Stage

REBUILT = 100_000
"""Records of a slice of a rebuild."""


@rows("7", title="rebuild over 1M records to an applied view")
def rebuild(stage: Stage) -> Iterator[Measurement]:
    seconds, peers, peaks, note = [], [], [], ""
    for _ in range(stage.runs):
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
