"""Every Dagster object by name, in the order data flows."""

from __future__ import annotations

import dagster as dg

from amends_pipeline.defs.catalog import SOURCE_LOG
from amends_pipeline.defs.inventory.administration import provision_namespace, remove_namespace
from amends_pipeline.defs.inventory.assets import relay, view, worker
from amends_pipeline.defs.inventory.checks import verification
from amends_pipeline.defs.inventory.landing import land_files
from amends_pipeline.defs.inventory.refreshing import REFRESH, moved_views, open_reorders
from amends_pipeline.defs.inventory.sensors import landed_files, new_records, stale_verdicts
from amends_pipeline.defs.jobs import REFOLD, VERIFY
from amends_pipeline.defs.pinned import known_features
from amends_pipeline.defs.resources import LedgerResource

with known_features():  # each asset's page links to the function that makes it
    assets = dg.with_source_code_references(
        [
            SOURCE_LOG,  # what producers appended
            worker,  # source_evidence, projections, committed_outbox: one commit
            relay,  # output_log
            view,  # materialized_view
            open_reorders,  # an example of what a team builds on the view
        ]
    )

defs = dg.Definitions(
    assets=assets,
    # view_equals_oracle and every_unit_is_verified; outbox_sequence_is_whole is the worker's own
    asset_checks=[verification],
    jobs=[REFOLD, VERIFY, land_files, REFRESH, provision_namespace, remove_namespace],
    sensors=[new_records, stale_verdicts, landed_files, moved_views],
    resources={"ledger": LedgerResource()},
    # Backfills of assets use this executor, not that of a job.
    executor=dg.in_process_executor,
)
