"""The only folder that knows Dagster."""
