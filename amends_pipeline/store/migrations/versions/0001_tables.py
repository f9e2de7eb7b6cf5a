"""The tables of the inventory ledger, and of its source and output logs.

Surrogate keys stand for names. Text sorts by its bytes. Rows that every commit updates have room
on their page, so that the update touches no index. Columns that hold long arrays are neither
compressed nor kept in line: compressing them costs more than it saves.

Conventions: days are day numbers since 1970-01-01, in UTC, nanoseconds are those of the day, and
frontiers are exclusive. `docs/decisions/0003-row-layouts.md` tells why the rows are what they are.
"""

from __future__ import annotations

from typing import Final

from alembic import op

revision: Final = "0001"
down_revision: Final = None

SOURCES: Final = """
CREATE TABLE amends.source_log (
    id int4 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    incarnation text COLLATE "C" NOT NULL,
    partitions int4 NOT NULL CHECK (partitions > 0)
);
COMMENT ON TABLE amends.source_log IS 'Source logs that are kept in this database.';

CREATE TABLE amends.source_partition (
    id int4 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    log_id int4 NOT NULL REFERENCES amends.source_log,
    partition int4 NOT NULL,
    start_offset int8 NOT NULL DEFAULT 0,
    end_offset int8 NOT NULL DEFAULT 0,
    UNIQUE (log_id, partition)
) WITH (fillfactor = 20);
COMMENT ON TABLE amends.source_partition IS
    'Retained offsets, from start_offset up to and without end_offset. An append locks its row.';

CREATE TABLE amends.source_segment (
    source_partition_id int4 NOT NULL,
    count int4 NOT NULL,
    base int8 NOT NULL,
    ends int4[] NOT NULL,
    record_values bytea NOT NULL,
    raw_keys bytea[],
    PRIMARY KEY (source_partition_id, base)
);
ALTER TABLE amends.source_segment
    ALTER ends SET STORAGE EXTERNAL,
    ALTER record_values SET STORAGE EXTERNAL,
    ALTER raw_keys SET STORAGE EXTERNAL;
COMMENT ON TABLE amends.source_segment IS
    'Consecutive records: values one after the other, and where each ends. See source_record.';

CREATE TABLE amends.source (
    id int4 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    incarnation text COLLATE "C" NOT NULL,
    partitions int4 NOT NULL CHECK (partitions > 0)
);
COMMENT ON TABLE amends.source IS
    'What all namespaces over a source agree on, wherever its log is kept.';

CREATE TABLE amends.source_route (
    source_id int4 NOT NULL REFERENCES amends.source,
    partition int4 NOT NULL,
    item text COLLATE "C" NOT NULL,
    location text COLLATE "C" NOT NULL
);
CREATE INDEX source_route_source ON amends.source_route (source_id);
COMMENT ON TABLE amends.source_route IS
    'Stock keys that do not lie on the partition that their name gives them.';
"""

NAMESPACES: Final = """
CREATE TABLE amends.namespace (
    id int4 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    source_id int4 NOT NULL REFERENCES amends.source,
    schema_version int4 NOT NULL,
    origin_nanosecond int8 NOT NULL,
    origin_day int4 NOT NULL,
    follows boolean NOT NULL,
    digest text COLLATE "C" NOT NULL,
    incarnation text COLLATE "C" NOT NULL,
    first_offsets int8[] NOT NULL
);
COMMENT ON TABLE amends.namespace IS
    'Provisioned namespaces. Together with stock_key this is the whole configuration.';

CREATE TABLE amends.stock_key (
    opening int8 NOT NULL,
    threshold int8 NOT NULL,
    namespace_id int4 NOT NULL,
    number int4 NOT NULL,
    partition int4 NOT NULL,
    item text COLLATE "C" NOT NULL,
    location text COLLATE "C" NOT NULL,
    PRIMARY KEY (namespace_id, number)
);
-- Names may be longer than an entry of a B-tree.
CREATE INDEX stock_key_item ON amends.stock_key USING hash (item);
COMMENT ON TABLE amends.stock_key IS
    'Configured stock keys, numbered in the order of their encoded names.';

CREATE TABLE amends.unit (
    id int4 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace_id int4 NOT NULL REFERENCES amends.namespace,
    partition int4 NOT NULL,
    UNIQUE (namespace_id, partition)
);
COMMENT ON TABLE amends.unit IS 'A namespace and a partition: what one owner works on at a time.';
"""

PROGRESS: Final = """
CREATE TABLE amends.worker_progress (
    next_offset int8 NOT NULL,
    next_sequence int8 NOT NULL DEFAULT 0,
    epoch int8 NOT NULL DEFAULT 0,
    unit_id int4 PRIMARY KEY REFERENCES amends.unit,
    holder text
) WITH (fillfactor = 20);

CREATE TABLE amends.relay_progress (
    acknowledged int8 NOT NULL DEFAULT 0,
    epoch int8 NOT NULL DEFAULT 0,
    unit_id int4 PRIMARY KEY REFERENCES amends.unit,
    holder text
) WITH (fillfactor = 20);

CREATE TABLE amends.view_progress (
    view_next int8 NOT NULL DEFAULT 0,
    epoch int8 NOT NULL DEFAULT 0,
    unit_id int4 PRIMARY KEY REFERENCES amends.unit,
    holder text,
    view_stop text
) WITH (fillfactor = 20);

CREATE TABLE amends.output_end (
    end_offset int8 NOT NULL DEFAULT 0,
    unit_id int4 PRIMARY KEY REFERENCES amends.unit
) WITH (fillfactor = 20);

CREATE TABLE amends.set_aside (
    source_offset int8 NOT NULL,
    unit_id int4 NOT NULL REFERENCES amends.unit,
    reason text NOT NULL,
    PRIMARY KEY (unit_id, source_offset)
);
COMMENT ON TABLE amends.set_aside IS 'Records that a person declared not to be part of the input.';
"""

