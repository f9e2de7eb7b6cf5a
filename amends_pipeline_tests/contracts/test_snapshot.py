from __future__ import annotations

import numpy as np
import pytest

from amends_pipeline.inventory.classify import Code
from amends_pipeline.inventory.envelope import Type, encoded_id
from amends_pipeline.inventory.slice import Rejection
from amends_pipeline.kernel.errors import UnknownNamespace
from amends_pipeline.ports import ConflictRef, Extent, Quarantined, Role, SourceRecord
from amends_pipeline_tests.contracts.bench import SOURCE, STORY, decision, provisioned
from amends_pipeline_tests.envelopes import envelopes
from amends_pipeline_tests.strategies import AWKWARD_KEYS
from amends_pipeline_tests.tables import STOCK_KEYS, configuration, document, encoded, history

MORE = """
    A r4 AMEND day 1 -1
    A r4 AMEND day 1 -2
    b/D r1 NEW day 5 -1
    c/A r1 NEW day 1 -60
    malformed
"""


def seen(snapshot, partitions=1):
    """Everything that a snapshot shows."""
    return {
        "info": snapshot.info(),
        "config": snapshot.config(),
        "incarnation": snapshot.source_incarnation(),
        "extents": list(snapshot.source_extents()),
        "output ends": list(snapshot.output_ends()),
        "progress": list(snapshot.progress()),
        "records": [list(snapshot.records(p, 0, 100)) for p in range(partitions)],
        "set-asides": [list(snapshot.set_asides(p)) for p in range(partitions)],
        "visible": list(snapshot.visible()),
        "visible days": days_of(snapshot),
        "quarantine": list(snapshot.quarantine()),
        "conflicts": list(snapshot.conflicts()),
    }


def days_of(snapshot):
    """Alerts and balances of the columns, as rows in order."""
    found = snapshot.visible_days()
    for columns in found.values():
        assert [(each.dtype, each.ndim) for each in columns] == [(np.int64, 1)] * 3
    return sorted(
        (kind, *row)
        for kind, columns in found.items()
        for row in zip(*(each.tolist() for each in columns), strict=True)
    )


def test_a_snapshot_shows_what_the_store_shows(bench):
    bench.drain(STORY)
    bench.store.set_aside(bench.unit(), 12, "why")
    with bench.store.snapshot("main") as snapshot:
        assert snapshot.info() == bench.store.info("main")
        assert snapshot.config() == bench.config
        assert snapshot.source_incarnation() == bench.source.incarnation()
        assert list(snapshot.source_extents()) == list(bench.source.extents()) == [Extent(0, 10)]
        assert list(snapshot.output_ends()) == [bench.ledger.outputs.end(bench.unit())]
        assert list(snapshot.progress()) == [bench.progress()]
        assert list(snapshot.set_asides(0)) == list(bench.store.set_asides(bench.unit()))


def test_writes_after_it_do_not_show(bench):
    bench.drain(STORY)
    with bench.store.snapshot("main") as snapshot:
        before = seen(snapshot)
    with bench.store.snapshot("main") as snapshot:
        bench.drain(MORE)
        bench.append("C r1 NEW day 7 -1")
        bench.store.set_aside(bench.unit(), 15, "why")
        bench.claim(Role.RELAY)
        assert seen(snapshot) == before
    with bench.store.snapshot("main") as snapshot:
        after = seen(snapshot)
    same = {part for part in before if after[part] == before[part]}
    assert same == {"info", "config", "incarnation"}


def test_a_reset_view_does_not_show_in_it(bench):
    bench.drain(STORY)
    with bench.store.snapshot("main") as snapshot:
        bench.store.reset_view(bench.claim(Role.VIEW))
        assert len(list(snapshot.visible())) > 0
        assert snapshot.progress()[0].view_next > 0


def test_it_shows_the_source_that_is_there_now(bench):
    bench.drain(STORY)
    bound = bench.source.incarnation()
    bench.ledger.forget(SOURCE, 0, 3)
    with bench.store.snapshot("main") as snapshot:
        assert list(snapshot.source_extents()) == [Extent(3, 10)]
        assert [list(run.offsets) for run in snapshot.records(0, 3, 10)] == [list(range(3, 10))]
    bench.ledger.recreate(SOURCE)
    with bench.store.snapshot("main") as snapshot:
        assert snapshot.source_incarnation() == bench.source.incarnation() != bound
        assert snapshot.info().incarnation == bound
        assert list(snapshot.source_extents()) == [Extent(0, 0)]


def test_a_namespace_that_is_not_there_has_none(ledger):
    with pytest.raises(UnknownNamespace), ledger.store.snapshot("nobody"):
        pass


# Source records


