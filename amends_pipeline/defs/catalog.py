"""Every asset, in the order data flows: the contents page.

    source_log ─► source_evidence, projections, committed_outbox ─► output_log ─► materialized_view
                                                                                    └► open_reorders

The three in the middle are one commit, so one step makes them. What a team builds on the view
stands in a group of its own.

    bank_export ─► bank_history ─► bank_balances ─► bank_checkpoints

An export is examined where it is taken, so one step makes the first two.
"""

from __future__ import annotations

import dagster as dg

from amends_pipeline.defs import schemas
from amends_pipeline.defs.partitions import (
    BY_SOURCE_PARTITION,
    SOURCE_PARTITIONS,
    STREAMS,
    UNITS,
)

GROUP = "inventory"
BANK = "bank"
EXAMPLES = "examples"
OWNERS = ["team:inventory"]
BANK_OWNERS = ["team:bank"]
CODE_VERSION = "1"
"""Moves when the same records would become other facts."""

SOURCE_LOG = dg.AssetSpec(
    "source_log",
    description="Raw revisions of stock movements as producers appended them, by source partition.",
    partitions_def=SOURCE_PARTITIONS,
    group_name=GROUP,
    owners=OWNERS,
    kinds={"postgres", "log"},
    metadata=schemas.SOURCE_LOG,
)

SOURCE_EVIDENCE = dg.AssetSpec(
    "source_evidence",
    description=(
        "Every record that was processed: in force, superseded, duplicate, in conflict, or"
        " quarantined byte for byte; a row is a transaction."
    ),
    deps=[dg.AssetDep(SOURCE_LOG, partition_mapping=BY_SOURCE_PARTITION)],
    partitions_def=UNITS,
    group_name=GROUP,
    owners=OWNERS,
    kinds={"postgres"},
    code_version=CODE_VERSION,
    metadata=schemas.SOURCE_EVIDENCE,
)

PROJECTIONS = dg.AssetSpec(
    "projections",
    description=(
        "Daily closes and threshold crossings of each stock key, recomputed from the earliest day"
        " that a record touches; a row is a page of 64 days."
    ),
    deps=[SOURCE_EVIDENCE],
    partitions_def=UNITS,
    group_name=GROUP,
    owners=OWNERS,
    kinds={"postgres"},
    code_version=CODE_VERSION,
    metadata=schemas.PROJECTIONS,
)

COMMITTED_OUTBOX = dg.AssetSpec(
    "committed_outbox",
    description=(
        "Statements and withdrawals that bring readers to what is true now, committed together"
        " with the state they follow from; a row is an envelope."
    ),
    deps=[PROJECTIONS],
    partitions_def=UNITS,
    group_name=GROUP,
    owners=OWNERS,
    kinds={"postgres"},
    code_version=CODE_VERSION,
    metadata=schemas.COMMITTED_OUTBOX,
)

OUTPUT_LOG = dg.AssetSpec(
    "output_log",
    description=(
        "The envelopes that downstream consumers read, in the order of the outbox; a row is an"
        " envelope."
    ),
    deps=[COMMITTED_OUTBOX],
    partitions_def=UNITS,
    group_name=GROUP,
    owners=OWNERS,
    kinds={"postgres", "log"},
    code_version=CODE_VERSION,
    metadata=schemas.OUTPUT_LOG,
)

MATERIALIZED_VIEW = dg.AssetSpec(
    "materialized_view",
    description=(
        "What readers see: a row for the highest version of every balance, alert and key status; a"
        " withdrawal keeps its row, so that nothing older comes back."
    ),
    deps=[OUTPUT_LOG],
    partitions_def=UNITS,
    group_name=GROUP,
    owners=OWNERS,
    kinds={"postgres", "table"},
    code_version=CODE_VERSION,
    metadata=schemas.MATERIALIZED_VIEW,
)

OPEN_REORDERS = dg.AssetSpec(
    "open_reorders",
    description=(
        "Stock keys that are below their reorder threshold now, since when and by how much: a"
        " Parquet file for each unit, which follows the view by itself."
    ),
    deps=[MATERIALIZED_VIEW],
    partitions_def=UNITS,
    group_name=EXAMPLES,
    owners=["team:purchasing"],
    kinds={"pandas", "parquet"},
    code_version="1",
    metadata=schemas.OPEN_REORDERS,
)

BANK_EXPORT = dg.AssetSpec(
    "bank_export",
    description=(
        "The committed groups of a ledger stream, its accounts, and the head that says how far"
        " they reach, as files of one moment; a row is a group."
    ),
    partitions_def=STREAMS,
    group_name=BANK,
    owners=BANK_OWNERS,
    kinds={"postgres", "json"},
    code_version="1",
    metadata=schemas.BANK_EXPORT,
)

BANK_HISTORY = dg.AssetSpec(
    "bank_history",
    description=(
        "What of the export was found to be whole, in order and in balance, from the first"
        " sequence through the head; a row is a leg."
    ),
    deps=[BANK_EXPORT],
    partitions_def=STREAMS,
    group_name=BANK,
    owners=BANK_OWNERS,
    kinds={"postgres"},
    code_version="1",
    metadata=schemas.BANK_HISTORY,
)

BANK_BALANCES = dg.AssetSpec(
    "bank_balances",
    description=(
        "The exact balance of every account at an economic and a knowledge cutoff, as a Parquet"
        " file for each ledger stream; a row is an account."
    ),
    deps=[BANK_HISTORY],
    partitions_def=STREAMS,
    group_name=BANK,
    owners=BANK_OWNERS,
    kinds={"pandas", "parquet"},
    code_version="1",
    metadata=schemas.BANK_BALANCES,
)

BANK_CHECKPOINTS = dg.AssetSpec(
    "bank_checkpoints",
    description=(
        "Balances that later folds may start from: sets after one prefix of the history, which"
        " all of a set share; a row is the balance of an account."
    ),
    deps=[BANK_BALANCES],
    partitions_def=STREAMS,
    group_name=BANK,
    owners=BANK_OWNERS,
    kinds={"postgres", "table"},
    code_version="1",
    metadata=schemas.BANK_CHECKPOINTS,
)
