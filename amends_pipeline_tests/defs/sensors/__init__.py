"""Sensors as functions: a ledger, Dagster and a folder are set up; one tick is seen."""
