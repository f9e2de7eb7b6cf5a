"""What people and automation keep: verdicts, accepted exclusions, who is current, landed files."""

from __future__ import annotations

from typing import Final

from alembic import op

revision: Final = "0003"
down_revision: Final = "0002"

VERDICTS: Final = """
CREATE TABLE amends.verdict (
    source_end int8 NOT NULL,
    output_end int8 NOT NULL,
    differences int8 NOT NULL,
    unit_id int4 PRIMARY KEY REFERENCES amends.unit,
    accepted boolean NOT NULL,
    status text COLLATE "C" NOT NULL,
    judged_at text COLLATE "C" NOT NULL,
    judged_by text NOT NULL,
    report text NOT NULL
);
COMMENT ON TABLE amends.verdict IS
    'The standing verdict of every unit that was judged, about the records before source_end.';
COMMENT ON COLUMN amends.verdict.report IS 'The whole report as JSON, every difference.';

CREATE TABLE amends.manifest (
    namespace_id int4 PRIMARY KEY REFERENCES amends.namespace,
    document text NOT NULL
);
COMMENT ON TABLE amends.manifest IS
    'Rejections and conflicts that a person accepts for a namespace, as JSON, exactly.';

CREATE VIEW amends.verification AS
SELECT n.name AS namespace, u.partition, n.follows, v.status, v.accepted, v.source_end,
    v.output_end, v.differences, v.judged_at, v.judged_by
FROM amends.unit u
JOIN amends.namespace n ON n.id = u.namespace_id
LEFT JOIN amends.verdict v ON v.unit_id = u.id;
"""

CURRENT: Final = """
CREATE TABLE amends.current_namespace (
    source_id int4 PRIMARY KEY REFERENCES amends.source,
    namespace_id int4 NOT NULL REFERENCES amends.namespace
);
COMMENT ON TABLE amends.current_namespace IS
    'The namespace that readers of a source see: the first one that followed it.';

INSERT INTO amends.current_namespace (source_id, namespace_id)
SELECT source_id, min(id) FROM amends.namespace WHERE follows GROUP BY source_id;
"""

LANDED: Final = """
CREATE TABLE amends.landed_file (
    id int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    records int8 NOT NULL,
    source text COLLATE "C" NOT NULL,
    digest text COLLATE "C" NOT NULL,
    name text NOT NULL,
    error text,
    landed_at text COLLATE "C" NOT NULL
);
CREATE UNIQUE INDEX landed_file_appended ON amends.landed_file (source, digest)
    WHERE error IS NULL;
CREATE INDEX landed_file_source ON amends.landed_file (source, id);
COMMENT ON TABLE amends.landed_file IS
    'Files of landing folders: appended, each digest once, or set aside with what is wrong.';
"""


def upgrade() -> None:
    """Make the tables, and say who is current of what is there already."""
    for statements in (VERDICTS, CURRENT, LANDED):
        op.execute(statements)
