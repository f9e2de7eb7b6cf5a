"""Polars: the whole history in one streaming query."""

from __future__ import annotations

import polars as pl

from amends_pipeline_tests.bench.obeying import Answer, serve, timed

KEY = ["item", "location"]
SCHEMA = {
    "txn_id": pl.String,
    "revision": pl.Int64,
    "kind": pl.String,
    "stock_key": pl.Struct({"item": pl.String, "location": pl.String}),
    "valid_time": pl.String,
    "qty": pl.Int64,
    "source_time": pl.String,
}


def balances(path: str, opening: int, threshold: int) -> pl.LazyFrame:
    """Balances and crossings of all keys that are not in conflict."""
    told = pl.scan_ndjson(path, schema=SCHEMA).unnest("stock_key")
    says = ["kind", "valid_time", "qty"]
    revisions = told.group_by([*KEY, "txn_id", "revision"]).agg(
        *(pl.col(name).min() for name in says),
        in_conflict=pl.any_horizontal(pl.col(name).min() != pl.col(name).max() for name in says),
    )
    last = pl.col("revision").arg_max()
    authorities = revisions.group_by([*KEY, "txn_id"]).agg(
        *(pl.col(name).get(last) for name in [*says, "in_conflict"])
    )
    blocked = authorities.filter("in_conflict").select(KEY).unique()
    totals = (
        authorities.join(blocked, on=KEY, how="anti")
        .filter(pl.col("kind") != "CANCEL")
        .group_by([*KEY, pl.col("valid_time").str.slice(0, 10).alias("day")])
        .agg(pl.col("qty").sum())
        .sort([*KEY, "day"])
    )
    closes = totals.with_columns(close=opening + pl.col("qty").cum_sum().over(KEY))
    before = pl.col("close").shift(1, fill_value=opening).over(KEY)
    return closes.with_columns(alerting=(before >= threshold) & (pl.col("close") < threshold))


def load_and_query(path: str, opening: int, threshold: int) -> Answer:
    """From the file to all balances and alerts."""
    with timed() as clock:
        found = balances(path, opening, threshold).collect(engine="streaming")
    return {
        "seconds": clock.seconds,
        "balances": len(found),
        "closes": int(found["close"].sum()),
        "alerts": int(found["alerting"].sum()),
    }


if __name__ == "__main__":
    serve({"load_and_query": load_and_query, "version": lambda: {"version": pl.__version__}})
