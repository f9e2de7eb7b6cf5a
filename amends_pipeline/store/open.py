from amends_pipeline.assembly import PostgresLedger, open_ledger

__all__ = ["PostgresLedger", "open_ledger"]
