"""The bank ledger: streams, accounts, committed groups, their receipts, heads, checkpoints.

Timestamps are the text that the export shows: their grammar gives every millisecond exactly one
text of 24 characters, which sorts in time order, so that no conversion stands between what was
committed and what is read. Amounts are numeric and leave as text. Reasons escape a backslash as
two and U+0000, which PostgreSQL cannot store, as a backslash and a zero.

A group never changes. What happens to it later, its receipt, is a row of another table. The
constraints repeat the rules of the ledger as far as one row and its neighbours can show them:
they are the second line of defence, and nothing that `amends_pipeline/bank` accepts meets them.
"""

from __future__ import annotations

from typing import Final

from alembic import op

revision: Final = "0004"
down_revision: Final = "0003"

FIND_SCHEMA: Final = "SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'amends_bank'"
CREATE_SCHEMA: Final = "CREATE SCHEMA amends_bank"

FUNCTIONS: Final = """
CREATE FUNCTION amends_bank.clock() RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;
COMMENT ON FUNCTION amends_bank.clock IS 'The moment of the call, cut to milliseconds, in UTC.';

CREATE FUNCTION amends_bank.is_balanced(accounts int4[], debits boolean[], amounts numeric[])
RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT count(*) BETWEEN 2 AND 32 AND min(account) < max(account) AND min(amount) > 0
        AND bool_and(scale(amount) = 0)
        AND sum(amount) FILTER (WHERE debit) = sum(amount) FILTER (WHERE NOT debit)
    FROM unnest(accounts, debits, amounts) leg (account, debit, amount)
$$;
COMMENT ON FUNCTION amends_bank.is_balanced IS
    'Whether legs are 2 to 32, touch two accounts, are positive and add up to nothing.';

CREATE FUNCTION amends_bank.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'what was committed to table % never changes', TG_TABLE_NAME
        USING ERRCODE = 'integrity_constraint_violation';
END
$$;
"""

STREAMS: Final = """
CREATE TABLE amends_bank.stream (
    id int4 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    last_sequence int8 NOT NULL DEFAULT 0,
    stamped_sequence int8 NOT NULL DEFAULT 0 CHECK (stamped_sequence >= 0),
    digest bytea NOT NULL,
    name text COLLATE "C" NOT NULL UNIQUE,
    ledger_id text COLLATE "C" NOT NULL,
    entity_id text COLLATE "C" NOT NULL,
    recorded_at text COLLATE "C",
    available_at text COLLATE "C",
    observed_at text COLLATE "C",
    CHECK (stamped_sequence <= last_sequence)
) WITH (fillfactor = 20);
COMMENT ON TABLE amends_bank.stream IS
    'Ledger streams. Who posts, stamps or observes locks the row; last_sequence is the counter.';
COMMENT ON COLUMN amends_bank.stream.digest IS
    'Of all groups up to stamped_sequence, one after the other.';

CREATE TABLE amends_bank.account (
    id int4 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream_id int4 NOT NULL REFERENCES amends_bank.stream,
    account_id text COLLATE "C" NOT NULL,
    currency text COLLATE "C" NOT NULL,
    account_type text COLLATE "C" NOT NULL
        CHECK (account_type IN ('asset', 'expense', 'liability', 'equity', 'revenue')),
    UNIQUE (stream_id, account_id)
);
COMMENT ON TABLE amends_bank.account IS
    'Accounts by stream. The normal side follows from the type: debit for asset and expense.';
"""

