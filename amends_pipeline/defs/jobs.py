"""What a person or a sensor may start, one run for each unit."""

from __future__ import annotations

import dagster as dg

from amends_pipeline.defs.catalog import (
    COMMITTED_OUTBOX,
    MATERIALIZED_VIEW,
    OUTPUT_LOG,
    PROJECTIONS,
    SOURCE_EVIDENCE,
)

PARTITION_TAG = "dagster/partition"
"""Names the unit of a run of `verify`, which Dagster gives no partitions of its own."""

REFOLD = dg.define_asset_job(
    "refold",
    description=(
        "Process a unit's new records up to the source end of the moment, publish and apply what"
        " follows from them, and verify the view at that boundary."
    ),
    selection=dg.AssetSelection.assets(
        *(
            spec.key
            for spec in (
                SOURCE_EVIDENCE,
                PROJECTIONS,
                COMMITTED_OUTBOX,
                OUTPUT_LOG,
                MATERIALIZED_VIEW,
            )
        )
    ),
    executor_def=dg.in_process_executor,
)

VERIFY = dg.define_asset_job(
    "verify",
    description=(
        f"Compare a unit's view with the oracle, and do nothing else. The tag {PARTITION_TAG} of"
        " the run names the unit, such as main|p0."
    ),
    selection=dg.AssetSelection.checks_for_assets(MATERIALIZED_VIEW.key),
    executor_def=dg.in_process_executor,
)
