"""A ledger of the second revision gets its verdicts, and knows at once who is current."""

from __future__ import annotations

from amends_pipeline.assembly import open_ledger
from amends_pipeline.ports import Unit
from amends_pipeline.store.migrate import migrate
from amends_pipeline.store.postgres import Database
from amends_pipeline_tests.contracts.bench import SOURCE, STORY, Bench, provisioned
from amends_pipeline_tests.contracts.test_operations import landed, records, verdict
from amends_pipeline_tests.store.test_migrations import copy_rows, query
from amends_pipeline_tests.tables import configuration

CURRENT = """
SELECT s.name, n.name FROM amends.current_namespace c
JOIN amends.source s ON s.id = c.source_id JOIN amends.namespace n ON n.id = c.namespace_id
ORDER BY s.name
"""
VERIFICATION = "SELECT namespace, partition, status FROM amends.verification ORDER BY 1, 2"


def test_the_first_namespace_that_follows_each_source_becomes_current(tables, database_url):
    document = configuration(keys="abc", namespace="parked")
    provisioned(tables, document, follows=False)
    benches = [
        provisioned(tables, configuration(keys="abc", namespace=name, source=source))
        for name, source in (("second", SOURCE), ("first", SOURCE), ("main", "feed-2"))
    ]
    provisioned(tables, configuration(namespace="quiet", source="feed-3"), follows=False)
    benches[0].drain(STORY, size=3)
    before = benches[0].observed()

    database = Database(database_url)
    migrate(database, to="0002")
    database.close()
    copy_rows(tables, database_url)
    with open_ledger(database_url) as ledger:
        assert query(database_url, CURRENT) == [(SOURCE, "second"), ("feed-2", "main")]
        assert Bench(ledger, benches[0].config).observed() == before
        ledger.operations.record_verdict(verdict(Unit("second", 0)))
        ledger.source(SOURCE).append(records(0), landing=landed())
        ledger.operations.follow("quiet", follows=True)
        ledger.operations.remove("parked")
        assert ledger.operations.current("feed-3") == "quiet"
        assert [each.records for each in ledger.operations.landed(SOURCE)] == [1]
    assert query(database_url, VERIFICATION) == [
        ("first", 0, None),
        ("main", 0, None),
        ("quiet", 0, None),
        ("second", 0, "PASS"),
    ]