GROUPS: Final = """
CREATE TABLE amends_bank.committed_group (
    stream_id int4 NOT NULL REFERENCES amends_bank.stream,
    last_sequence int8 NOT NULL,
    first_sequence int8 NOT NULL,
    previous_sequence int8,
    group_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (stream_id, last_sequence),
    UNIQUE (stream_id, group_id),
    FOREIGN KEY (stream_id, previous_sequence) REFERENCES amends_bank.committed_group,
    CHECK (first_sequence = coalesce(previous_sequence, 0) + 1),
    CHECK (last_sequence - first_sequence IN (0, 1))
);
COMMENT ON TABLE amends_bank.committed_group IS
    'One posting or one correction. previous_sequence is where the group before it ends.';

CREATE TABLE amends_bank.journal (
    stream_id int4 NOT NULL,
    sequence int8 NOT NULL,
    group_sequence int8 NOT NULL,
    journal_id text COLLATE "C" NOT NULL,
    business_operation_id text COLLATE "C" NOT NULL,
    currency text COLLATE "C" NOT NULL,
    effective_at text COLLATE "C" NOT NULL,
    source_available_at text COLLATE "C" NOT NULL,
    booking_period text COLLATE "C" NOT NULL,
    recorded_at text COLLATE "C" NOT NULL,
    adjustment_reason text NOT NULL,
    leg_accounts int4[] NOT NULL,
    leg_debits boolean[] NOT NULL,
    leg_amounts numeric[] NOT NULL,
    PRIMARY KEY (stream_id, sequence),
    UNIQUE (stream_id, journal_id),
    UNIQUE (stream_id, business_operation_id),
    FOREIGN KEY (stream_id, group_sequence) REFERENCES amends_bank.committed_group,
    CHECK (group_sequence - sequence IN (0, 1)),
    CHECK (effective_at <= recorded_at AND source_available_at <= recorded_at),
    CHECK ((adjustment_reason = '') = (booking_period = substr(effective_at, 1, 7))),
    CHECK (amends_bank.is_balanced(leg_accounts, leg_debits, leg_amounts))
);
COMMENT ON TABLE amends_bank.journal IS
    'A journal and its legs in order. group_sequence is where its group ends. See view leg.';

CREATE TABLE amends_bank.correction (
    stream_id int4 NOT NULL,
    last_sequence int8 NOT NULL,
    original_sequence int8 NOT NULL,
    correction_id text COLLATE "C" NOT NULL,
    reason text NOT NULL,
    PRIMARY KEY (stream_id, last_sequence),
    UNIQUE (stream_id, original_sequence),
    UNIQUE (stream_id, correction_id),
    FOREIGN KEY (stream_id, last_sequence) REFERENCES amends_bank.committed_group,
    FOREIGN KEY (stream_id, original_sequence) REFERENCES amends_bank.journal,
    CHECK (original_sequence < last_sequence - 1)
);
COMMENT ON TABLE amends_bank.correction IS
    'Groups of two: the reversal of an earlier journal, which happens once, and its replacement.';

CREATE TABLE amends_bank.receipt (
    stream_id int4 NOT NULL,
    last_sequence int8 NOT NULL,
    available_at text COLLATE "C" NOT NULL,
    digest bytea NOT NULL,
    PRIMARY KEY (stream_id, last_sequence),
    FOREIGN KEY (stream_id, last_sequence) REFERENCES amends_bank.committed_group
);
COMMENT ON TABLE amends_bank.receipt IS
    'When a group was seen to be committed, and the digest of all groups up to it.';
"""

HEADS: Final = """
CREATE TABLE amends_bank.head (
    stream_id int4 NOT NULL REFERENCES amends_bank.stream,
    head_sequence int8 NOT NULL,
    observed_at text COLLATE "C" NOT NULL,
    receipt_ref text COLLATE "C" NOT NULL,
    digest bytea NOT NULL,
    PRIMARY KEY (stream_id, head_sequence, observed_at)
);
COMMENT ON TABLE amends_bank.head IS 'Heads that were handed out or accepted: what is remembered.';

CREATE TABLE amends_bank.checkpoint_set (
    id int4 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream_id int4 NOT NULL REFERENCES amends_bank.stream,
    through_sequence int8 NOT NULL,
    effective_cutoff text COLLATE "C" NOT NULL,
    provenance_ref text COLLATE "C" NOT NULL,
    UNIQUE (stream_id, through_sequence, effective_cutoff, provenance_ref)
);
COMMENT ON TABLE amends_bank.checkpoint_set IS
    'Balances at one cutoff after one prefix, which all checkpoints of the set share.';

CREATE TABLE amends_bank.checkpoint (
    set_id int4 NOT NULL REFERENCES amends_bank.checkpoint_set,
    account_id int4 NOT NULL REFERENCES amends_bank.account,
    raw_balance numeric NOT NULL,
    PRIMARY KEY (set_id, account_id)
);
"""

KEPT: Final = ("account", "committed_group", "journal", "correction", "receipt", "head")
KEEP: Final = """
CREATE TRIGGER never_changes BEFORE UPDATE OR DELETE ON amends_bank.{table}
    FOR EACH STATEMENT EXECUTE FUNCTION amends_bank.refuse_change();
"""

VIEWS: Final = """
CREATE VIEW amends_bank.leg AS
SELECT s.name AS stream, j.sequence, g.group_id, j.journal_id, leg.place, a.account_id,
    CASE WHEN leg.debit THEN 'debit' ELSE 'credit' END AS side, leg.amount, j.currency,
    j.effective_at, j.recorded_at, r.available_at
FROM amends_bank.journal j
JOIN amends_bank.stream s ON s.id = j.stream_id
JOIN amends_bank.committed_group g
    ON g.stream_id = j.stream_id AND g.last_sequence = j.group_sequence
LEFT JOIN amends_bank.receipt r
    ON r.stream_id = j.stream_id AND r.last_sequence = j.group_sequence
CROSS JOIN unnest(j.leg_accounts, j.leg_debits, j.leg_amounts)
    WITH ORDINALITY leg (account, debit, amount, place)
JOIN amends_bank.account a ON a.id = leg.account;
COMMENT ON VIEW amends_bank.leg IS 'Every leg with names; available_at is null before a receipt.';
"""


def upgrade() -> None:
    """Make the schema, unless somebody with the right to has made it already, and its tables."""
    # "IF NOT EXISTS" would ask for the right to create even where the schema exists.
    if op.get_bind().exec_driver_sql(FIND_SCHEMA).first() is None:
        op.execute(CREATE_SCHEMA)
    for statements in (FUNCTIONS, STREAMS, GROUPS, HEADS):
        op.execute(statements)
    for table in KEPT:
        op.execute(KEEP.format(table=table))
    op.execute(VIEWS)
