"""SQLMesh: one late correction by restating the days from it on, which a person has to name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import duckdb

from amends_pipeline_tests.bench.obeying import Answer, serve, timed
from amends_pipeline_tests.bench.peers.duckdb_peer import ADD, LOAD

CONFIG = """
gateways:
  local:
    connection:
      type: duckdb
      database: {folder}/peer.duckdb
default_gateway: local
model_defaults:
  dialect: duckdb
  start: 2024-01-01
disable_anonymized_analytics: true
"""
MODELS = {
    "authorities": """
MODEL (name facts.authorities, kind FULL);
WITH revisions AS (
    SELECT item, location, txn_id, revision, min(kind) AS kind, min(valid_time) AS valid_time,
        min(qty) AS qty, min(kind) <> max(kind) OR min(valid_time) <> max(valid_time)
            OR min(qty) <> max(qty) AS in_conflict
    FROM main.history GROUP BY item, location, txn_id, revision
)
SELECT item, location, txn_id, arg_max(kind, revision) AS kind,
    arg_max(valid_time, revision) AS valid_time, arg_max(qty, revision) AS qty,
    arg_max(in_conflict, revision) AS in_conflict
FROM revisions GROUP BY item, location, txn_id
""",
    "balances": """
MODEL (name facts.balances, kind INCREMENTAL_BY_TIME_RANGE (time_column day), cron '@daily');
WITH blocked AS (SELECT DISTINCT item, location FROM facts.authorities WHERE in_conflict),
totals AS (
    SELECT a.item, a.location, a.valid_time::DATE AS day, sum(a.qty) AS total
    FROM facts.authorities AS a LEFT JOIN blocked AS b
        ON a.item = b.item AND a.location = b.location
    WHERE a.kind <> 'CANCEL' AND b.item IS NULL
    GROUP BY a.item, a.location, a.valid_time::DATE
), closes AS (
    SELECT item, location, day, ({opening} + sum(total) OVER (
        PARTITION BY item, location ORDER BY day ROWS UNBOUNDED PRECEDING))::BIGINT AS close
    FROM totals
), marked AS (
    SELECT item, location, day, close, close < {threshold} AND lag(close, 1, {opening}) OVER (
        PARTITION BY item, location ORDER BY day) >= {threshold} AS alerting
    FROM closes
)
SELECT item, location, day, close, alerting FROM marked
WHERE day BETWEEN @start_date AND @end_date
""",
}
SUMS = """
SELECT count(*), coalesce(sum(close), 0)::BIGINT, count(*) FILTER (alerting) FROM facts.balances
"""


class Peer:
    """A project in a folder, with its state in the same database."""

    def __init__(self) -> None:
        self._folder = Path()

    def start(self, folder: str, path: str, opening: int, threshold: int) -> Answer:
        """Load the history, and plan and apply the models for the first time."""
        self._folder = Path(folder)
        with self._engine() as engine:
            engine.execute(LOAD, [path])
        (self._folder / "config.yaml").write_text(CONFIG.format(folder=folder))
        (self._folder / "models").mkdir()
        for name, text in MODELS.items():
            filled = text.replace("{opening}", str(opening)).replace("{threshold}", str(threshold))
            (self._folder / "models" / f"{name}.sql").write_text(filled)
        with timed() as clock:
            self._sqlmesh("plan", "--auto-apply", "--no-prompts")
        return {"seconds": clock.seconds, **self._sums()}

    def correct(self, line: str, day: str) -> Answer:
        """Add a correction, and restate from its day on: a command, as a person would give it."""
        news = self._folder / "correction.jsonl"
        news.write_text(line + "\n")
        with self._engine() as engine:
            engine.execute(ADD, [str(news)])
        models = ("--restate-model", "facts.authorities", "--restate-model", "facts.balances")
        with timed() as clock:
            self._sqlmesh("plan", "--auto-apply", "--no-prompts", *models, "--start", day)
        return {"seconds": clock.seconds, **self._sums()}

    def _engine(self) -> duckdb.DuckDBPyConnection:
        return duckdb.connect(str(self._folder / "peer.duckdb"))

    def _sums(self) -> dict[str, int]:
        with self._engine() as engine:
            (row,) = engine.execute(SUMS).fetchall()
        return dict(zip(("balances", "closes", "alerts"), row, strict=True))

    def _sqlmesh(self, *arguments: str) -> None:
        command = [str(Path(sys.executable).with_name("sqlmesh")), "-p", str(self._folder)]
        quiet = {"SQLMESH__DISABLE_ANONYMIZED_ANALYTICS": "1", "NO_COLOR": "1"}
        subprocess.run(
            [*command, *arguments],
            env={**os.environ, **quiet},
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
            check=True,
        )


if __name__ == "__main__":
    peer = Peer()
    serve({"start": peer.start, "correct": peer.correct})
