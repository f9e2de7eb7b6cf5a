"""A row that stands where no reader finds it is missing, to the verification as to readers."""

from __future__ import annotations

import pytest

from amends_pipeline.flows.verify import verify
from amends_pipeline.kernel.errors import DatabaseUnavailable
from amends_pipeline.kernel.verdict import Status
from amends_pipeline_tests.contracts.bench import provisioned
from amends_pipeline_tests.tables import configuration

FACTS = """
SELECT count(*) FROM (
    SELECT item FROM amends.balance UNION ALL SELECT item FROM amends.alert
    UNION ALL SELECT item FROM amends.key_status
) f
"""
MISPLACED = {
    "a balance in another unit": ("unit_id = 3 - unit_id", "family = 2", "balance"),
    "an alert in another unit": ("unit_id = 3 - unit_id", "family = 1", "alert"),
    "a status in another unit": ("unit_id = 3 - unit_id", "family = 3", "status"),
    "a balance in another family": ("family = 3", "family = 2", "balance"),
    "an alert in another family": ("family = 3", "family = 1", "alert"),
    "a status in another family": ("family = 1", "family = 3", "status"),
    "a balance of no key": ("key = 2", "family = 2", "balance"),
    "an alert of a key below all": ("key = -1", "family = 1", "alert"),
    "a status of no key": ("key = 2", "family = 3", "status"),
}


@pytest.mark.parametrize(("change", "of", "kind"), MISPLACED.values(), ids=MISPLACED)
def test_a_misplaced_row_is_missing(tables, change, of, kind):
    document = configuration(partitions=2)
    document["keys"][1]["partition"] = 1
    bench = provisioned(tables, document)
    bench.drain("A r1 NEW day 1 -50")
    bench.drain("b/B r1 NEW day 1 -50", partition=1)
    assert verify(tables.store, "main").status is Status.PASS
    assert tables.sql(FACTS) == [(6,)]
    tables.sql(f"UPDATE amends.view_row SET {change} WHERE {of} AND key = 0")  # noqa: S608 - words of the table above
    report = verify(tables.store, "main", wait_seconds=0)
    assert tables.sql(FACTS) == [(5,)]
    assert report.status is Status.DRIFT
    assert [(each.kind, each.location, each.found) for each in report.differences] == [
        (kind, "DEPOT-A", None)
    ]


def test_a_row_of_no_day_is_told_by_its_number(tables):
    bench = provisioned(tables, configuration())
    bench.drain("A r1 NEW day 1 -50")
    tables.sql("UPDATE amends.view_row SET day = 5000000 WHERE family = 2")
    report = verify(tables.store, "main", wait_seconds=0)
    told = [(each.kind, each.day, each.expected is None) for each in report.differences]
    assert told == [
        ("balance", "2026-01-01", False),
        ("balance", "day number 5000000", True),
    ]


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ("quarantine SET code = 'NONSENSE'", "stored quarantine of partition 0, offset 3"),
        ("view_row SET reason_revisions = '{1, 2}' WHERE family = 3", "stored view row of key 0"),
        (
            "view_row SET reason_txn_ids = '{NULL}', reason_revisions = '{1}' WHERE family = 3",
            "stored view row of key 0",
        ),
    ],
)
def test_what_no_writer_stores_is_told_with_its_place(tables, change, where):
    bench = provisioned(tables, configuration())
    bench.drain("A r1 NEW day 1 -50\nB r1 NEW day 2 1\nB r1 NEW day 2 2\nmalformed")
    tables.sql(f"UPDATE amends.{change}")
    with pytest.raises(DatabaseUnavailable, match=where):
        verify(tables.store, "main", wait_seconds=0)
