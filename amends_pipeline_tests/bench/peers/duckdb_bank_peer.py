"""DuckDB: one query over an export, from the file to all balances, with nothing validated."""

from __future__ import annotations

import duckdb

from amends_pipeline_tests.bench.obeying import Answer, serve, timed

# Only what the sums need is read, with its types given.
BALANCES = """
WITH journals AS (
    SELECT unnest(journals) AS journal
    FROM read_json($path, format = 'newline_delimited', columns = {
        'available_at': 'VARCHAR',
        'journals': 'STRUCT(command STRUCT(currency VARCHAR, effective_at VARCHAR,
            legs STRUCT(account_id VARCHAR, side VARCHAR, amount_minor VARCHAR)[]))[]'
    })
    WHERE available_at <= $knowledge
), legs AS (
    SELECT unnest(journal.command.legs) AS leg FROM journals
    WHERE journal.command.currency = $currency AND journal.command.effective_at <= $effective
)
SELECT leg.account_id, sum(
    CASE leg.side WHEN 'debit' THEN leg.amount_minor::HUGEINT ELSE -leg.amount_minor::HUGEINT END
) FROM legs GROUP BY ALL
"""


def query(path: str, currency: str, effective: str, knowledge: str) -> Answer:
    """The balance of every account with a leg that the cutoffs select."""
    arguments = {
        "path": path,
        "currency": currency,
        "effective": effective,
        "knowledge": knowledge,
    }
    engine = duckdb.connect()
    with timed() as clock:
        found = engine.execute(BALANCES, arguments).fetchall()
    return {"seconds": clock.seconds, "raw": {name: str(raw) for name, raw in found}}


if __name__ == "__main__":
    serve({"query": query, "version": lambda: {"version": duckdb.__version__}})
