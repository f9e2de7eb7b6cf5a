"""The bank ledger in Dagster: exports, balances and checkpoints of ledger streams."""
