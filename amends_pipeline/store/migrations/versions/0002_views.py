"""Views for people: names in place of numbers, one row for each record, envelope and fact."""

from __future__ import annotations

from typing import Final

from alembic import op

revision: Final = "0002"
down_revision: Final = "0001"

FUNCTIONS: Final = """
CREATE FUNCTION amends.day_text(day int4) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN day >= -719162 THEN to_char(date '1970-01-01' + day, 'YYYY-MM-DD') END
$$;
COMMENT ON FUNCTION amends.day_text IS
    'A day number as YYYY-MM-DD; null for what stands in the day column of a status.';
"""

SOURCE_RECORD: Final = """
CREATE VIEW amends.source_record AS
SELECT l.name AS source, p.partition, s.base + e.at - 1 AS source_offset,
    s.raw_keys[e.at] AS raw_key,
    substring(s.record_values FROM coalesce(s.ends[e.at - 1], 0) + 1
        FOR e.ending - coalesce(s.ends[e.at - 1], 0)) AS value
FROM amends.source_segment s
JOIN amends.source_partition p ON p.id = s.source_partition_id
JOIN amends.source_log l ON l.id = p.log_id
CROSS JOIN LATERAL (
    SELECT ending, at::int4 AS at FROM unnest(s.ends) WITH ORDINALITY AS u (ending, at)
) e;
"""

TYPES: Final = """
    CASE {type} WHEN 1 THEN 'AlertRaised' WHEN 2 THEN 'AlertRetracted' WHEN 3 THEN 'BalanceStated'
        WHEN 4 THEN 'BalanceRetracted' ELSE 'KeyStatusStated' END AS type,
    CASE WHEN {type} IN (1, 3) THEN {close} END AS close,
    CASE {type} WHEN 5 THEN 'READY' WHEN 6 THEN 'BLOCKED' END AS status
"""

ENVELOPES: Final = """
CREATE VIEW amends.{view} AS
SELECT n.name AS namespace, u.partition, s.base + e.at - 1 AS {position}, {more}
    CASE WHEN e.type < 3 THEN 'alert' WHEN e.type < 5 THEN 'balance' ELSE 'key-status' END
        AS family,
    k.item, k.location, amends.day_text(e.day) AS day, e.version, {types},
    s.cause_offset[e.cause_index + 1] AS cause_offset,
    s.cause_txn_id[e.cause_index + 1] AS cause_txn_id,
    coalesce(s.cause_revision[e.cause_index + 1]::int8, s.wide_cause_revision[e.cause_index + 1])
        AS cause_revision
FROM amends.{table} s
JOIN amends.unit u ON u.id = s.unit_id
JOIN amends.namespace n ON n.id = u.namespace_id {joins}
CROSS JOIN LATERAL unnest(s.key, s.type, s.day, coalesce(s.version::int8[], s.wide_version),
    coalesce(s.close::int8[], s.wide_close), s.cause_index)
    WITH ORDINALITY AS e (key, type, day, version, close, cause_index, at)
JOIN amends.stock_key k ON k.namespace_id = n.id AND k.number = e.key;
"""

FACTS: Final = """
CREATE VIEW amends.balance AS
SELECT n.name AS namespace, u.partition, k.item, k.location, amends.day_text(v.day) AS day,
    v.close, v.version, v.cause_offset, v.cause_txn_id, v.cause_revision
FROM amends.view_row v {joins}
WHERE v.family = 2 AND v.type = 3;

CREATE VIEW amends.alert AS
SELECT n.name AS namespace, u.partition, k.item, k.location, amends.day_text(v.day) AS day,
    k.threshold, v.close, v.version, v.cause_offset, v.cause_txn_id, v.cause_revision
FROM amends.view_row v {joins}
WHERE v.family = 1 AND v.type = 1;

CREATE VIEW amends.key_status AS
SELECT n.name AS namespace, u.partition, k.item, k.location,
    CASE v.type WHEN 5 THEN 'READY' ELSE 'BLOCKED' END AS status,
    v.reason_txn_ids, v.reason_revisions,
    v.version, v.cause_offset, v.cause_txn_id, v.cause_revision
FROM amends.view_row v {joins}
WHERE v.family = 3 AND v.type IN (5, 6);
"""

FACT_JOINS: Final = """
JOIN amends.unit u ON u.id = v.unit_id
JOIN amends.namespace n ON n.id = u.namespace_id
JOIN amends.stock_key k ON k.namespace_id = n.id AND k.number = v.key AND k.partition = u.partition
"""


def upgrade() -> None:
    """Make the views."""
    op.execute(FUNCTIONS)
    op.execute(SOURCE_RECORD)
    types = TYPES.format(type="e.type", close="e.close")
    op.execute(
        ENVELOPES.format(
            view="outbox",
            table="outbox_segment",
            position="sequence",
            more="s.base + e.at - 1 < r.acknowledged AS acknowledged,",
            joins="JOIN amends.relay_progress r ON r.unit_id = s.unit_id",
            types=types,
        )
    )
    op.execute(
        ENVELOPES.format(
            view="output_log",
            table="output_segment",
            position="output_offset",
            more="",
            joins="",
            types=types,
        )
    )
    op.execute(FACTS.format(joins=FACT_JOINS))
