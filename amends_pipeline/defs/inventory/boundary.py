"""The boundary of a run: the source end that its worker captured, as later steps find it again.

It stands in the metadata of the materialization, so it survives whatever executes the steps, and a
run that was executed again from its failure has the boundary of the run it continues.
"""

from __future__ import annotations

import dagster as dg

from amends_pipeline.defs.catalog import SOURCE_EVIDENCE
from amends_pipeline.defs.inventory.metadata import BOUNDARY


def boundary_of(instance: dg.DagsterInstance, run: dg.DagsterRun, partition_key: str) -> int | None:
    """Return the source end that the worker of this run captured; None if none worked in it."""
    at: dg.DagsterRun | None = run
    while at is not None:
        records = instance.get_records_for_run(
            at.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION
        ).records
        for record in reversed(records):
            told = record.asset_materialization
            if (
                told is not None
                and told.asset_key == SOURCE_EVIDENCE.key
                and told.partition == partition_key
            ):
                value = told.metadata[BOUNDARY].value
                return value if isinstance(value, int) else None
        at = instance.get_run_by_id(at.parent_run_id) if at.parent_run_id else None
    return None
