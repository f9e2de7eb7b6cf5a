"""Runs, checks and the sensor of the bank ledger in Dagster."""
