"""The bench: seeded workloads through the product's real path, beside peers.

    measure    what a row, a bound and a measurement are; rows register here
    workload   seeded logs and their corrections, cached as files
    stage      a private server, databases at a known point, and what is true there
    player     another process that obeys over a pipe; `obeying` is its other end
    ours       our own player: the flows, as the commands use them
    truth      what the oracle says of a workload, and what state and outbox add up to
    peers      players with other engines; run in `.venv-peers`
    rivals     the peers as a row meets them
    rows_*     the rows, by family; those of the bank have a player and histories of their own:
    bank_ours, ledger
    table      the table and bench.json; `document` the generated part of docs/PERFORMANCE.md

A new row is a function with `@rows(...)` that takes the stage and yields measurements, in a module
that `__main__` names.
"""
