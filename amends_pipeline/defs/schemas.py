"""Columns of the tables and SQL views behind the assets; a test compares them with the database.

Where a table keeps arrays, the view that shows its rows one by one is described.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

import dagster as dg

from amends_pipeline.store.server import LEDGER_DATABASE, URL_VARIABLE, redact

Metadata = Mapping[str, Any]

_Columns = Mapping[str, tuple[str, str]]

_PLACE = re.compile(
    r"[a-z0-9+]+://(?:[^@/?]*@)?"
    r"(?P<hosts>(?:[\w.%-]|\[[0-9a-f:.]+\]|:[0-9]+|,)*)(?P<database>/[\w.%-]*)?(?:\?.*)?",
    re.IGNORECASE | re.ASCII,
)


def ledger_uri(environment: Mapping[str, str]) -> str:
    """Return the address of the ledgers' database, without user and password.

    The private server is reached by a socket that nobody needs to know; a URL that is not plainly
    one of hosts and a database is not shown at all.
    """
    url = environment.get(URL_VARIABLE)
    if not url:
        return f"postgresql:///{LEDGER_DATABASE}"
    place = _PLACE.fullmatch(redact(url))
    return f"postgresql://{place['hosts']}{place['database'] or '/'}" if place else "postgresql:///"


_UNIT: _Columns = {
    "namespace": ("text", "Generation of processing and output."),
    "partition": ("integer", "Partition of the source."),
}
_OUTPUT: _Columns = {
    "family": ("text", "alert, balance or key-status."),
    "item": ("text", "Of the stock key."),
    "location": ("text", "Of the stock key."),
    "day": ("text", "UTC day, YYYY-MM-DD; null for a status."),
    "version": ("bigint", "Counts the publications of this output, from 1."),
    "type": ("text", "What the envelope says: a statement or a withdrawal."),
    "close": ("bigint", "Units at the end of the day, of a stated balance or a raised alert."),
    "status": ("text", "READY or BLOCKED, of a status."),
}
_CAUSE: _Columns = {
    "cause_offset": ("bigint", "Source offset of the record that triggered it."),
    "cause_txn_id": ("text", "Transaction of that record."),
    "cause_revision": ("bigint", "Revision of that record."),
}


_FACT: _Columns = {
    **_UNIT,
    "item": ("text", "Of the stock key."),
    "location": ("text", "Of the stock key."),
}
_VERSION: _Columns = {
    "version": ("bigint", "Counts the publications of this output, from 1."),
    **_CAUSE,
}


def _schema(columns: _Columns) -> dg.TableSchema:
    """Describe columns, which are (type, description) by name."""
    return dg.TableSchema(
        [dg.TableColumn(name, kind, told) for name, (kind, told) in columns.items()]
    )


def _stored(table: str, columns: _Columns, schema: str = "amends") -> Metadata:
    """Name a table or view of ours, and where it is."""
    return {
        "dagster/table_name": f"{schema}.{table}",
        "dagster/uri": ledger_uri(os.environ),
        "dagster/column_schema": _schema(columns),
    }


SOURCE_LOG = _stored(
    "source_record",
    {
        "source": ("text", "Name of the source."),
        "partition": ("integer", "Partition of the source."),
        "source_offset": ("bigint", "Where the record lies; offsets only grow."),
        "raw_key": ("bytea", "Key of the transport, where it has one."),
        "value": ("bytea", "The record, byte for byte."),
    },
)
SOURCE_EVIDENCE = _stored(
    "authority",
    {
        "revision": ("bigint", "The highest revision seen of the transaction."),
        "source_offset": ("bigint", "Where that revision was first seen."),
        "qty": ("bigint", "Units received, or issued where negative."),
        "nanosecond": ("bigint", "Of the valid instant, within its UTC day."),
        "unit_id": ("integer", "Of the namespace and source partition."),
        "key": ("integer", "Number of the stock key in its namespace."),
        "day": ("integer", "UTC day of the valid instant, since 1970-01-01."),
        "kind": ("smallint", "1 NEW, 2 AMEND, 3 CANCEL."),
        "conflicted": ("boolean", "Whether the revision says two things."),
        "txn_id": ("text", "The transaction, or its beginning and hash if it is long."),
        "long_txn_id": ("text", "The transaction, if it is long."),
    },
)
PROJECTIONS = _stored(
    "key_page",
    {
        "unit_id": ("integer", "Of the namespace and source partition."),
        "key": ("integer", "Number of the stock key in its namespace."),
        "page": ("integer", "Which run of days."),
        "body": ("bytea", "Sums, counts, closes, crossings and versions of those days, packed."),
    },
)
COMMITTED_OUTBOX = _stored(
    "outbox",
    {
        **_UNIT,
        "sequence": ("bigint", "Counts the envelopes of the unit, from 0, without gaps."),
        "acknowledged": ("boolean", "Whether the output log is known to have it."),
        **_OUTPUT,
        **_CAUSE,
    },
)
OUTPUT_LOG = _stored(
    "output_log",
    {
        **_UNIT,
        "output_offset": ("bigint", "Where the envelope lies in the log of the unit."),
        **_OUTPUT,
        **_CAUSE,
    },
)
_VIEW_ROWS = _stored(
    "view_row",
    {
        "version": ("bigint", "The highest version delivered of the output."),
        "close": ("bigint", "Units at the end of the day, of a stated balance or a raised alert."),
        "cause_offset": ("bigint", "Source offset of the record that triggered it."),
        "cause_revision": ("bigint", "Revision of that record."),
        "unit_id": ("integer", "Of the namespace and source partition."),
        "key": ("integer", "Number of the stock key in its namespace."),
        "day": ("integer", "UTC day since 1970-01-01; the day before 0001-01-01 for a status."),
        "family": ("smallint", "1 alert, 2 balance, 3 key-status."),
        "type": ("smallint", "What is said; 2 and 4 are withdrawals, which readers do not see."),
        "cause_txn_id": ("text", "Transaction of the record that triggered it."),
        "reason_txn_ids": ("text[]", "Transactions in conflict, of a blocked key."),
        "reason_revisions": ("bigint[]", "Their revisions."),
    },
)
READER_VIEWS: Mapping[str, dg.TableSchema] = {
    "balance": _schema(
        {
            **_FACT,
            "day": ("text", "UTC day with activity, YYYY-MM-DD."),
            "close": ("bigint", "Units at the end of the day."),
            **_VERSION,
        }
    ),
    "alert": _schema(
        {
            **_FACT,
            "day": ("text", "UTC day on which the close fell below the threshold, YYYY-MM-DD."),
            "threshold": ("bigint", "Reorder threshold of the stock key."),
            "close": ("bigint", "Units at the end of the day."),
            **_VERSION,
        }
    ),
    "key_status": _schema(
        {
            **_FACT,
            "status": ("text", "READY or BLOCKED."),
            "reason_txn_ids": ("text[]", "Transactions in conflict, of a blocked key."),
            "reason_revisions": ("bigint[]", "Their revisions."),
            **_VERSION,
        }
    ),
}
"""The SQL views that readers query, by name: visible facts with names in place of numbers."""

MATERIALIZED_VIEW: Metadata = {
    **_VIEW_ROWS,
    **{
        f"columns_of_{view}": dg.MetadataValue.table_schema(schema)
        for view, schema in READER_VIEWS.items()
    },
}

OPEN_REORDERS: Metadata = {
    "dagster/column_schema": _schema(
        {
            "item": ("string", "Of the stock key."),
            "location": ("string", "Of the stock key."),
            "since": ("string", "UTC day of the crossing; null if it opened below, and stayed."),
            "day": ("string", "UTC day of the latest close; null while no day is published."),
            "close": ("int64", "Units at the end of that day; without one, the opening balance."),
            "threshold": ("int64", "Reorder threshold of the stock key."),
            "short_by": ("uint64", "Units that lack to the threshold."),
        }
    )
}


# --- the bank ledger

_BANK = "amends_bank"

BANK_EXPORT = _stored(
    "committed_group",
    {
        "stream_id": ("integer", "Number of the ledger stream."),
        "last_sequence": ("bigint", "Where the group ends."),
        "first_sequence": ("bigint", "Where it begins: the same, or one before in a correction."),
        "previous_sequence": ("bigint", "Where the group before it ends; null for the first."),
        "group_id": ("text", "Of the group, once in its stream."),
    },
    _BANK,
)
BANK_HISTORY = _stored(
    "leg",
    {
        "stream": ("text", "Name of the ledger stream."),
        "sequence": ("bigint", "Of the journal; sequences have no gaps."),
        "group_id": ("text", "Of the group that made it visible."),
        "journal_id": ("text", "Of the journal."),
        "place": ("bigint", "Of the leg in its journal, from 1."),
        "account_id": ("text", "The account that is moved."),
        "side": ("text", "debit or credit."),
        "amount": ("numeric", "In minor units, an integer of up to 30 digits."),
        "currency": ("text", "Of the journal, as ISO 4217 has it."),
        "effective_at": ("text", "When it took effect economically."),
        "recorded_at": ("text", "When the journal recorded it."),
        "available_at": ("text", "When its group was seen to be committed; null before that."),
    },
    _BANK,
)
BANK_BALANCES: Metadata = {
    "dagster/column_schema": _schema(
        {
            "account_id": ("string", "The account."),
            "currency": ("string", "Of the account."),
            "normal_side": ("string", "debit or credit: the side that makes it grow."),
            "raw_balance_minor": ("string", "Debits less credits, in minor units, exact."),
            "normal_balance_minor": ("string", "The same, as the normal side counts."),
        }
    )
}
BANK_CHECKPOINTS: Metadata = {
    **_stored(
        "checkpoint",
        {
            "set_id": ("integer", "Of the prefix and the cutoff, which the whole set shares."),
            "account_id": ("integer", "Number of the account."),
            "raw_balance": ("numeric", "Debits less credits, in minor units, exact."),
        },
        _BANK,
    ),
    "columns_of_checkpoint_set": dg.MetadataValue.table_schema(
        _schema(
            {
                "id": ("integer", "Of the set."),
                "stream_id": ("integer", "Number of the ledger stream."),
                "through_sequence": ("bigint", "Where the prefix ends that all of it share."),
                "effective_cutoff": ("text", "Up to which economic moment it counts."),
                "provenance_ref": ("text", "Reference of the head under which it was made."),
            }
        )
    ),
}
