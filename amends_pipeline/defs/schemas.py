"""Columns of the tables behind the assets, as the migrations make them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dagster as dg

Metadata = Mapping[str, Any]


def _stored(table: str, columns: Mapping[str, tuple[str, str]] | None = None) -> Metadata:
    """Name a table or SQL view of ours; columns are (type, description) by name."""
    described: dict[str, Any] = {"dagster/table_name": f"amends.{table}"}
    if columns:
        described["dagster/column_schema"] = dg.TableSchema(
            [dg.TableColumn(name, kind, told) for name, (kind, told) in columns.items()]
        )
    return described


SOURCE_LOG = _stored("source_segment")
SOURCE_EVIDENCE = _stored("authority")
PROJECTIONS = _stored("key_page")
COMMITTED_OUTBOX = _stored("outbox")
OUTPUT_LOG = _stored("output_log")
MATERIALIZED_VIEW = _stored("view_row")
