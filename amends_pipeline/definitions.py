"""Every Dagster object by name, in the order data flows."""

from __future__ import annotations

import dagster as dg

from amends_pipeline.defs.catalog import SOURCE_LOG
from amends_pipeline.defs.inventory.assets import relay, view, worker
from amends_pipeline.defs.inventory.checks import view_equals_oracle
from amends_pipeline.defs.jobs import REFOLD, VERIFY
from amends_pipeline.defs.resources import LedgerResource

defs = dg.Definitions(
    assets=[
        SOURCE_LOG,  # what producers appended
        worker,  # source_evidence, projections, committed_outbox: one commit
        relay,  # output_log
        view,  # materialized_view
    ],
    asset_checks=[view_equals_oracle],  # outbox_sequence_is_whole is the worker's own
    jobs=[REFOLD, VERIFY],
    resources={"ledger": LedgerResource()},
    # Backfills of assets use this executor, not that of a job.
    executor=dg.in_process_executor,
)