@pytest.mark.parametrize(
    ("start", "until"), [(0, 10), (0, 4), (3, 7), (9, 10), (10, 12), (10, 10), (0, 12)]
)
def test_records_come_in_runs_that_cover_what_was_asked(bench, start, until):
    bench.append(STORY)
    bench.ledger.skip(SOURCE, 0, 2)
    with bench.store.snapshot("main") as snapshot:
        runs = list(snapshot.records(0, start, until))
    at = start
    for run in runs:
        assert run.start == at
        at = run.until
    assert at == until or not runs
    offsets = [offset for run in runs for offset in run.offsets]
    assert offsets == [offset for offset in range(start, until) if offset < 10]
    values = [value for run in runs for value in run.values]
    assert values == [line.value for line in history(STORY)][start:until]


def test_many_records_come_in_order_with_their_bytes(bench):
    values = [b"%d" % i + bytes(range(256)) for i in range(5_000)]
    bench.source.append([SourceRecord(0, None, value) for value in values])
    with bench.store.snapshot("main") as snapshot:
        found = [
            pair
            for run in snapshot.records(0, 0, 5_000)
            for pair in zip(run.offsets, run.values, strict=True)
        ]
    assert found == list(enumerate(values))


# Rows that readers see


def test_readers_see_statements_in_the_order_of_encoded_ids(ledger):
    keys = [
        {
            "stock_key": {"item": item, "location": location},
            "opening_balance": 100,
            "reorder_threshold": 60,
            "partition": at % 2,
        }
        for at, (item, location) in enumerate(AWKWARD_KEYS)
    ]
    bench = provisioned(ledger, configuration(partitions=2) | {"keys": keys})
    for at, stock_key in enumerate(AWKWARD_KEYS):
        for day in ("2026-01-10", "2026-01-09"):
            value = encoded(document(stock_key, day, 1, "NEW", f"{day}T00:00:00Z", -50))
            bench.source.append([SourceRecord(at % 2, None, value)])
    for partition in (0, 1):
        bench.drain(partition=partition)
    with ledger.store.snapshot("main") as snapshot:
        ids = [encoded_id(bench.config, each.output_id) for each in snapshot.visible()]
        days = days_of(snapshot)
        statuses = [
            encoded_id(bench.config, each.output_id)
            for each in snapshot.visible([Type.BLOCKED_STATED, Type.READY_STATED])
        ]
    # An alert, two balances and a status of each key.
    assert len(ids) == len(set(ids)) == 4 * len(AWKWARD_KEYS)
    assert ids == sorted(ids, key=str.encode)
    assert [each for each in days if each[0] == Type.ALERT_RAISED] == [
        (Type.ALERT_RAISED, key, 20_462, 50) for key in range(len(AWKWARD_KEYS))
    ]
    assert [each for each in days if each[0] == Type.BALANCE_STATED] == [
        (Type.BALANCE_STATED, key, day, close)
        for key in range(len(AWKWARD_KEYS))
        for day, close in ((20_462, 50), (20_463, 0))
    ]
    assert len(days) + len(AWKWARD_KEYS) == len(ids)
    assert statuses == [each for each in ids if '"key-status"' in each]


def test_withdrawals_are_not_seen(bench):
    bench.drain("A r1 NEW day 1 -50\n B r1 NEW day 2 -5\n A r2 CANCEL day 1")
    with bench.store.snapshot("main") as snapshot:
        assert list(snapshot.visible()) == envelopes(
            """
            a day 2 balance v2 95, by A r2 at 2
            a status v1 READY, by A r1 at 0
            """
        )
        assert days_of(snapshot) == [(Type.BALANCE_STATED, 0, 20_455, 95)]
    assert len(list(bench.store.outbox(bench.unit()))) == 7


def test_pending_rows_are_not_seen(bench):
    bench.work("A r1 NEW day 1 -5")
    with bench.store.snapshot("main") as snapshot:
        assert list(snapshot.visible()) == []
        assert days_of(snapshot) == []
    bench.publish()
    with bench.store.snapshot("main") as snapshot:
        assert list(snapshot.visible()) == []
    bench.project()
    with bench.store.snapshot("main") as snapshot:
        assert len(list(snapshot.visible())) == 2


# Quarantine

EVERY_BYTE = bytes(range(256))


def test_quarantine_keeps_bytes_keys_and_codes_by_partition_and_offset(ledger):
    bench = provisioned(ledger, configuration(partitions=2))
    rejections = [
        Rejection(0, Code.MALFORMED, None, EVERY_BYTE),
        Rejection(3, Code.KEY_MISMATCH, b"", b""),
        Rejection(4, Code.KEY_MISMATCH, EVERY_BYTE, EVERY_BYTE[::-1]),
        Rejection(9, Code.UNKNOWN_KEY, b"\\x41", "\u2028".encode()),
    ]
    for partition in (1, 0):
        token = bench.claim(partition=partition)
        bench.store.commit(token, [decision(0, 4, rejections=rejections[:2])])
        bench.store.commit(token, [decision(4, 10, rejections=rejections[2:])])
    with ledger.store.snapshot("main") as snapshot:
        assert list(snapshot.quarantine()) == [
            Quarantined(partition, each) for partition in (0, 1) for each in rejections
        ]


