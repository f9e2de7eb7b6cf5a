"""The rooms that know Dagster, through Dagster itself."""
