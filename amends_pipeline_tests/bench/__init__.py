"""The bench: seeded workloads through the product's real path, beside peers.

measure    what a row, a bound and a measurement are; rows register here
workload   seeded logs and their corrections, cached as files
stage      private server, databases at a known point, players: what a row stands on
player     the other process: one of ours that obeys over a pipe
truth      what the oracle says of a workload, and what a durable outbox adds up to
rows_*     the rows, by family
peers      programs that do the same with other engines; run in `.venv-peers`
table      the table, `bench.json`, and the generated part of docs/PERFORMANCE.md
"""
