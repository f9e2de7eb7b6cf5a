"""Heads of streams that are kept elsewhere, as far as their exports were accepted here."""

from __future__ import annotations

from typing import Final

from alembic import op

revision: Final = "0005"
down_revision: Final = "0004"

OFFERED: Final = """
CREATE TABLE amends_bank.offered_stream (
    id int4 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    ledger_id text COLLATE "C" NOT NULL,
    entity_id text COLLATE "C" NOT NULL
);
COMMENT ON TABLE amends_bank.offered_stream IS
    'Streams that others keep, and offer exports of. Who accepts one locks the row.';

CREATE TABLE amends_bank.offered_head (
    stream_id int4 NOT NULL REFERENCES amends_bank.offered_stream,
    head_sequence numeric NOT NULL,
    observed_at text COLLATE "C" NOT NULL,
    receipt_ref text COLLATE "C" NOT NULL,
    digest bytea NOT NULL,
    PRIMARY KEY (stream_id, head_sequence, observed_at)
);
COMMENT ON TABLE amends_bank.offered_head IS
    'Their heads that were accepted. A sequence of somebody else''s may have 30 digits.';

CREATE TRIGGER never_changes BEFORE UPDATE OR DELETE ON amends_bank.offered_head
    FOR EACH STATEMENT EXECUTE FUNCTION amends_bank.refuse_change();
"""


def upgrade() -> None:
    """Make the tables."""
    op.execute(OFFERED)
