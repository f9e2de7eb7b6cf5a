"""Assets and checks of the inventory ledger: what Dagster is told about the flows' work."""
