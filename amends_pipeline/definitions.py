"""Every Dagster object by name, in the order data flows."""

from __future__ import annotations

import dagster as dg

from amends_pipeline.defs.bank.assets import balances, checkpoints, exporter
from amends_pipeline.defs.bank.checks import bank_verification
from amends_pipeline.defs.bank.sensors import moved_heads
from amends_pipeline.defs.catalog import SOURCE_LOG
from amends_pipeline.defs.inventory.administration import provision_namespace, remove_namespace
from amends_pipeline.defs.inventory.assets import relay, view, worker
from amends_pipeline.defs.inventory.checks import verification
from amends_pipeline.defs.inventory.landing import land_files
from amends_pipeline.defs.inventory.refreshing import (
    OF_A_UNIT,
    moved_views,
    open_reorders,
    refresh_open_reorders,
)
from amends_pipeline.defs.inventory.sensors import landed_files, new_records, stale_verdicts
from amends_pipeline.defs.jobs import EXAMINE_EXPORT, FOLD_BANK, REFOLD, VERIFY
from amends_pipeline.defs.pinned import known_features
from amends_pipeline.defs.resources import BankResource, LedgerResource

with known_features():  # each asset's page links to the function that makes it
    assets = dg.with_source_code_references(
        [
            SOURCE_LOG,  # what producers appended
            worker,  # source_evidence, projections, committed_outbox: one commit
            relay,  # output_log
            view,  # materialized_view
            open_reorders,  # an example of what a team builds on the view
            exporter,  # bank_export, bank_history: an export is examined where it is taken
            balances,  # bank_balances
            checkpoints,  # bank_checkpoints
        ]
    )

defs = dg.Definitions(
    assets=assets,
    # view_equals_oracle, every_unit_is_verified, bank_balances_agree, bank_trial_balance_is_zero;
    # outbox_sequence_is_whole is the worker's own, bank_export_is_complete the exporter's
    asset_checks=[verification, bank_verification],
    jobs=[
        *(REFOLD, VERIFY, land_files),
        *(refresh_open_reorders, OF_A_UNIT),
        *(provision_namespace, remove_namespace),
        *(FOLD_BANK, EXAMINE_EXPORT),
    ],
    sensors=[new_records, stale_verdicts, landed_files, moved_views, moved_heads],
    resources={"ledger": LedgerResource(), "bank": BankResource()},
    # Backfills of assets use this executor, not that of a job.
    executor=dg.in_process_executor,
)

with known_features():  # a sensor of several jobs is made once more when all is put together
    defs.get_repository_def()