STATE: Final = """
CREATE TABLE amends.authority (
    revision int8 NOT NULL,
    source_offset int8 NOT NULL,
    qty int8 NOT NULL,
    nanosecond int8 NOT NULL,
    unit_id int4 NOT NULL,
    key int4 NOT NULL,
    day int4 NOT NULL,
    kind int2 NOT NULL,
    conflicted boolean NOT NULL,
    txn_id text COLLATE "C" NOT NULL,
    long_txn_id text COLLATE "C",
    PRIMARY KEY (unit_id, key, txn_id)
) WITH (fillfactor = 90);
COMMENT ON TABLE amends.authority IS
    'The highest revision of each transaction; kinds are 1 NEW, 2 AMEND, 3 CANCEL.';
COMMENT ON COLUMN amends.authority.long_txn_id IS
    'The transaction id where it is too long for the index; txn_id is its beginning and hash then.';

CREATE TABLE amends.observation (
    revision int8 NOT NULL,
    source_offset int8 NOT NULL,
    qty int8 NOT NULL,
    nanosecond int8 NOT NULL,
    unit_id int4 NOT NULL,
    key int4 NOT NULL,
    day int4 NOT NULL,
    kind int2 NOT NULL,
    txn_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (unit_id, key, source_offset)
);
COMMENT ON TABLE amends.observation IS
    'Accepted records that are not in force: superseded, stale, repeated or in conflict.';

CREATE TABLE amends.quarantine (
    source_offset int8 NOT NULL,
    unit_id int4 NOT NULL,
    code text COLLATE "C" NOT NULL,
    raw_key bytea,
    value bytea NOT NULL,
    PRIMARY KEY (unit_id, source_offset)
);
COMMENT ON TABLE amends.quarantine IS 'Records that were not accepted, byte for byte, and why.';

CREATE TABLE amends.key_head (
    status_version int8 NOT NULL,
    peak int8 NOT NULL,
    unit_id int4 NOT NULL,
    key int4 NOT NULL,
    first_page int4 NOT NULL,
    status int2 NOT NULL,
    reason_txn_ids text[],
    reason_revisions int8[],
    PRIMARY KEY (unit_id, key)
) WITH (fillfactor = 70);
COMMENT ON TABLE amends.key_head IS
    'State of each stock key apart from its days; status 1 READY, 2 BLOCKED.';
COMMENT ON COLUMN amends.key_head.peak IS
    'No close of the key was ever further from 0; stored with a minus sign.';

CREATE TABLE amends.key_page (
    unit_id int4 NOT NULL,
    key int4 NOT NULL,
    page int4 NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (unit_id, key, page)
) WITH (fillfactor = 70);
ALTER TABLE amends.key_page ALTER body SET STORAGE EXTERNAL;
COMMENT ON TABLE amends.key_page IS
    'Days of a stock key in pages of 64, packed as store/pages.py says.';
"""

SEGMENT: Final = """
CREATE TABLE amends.{name} (
    base int8 NOT NULL,
    unit_id int4 NOT NULL,
    count int4 NOT NULL,
    encoder_version int4 NOT NULL,
    key int4[] NOT NULL,
    type int2[] NOT NULL,
    day int4[] NOT NULL,
    cause_index int4[] NOT NULL,
    cause_offset int8[] NOT NULL,
    cause_txn_id text[] NOT NULL,
    version int4[],
    close int4[],
    cause_revision int4[],
    wide_version int8[],
    wide_close int8[],
    wide_cause_revision int8[],
    reason_position int4[],
    reason_txn_id text[],
    reason_revision int8[],
    PRIMARY KEY (unit_id, base)
);
ALTER TABLE amends.{name}
    ALTER key SET STORAGE EXTERNAL,
    ALTER type SET STORAGE EXTERNAL,
    ALTER day SET STORAGE EXTERNAL,
    ALTER cause_index SET STORAGE EXTERNAL,
    ALTER cause_offset SET STORAGE EXTERNAL,
    ALTER cause_txn_id SET STORAGE EXTERNAL,
    ALTER version SET STORAGE EXTERNAL,
    ALTER close SET STORAGE EXTERNAL,
    ALTER cause_revision SET STORAGE EXTERNAL,
    ALTER wide_version SET STORAGE EXTERNAL,
    ALTER wide_close SET STORAGE EXTERNAL,
    ALTER wide_cause_revision SET STORAGE EXTERNAL;
COMMENT ON TABLE amends.{name} IS 'Consecutive envelopes in columns. See {view}.';
"""

VIEW_ROWS: Final = """
CREATE TABLE amends.view_row (
    version int8 NOT NULL,
    close int8 NOT NULL,
    cause_offset int8 NOT NULL,
    cause_revision int8 NOT NULL,
    unit_id int4 NOT NULL,
    key int4 NOT NULL,
    day int4 NOT NULL,
    family int2 NOT NULL,
    type int2 NOT NULL,
    cause_txn_id text COLLATE "C" NOT NULL,
    reason_txn_ids text[],
    reason_revisions int8[],
    PRIMARY KEY (unit_id, family, key, day)
) WITH (fillfactor = 80);
COMMENT ON TABLE amends.view_row IS
    'The latest version of every output, withdrawn ones too. See balance, alert and key_status.';
"""


def upgrade() -> None:
    """Make the tables."""
    for statements in (SOURCES, NAMESPACES, PROGRESS, STATE, VIEW_ROWS):
        op.execute(statements)
    op.execute(SEGMENT.format(name="outbox_segment", view="outbox"))
    op.execute(SEGMENT.format(name="output_segment", view="output_log"))
