"""A day reads as the same date whatever zone the session of its reader is in."""

from __future__ import annotations

from typing import Final

from alembic import op

revision: Final = "0006"
down_revision: Final = "0005"

# Of a date alone, to_char makes an instant in the session's zone: midnight on 30 December 2011, a
# day that Samoa did not have, read as the 31st there.
DAY_TEXT: Final = """
CREATE OR REPLACE FUNCTION amends.day_text(day int4) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN day >= -719162
        THEN to_char((date '1970-01-01' + day)::timestamp, 'YYYY-MM-DD') END
$$;
"""


def upgrade() -> None:
    """Say the function anew."""
    op.execute(DAY_TEXT)