def test_a_raw_key_of_no_bytes_is_not_no_raw_key(bench):
    given = [Rejection(0, Code.MALFORMED, None, b"x"), Rejection(1, Code.MALFORMED, b"", b"x")]
    bench.store.commit(bench.claim(), [decision(0, 2, rejections=given)])
    with bench.store.snapshot("main") as snapshot:
        assert [each.rejection.raw_key for each in snapshot.quarantine()] == [None, b""]


# Conflicts

CONFLICTS = {
    "none": ("A r1 NEW day 1 -50\n A r1 NEW day 1 -50\n A r2 AMEND day 1 -30", []),
    "two quantities": ("A r1 NEW day 1 -50\n A r1 NEW day 1 -51", ["a A 1"]),
    "two days": ("A r1 NEW day 1 -50\n A r1 NEW day 2 -50", ["a A 1"]),
    "two instants": (
        "A r1 NEW day 1 at 01:00:00 -50\n A r1 NEW day 1 at 01:00:00.000000001 -50",
        ["a A 1"],
    ),
    "two kinds": ("A r1 NEW day 1 -50\n A r1 AMEND day 1 -50", ["a A 1"]),
    "three say three things": (
        "A r1 NEW day 1 -50\n A r1 NEW day 1 -51\n A r1 NEW day 1 -52",
        ["a A 1"],
    ),
    "superseded": ("A r1 NEW day 1 -50\n A r1 NEW day 1 -51\n A r2 AMEND day 1 -30", ["a A 1"]),
    "two of one transaction": (
        "A r2 NEW day 1 -50\n A r2 NEW day 1 -51\n A r1 NEW day 1 1\n A r1 NEW day 1 2",
        ["a A 1", "a A 2"],
    ),
    "among the stale": (
        "A r3 AMEND day 1 -30\n A r1 NEW day 1 -50\n A r1 NEW day 1 -51\n A r1 NEW day 1 -50",
        ["a A 1"],
    ),
    "two kinds, days and instants among the stale": (
        """
        A r2 AMEND day 1 -30
        A r1 NEW day 1 -50
        A r1 AMEND day 1 -50
        B r2 AMEND day 1 -30
        B r1 NEW day 1 -50
        B r1 NEW day 2 -50
        C r2 AMEND day 1 -30
        C r1 NEW day 1 at 01:00:00 -50
        C r1 NEW day 1 at 01:00:00.000000001 -50
        D r2 AMEND day 1 -30
        D r1 NEW day 1 -50
        D r1 NEW day 1 -50
        """,
        ["a A 1", "a B 1", "a C 1"],
    ),
    "a late one against the superseded": (
        "A r1 NEW day 1 -50\n A r2 AMEND day 1 -30\n A r1 NEW day 1 -51",
        ["a A 1"],
    ),
    "one id under two keys": ("A r1 NEW day 1 -50\n b/A r1 NEW day 1 -51", []),
    "in the order of keys, then of bytes": (
        "\n".join(
            f"{key}/{txn} r{revision} NEW day 1 {qty}"
            for key in "ba"
            for txn in ("\U0001f600", "\uff61", "a", "B")
            for revision in (10, 9)
            for qty in (1, 2)
        ),
        [
            f"{key} {txn} {revision}"
            for key in "ab"
            for txn in ("B", "a", "\uff61", "\U0001f600")
            for revision in (9, 10)
        ],
    ),
}


@pytest.mark.parametrize(("text", "expected"), CONFLICTS.values(), ids=CONFLICTS)
@pytest.mark.parametrize("size", [1, 100])
def test_every_conflict_in_the_evidence_is_told(bench, text, expected, size):
    bench.work(text, size=size)
    with bench.store.snapshot("main") as snapshot:
        assert list(snapshot.conflicts()) == [
            ConflictRef(*STOCK_KEYS[key], txn_id, int(revision))
            for key, txn_id, revision in map(str.split, expected)
        ]


def test_conflicts_come_by_key_whatever_their_partitions(ledger):
    keys = configuration(keys="abc", partitions=2)["keys"]
    for key, partition in zip(keys, (1, 0, 1), strict=True):
        key["partition"] = partition
    bench = provisioned(ledger, configuration(partitions=2) | {"keys": keys})
    for letter, partition in (("c", 1), ("b", 0), ("a", 1)):
        lines = "".join(f"{letter}/A r1 NEW day 1 {qty}\n" for qty in (1, 2))
        bench.work(lines, partition=partition)
    with ledger.store.snapshot("main") as snapshot:
        assert [each.location[-1] for each in snapshot.conflicts()] == ["A", "B", "C"]
