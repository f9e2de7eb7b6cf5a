"""DuckDB: the whole history in one query, and one late correction by computing all of it again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb

from amends_pipeline_tests.bench.obeying import Answer, serve, timed

COLUMNS = (
    "{txn_id: 'VARCHAR', revision: 'BIGINT', kind: 'VARCHAR',"
    " stock_key: 'STRUCT(item VARCHAR, location VARCHAR)', valid_time: 'TIMESTAMP', qty: 'BIGINT',"
    " source_time: 'TIMESTAMP'}"
)
LOAD = f"""
CREATE TABLE history AS
SELECT stock_key.item AS item, stock_key.location AS location, txn_id, revision, kind, valid_time,
    qty
FROM read_json(?, format = 'newline_delimited', columns = {COLUMNS})
"""  # noqa: S608 - a constant
ADD = f"""
INSERT INTO history
SELECT stock_key.item, stock_key.location, txn_id, revision, kind, valid_time, qty
FROM read_json(?, format = 'newline_delimited', columns = {COLUMNS})
"""  # noqa: S608 - a constant
AUTHORITIES = """
CREATE OR REPLACE TEMP TABLE authorities AS
WITH revisions AS (
    SELECT item, location, txn_id, revision, min(kind) AS kind, min(valid_time) AS valid_time,
        min(qty) AS qty, min(kind) <> max(kind) OR min(valid_time) <> max(valid_time)
            OR min(qty) <> max(qty) AS in_conflict
    FROM history GROUP BY ALL
)
SELECT item, location, txn_id, arg_max(kind, revision) AS kind,
    arg_max(valid_time, revision) AS valid_time, arg_max(qty, revision) AS qty,
    arg_max(in_conflict, revision) AS in_conflict
FROM revisions GROUP BY ALL
"""
BALANCES = """
CREATE OR REPLACE {temporary} TABLE {name} AS
WITH blocked AS (SELECT DISTINCT item, location FROM authorities WHERE in_conflict), totals AS (
    SELECT item, location, valid_time::DATE AS day, sum(qty) AS total
    FROM authorities ANTI JOIN blocked USING (item, location)
    WHERE kind <> 'CANCEL' GROUP BY ALL
), closes AS (
    SELECT item, location, day, ($opening + sum(total) OVER (PARTITION BY item, location
        ORDER BY day ROWS UNBOUNDED PRECEDING))::BIGINT AS close
    FROM totals
)
SELECT item, location, day, close, close < $threshold AND lag(close, 1, $opening) OVER (
    PARTITION BY item, location ORDER BY day) >= $threshold AS alerting
FROM closes
"""
DIFFERENCES = """
INSERT INTO outbox
SELECT coalesce(n.item, o.item), coalesce(n.location, o.location), coalesce(n.day, o.day), n.close,
    n.alerting
FROM renewed n FULL JOIN balances o USING (item, location, day)
WHERE (n.close, n.alerting) IS DISTINCT FROM (o.close, o.alerting)
"""
SUMS = """
SELECT count(*), coalesce(sum(close), 0)::BIGINT, count(*) FILTER (alerting),
    (SELECT count(*) FROM (SELECT DISTINCT item, location FROM authorities WHERE in_conflict))
FROM {name}
"""


class Peer:
    """A durable database for corrections; each whole computation has one of its own in memory."""

    def __init__(self) -> None:
        self._engine: duckdb.DuckDBPyConnection | None = None
        self._levels: dict[str, int] = {}
        self._folder = Path()

    def load_and_query(self, path: str, opening: int, threshold: int) -> Answer:
        """From the file to all balances and alerts, in memory."""
        levels = {"opening": opening, "threshold": threshold}
        with duckdb.connect() as engine:
            with timed() as clock:
                engine.execute(LOAD, [path])
                engine.execute(AUTHORITIES)
                engine.execute(BALANCES.format(temporary="TEMP", name="balances"), levels)
            return {"seconds": clock.seconds, **_sums(engine)}

    def open(self, folder: str, path: str, opening: int, threshold: int) -> Answer:
        """Load the history into a durable file, and compute it once."""
        self._folder = Path(folder)
        self._levels = {"opening": opening, "threshold": threshold}
        self._engine = duckdb.connect(str(self._folder / "peer.duckdb"))
        self._engine.execute(LOAD, [path])
        self._engine.execute(AUTHORITIES)
        self._engine.execute(BALANCES.format(temporary="", name="balances"), self._levels)
        self._engine.execute(
            "CREATE TABLE outbox (item VARCHAR, location VARCHAR, day DATE, close BIGINT,"
            " alerting BOOLEAN)"
        )
        self._engine.execute("CHECKPOINT")
        return _sums(self._engine)

    def correct(self, lines: list[str]) -> Answer:
        """Each correction: add it, compute everything, publish what differs, commit."""
        engine = self._engine
        seconds = []
        news = self._folder / "correction.jsonl"
        for line in lines:
            news.write_text(line + "\n")
            with timed() as clock:
                engine.execute("BEGIN")
                engine.execute(ADD, [str(news)])
                engine.execute(AUTHORITIES)
                engine.execute(BALANCES.format(temporary="", name="renewed"), self._levels)
                engine.execute(DIFFERENCES)
                engine.execute("DROP TABLE balances")
                engine.execute("ALTER TABLE renewed RENAME TO balances")
                engine.execute("COMMIT")
            seconds.append(clock.seconds)
        return {"seconds": seconds, **_sums(engine)}


def _sums(engine: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    (row,) = engine.execute(SUMS.format(name="balances")).fetchall()
    return dict(zip(("balances", "closes", "alerts", "blocked"), row, strict=True))


if __name__ == "__main__":
    peer = Peer()
    serve(
        {
            "load_and_query": peer.load_and_query,
            "open": peer.open,
            "correct": peer.correct,
            "version": lambda: {"version": duckdb.__version__},
        }
    )
