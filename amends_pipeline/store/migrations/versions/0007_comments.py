"""Every relation of schema amends says what one row of it is, to whoever looks with psql."""

from __future__ import annotations

from typing import Final

from alembic import op

revision: Final = "0007"
down_revision: Final = "0006"

COMMENTS: Final = """
COMMENT ON VIEW amends.balance IS
    'The close of every stock key and UTC day with activity. Rows of a key that key_status '
    'calls BLOCKED are those of the moment before it blocked, and nobody vouches for them.';
COMMENT ON VIEW amends.alert IS
    'Days whose close fell below the threshold of their stock key from one at or above it. Rows '
    'of a key that key_status calls BLOCKED are those of the moment before it blocked.';
COMMENT ON VIEW amends.key_status IS
    'Whether a stock key that any record touched can be relied on: READY, or BLOCKED by the '
    'revisions named, which say two things. A key without a row is READY and was never touched.';
COMMENT ON VIEW amends.outbox IS
    'What was decided, one row for each envelope, in the order of its sequence; acknowledged '
    'once it is in output_log. Close and status are null where an envelope withdraws.';
COMMENT ON VIEW amends.output_log IS
    'What was published, one row for each envelope; one that was in doubt may be there twice.';
COMMENT ON VIEW amends.source_record IS
    'Records of the source logs, byte for byte, one a row. convert_from(value, ''UTF8'') shows '
    'one that is text.';
COMMENT ON VIEW amends.verification IS
    'Every unit of work with the verdict that stands for it; null where nobody has judged it.';
COMMENT ON TABLE amends.worker_progress IS
    'For each unit, the first source offset and outbox sequence that are not decided, and the '
    'epoch of the owner.';
COMMENT ON TABLE amends.relay_progress IS
    'For each unit, the first outbox sequence that is not acknowledged, and the epoch of the '
    'owner.';
COMMENT ON TABLE amends.view_progress IS
    'For each unit, the first output offset that is not applied, why it is not if it never will '
    'be, and the epoch of the owner.';
COMMENT ON TABLE amends.output_end IS
    'For each unit, where its part of output_log ends.';
COMMENT ON TABLE amends.view_row IS
    'The latest version of every output, withdrawn ones too. Read balance, alert and '
    'key_status: a row of no stock key of its unit is shown by none of them, and no verdict '
    'speaks of it.';
"""


def upgrade() -> None:
    """Say what there was nothing said of."""
    op.execute(COMMENTS)
