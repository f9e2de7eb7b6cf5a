"""From records to readers, in every store; after each step the oracle says the same."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from amends_pipeline.flows import ingest
from amends_pipeline.flows.drain import Options, drain_unit, relay_unit
from amends_pipeline.flows.verify import verify
from amends_pipeline.inventory.envelope import Encoder
from amends_pipeline.kernel.errors import Fenced
from amends_pipeline.kernel.instants import day_text
from amends_pipeline.ports import Role
from amends_pipeline_tests.contracts.bench import Bench, provisioned, segments_of
from amends_pipeline_tests.tables import (
    STOCK_KEYS,
    Line,
    configuration,
    document,
    encoded,
    envelope_line,
    history,
    lines,
)


def drained(bench: Bench, records: list[Line], status: str) -> list[dict]:
    """What readers see after these records; the verdict has the status, and no row differs."""
    bench.append_lines(records)
    end = bench.source.extents()[0].end
    drain_unit(bench.ledger, bench.unit(), end, Options("test"))
    report = verify(bench.store, bench.config.namespace)
    assert report.status == status
    assert list(report.differences) == []
    encode = Encoder(bench.config, 0).encode
    with bench.store.snapshot(bench.config.namespace) as snapshot:
        return [json.loads(encode(each)) for each in snapshot.visible()]


def rows(seen: list[dict]) -> list[str]:
    return [envelope_line(each) for each in seen]


def closes(seen: list[dict]) -> list[tuple]:
    """(item, day, close) of the balances."""
    return [
        (each["output_id"]["stock_key"]["item"], each["output_id"]["day"], each["payload"]["close"])
        for each in seen
        if each["output_id"]["family"] == "balance"
    ]


STORIES = {
    "an early day is corrected when later ones are published": (
        configuration(keys="a"),
        [
            (
                "A r1 NEW day 1 50; B r1 NEW day 2 -80; C r1 NEW day 3 -5",
                "PASS",
                """
                a day 1 balance v1 150, by A r1 at 0
                a day 2 balance v1 70, by B r1 at 1
                a day 3 balance v1 65, by C r1 at 2
                a status v1 READY, by A r1 at 0
                """,
            ),
            (
                "A r2 AMEND day 1 30",
                "PASS",
                """
                a day 2 alert v1 50, by A r2 at 3
                a day 1 balance v2 130, by A r2 at 3
                a day 2 balance v2 50, by A r2 at 3
                a day 3 balance v2 45, by A r2 at 3
                a status v1 READY, by A r1 at 0
                """,
            ),
        ],
    ),
    "a correction that is taken back, and made again": (
        configuration(keys="a", opening=10, threshold=6),
        [
            (
                "A r1 NEW day 1 0; B r1 NEW day 2 0",
                "PASS",
                """
                a day 1 balance v1 10, by A r1 at 0
                a day 2 balance v1 10, by B r1 at 1
                a status v1 READY, by A r1 at 0
                """,
            ),
            (
                "A r2 AMEND day 1 -5",
                "PASS",
                """
                a day 1 alert v1 5, by A r2 at 2
                a day 1 balance v2 5, by A r2 at 2
                a day 2 balance v2 5, by A r2 at 2
                a status v1 READY, by A r1 at 0
                """,
            ),
            (
                "A r3 AMEND day 1 0",
                "PASS",
                """
                a day 1 balance v3 10, by A r3 at 3
                a day 2 balance v3 10, by A r3 at 3
                a status v1 READY, by A r1 at 0
                """,
            ),
            (
                "A r4 AMEND day 1 -5",
                "PASS",
                """
                a day 1 alert v3 5, by A r4 at 4
                a day 1 balance v4 5, by A r4 at 4
                a day 2 balance v4 5, by A r4 at 4
                a status v1 READY, by A r1 at 0
                """,
            ),
        ],
    ),
    "a revision that says another thing, and then the first thing again": (
        configuration(keys="ab"),
        [
            (
                "A r1 NEW day 1 -5; b/A r1 NEW day 1 -5; A r1 NEW day 1 -7",
                "BLOCKED",
                """
                a day 1 balance v1 95, by A r1 at 0
                b day 1 balance v1 95, by A r1 at 1
                a status v1 BLOCKED by A r1, by A r1 at 2
                b status v1 READY, by A r1 at 1
                """,
            ),
            (
                "A r1 NEW day 1 -5; b/A r1 NEW day 1 -5; b/B r1 NEW day 2 -1",
                "BLOCKED",
                """
                a day 1 balance v1 95, by A r1 at 0
                b day 1 balance v1 95, by A r1 at 1
                b day 2 balance v1 94, by B r1 at 5
                a status v1 BLOCKED by A r1, by A r1 at 2
                b status v1 READY, by A r1 at 1
                """,
            ),
        ],
    ),
}


@pytest.mark.parametrize("together", [1, 10**9], ids=["as columns", "slice by slice"])
@pytest.mark.parametrize(("document_", "steps"), STORIES.values(), ids=STORIES)
def test_a_story_step_by_step(ledger, monkeypatch, document_, steps, together):
    monkeypatch.setattr(ingest, "BATCH_RECORDS", together)
    bench = provisioned(ledger, document_)
    for records, status, shown in steps:
        assert rows(drained(bench, history(records), status)) == lines(shown)


def test_two_who_say_another_thing_at_once_block_their_key_and_no_other(ledger):
    bench = provisioned(ledger, configuration(keys="ab"))
    drained(bench, history("A r4 NEW day 1 -1"), "PASS")
    together = Barrier(2)

    def say(qty):
        together.wait(20)
        bench.append(f"A r5 AMEND day 1 {qty}; b/A r{-qty} NEW day 1 -1")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(say, [-7, -9]))
    seen = rows(drained(bench, history("b/B r1 NEW day 2 -1"), "BLOCKED"))
    assert seen.pop(0).partition(", by")[0] in {
        "a day 1 balance v2 93",  # as it was before the second one came
        "a day 1 balance v2 91",
    }
    assert [line.partition(", by")[0] for line in seen] == [
        "b day 1 balance v1 99",
        "b day 2 balance v1 98",
        "a status v2 BLOCKED by A r5",
        "b status v1 READY",
    ]
    evidence = bench.store.evidence(bench.unit(), 0)
    said = [each.candidate for each in evidence.observations]
    said += [each.candidate for _, each in evidence.authorities]
    assert sorted(each.qty for each in said if each.revision == 5) == [-9, -7]


def test_a_relay_that_dies_loses_nothing_and_what_goes_again_counts_once(ledger):
    bench = provisioned(ledger)
    bench.work("A r1 NEW day 1 -1; b/A r1 NEW day 1 -1; A r1 NEW day 1 -1", size=3)
    [segment] = bench.store.pending(bench.unit(), 100)
    assert len(segment.envelopes) == 4
    relay = bench.claim(Role.RELAY)
    for count in (1, 2):  # dies when it has published the second one, and only told of the first
        bench.ledger.outputs.append(bench.unit(), segment.envelopes.slice(count - 1, count))
    bench.store.acknowledge(relay, 0, 1)
    again = Bench(ledger.reopened(), bench.config)
    assert relay_unit(again.ledger, bench.unit(), Options("next")) == 3
    logged = [each for _, each in segments_of(ledger.outputs.read(bench.unit(), 0, 100))]
    assert logged == [*segment.envelopes.slice(0, 2), *segment.envelopes.slice(1, 4)]
    assert rows(drained(again, [], "PASS")) == lines(
        """
        a day 1 balance v1 99, by A r1 at 0
        b day 1 balance v1 99, by A r1 at 1
        a status v1 READY, by A r1 at 0
        b status v1 READY, by A r1 at 1
        """
    )


def test_a_relay_that_wakes_up_when_another_one_went_on_changes_nothing_for_readers(ledger):
    bench = provisioned(ledger, configuration(keys="a"))
    bench.work("A r1 NEW day 1 -50")
    slept = bench.claim(Role.RELAY)
    [segment] = bench.store.pending(bench.unit(), 100)
    seen = drained(bench, history("A r2 AMEND day 1 -30"), "PASS")
    assert rows(seen) == lines(
        """
        a day 1 balance v2 70, by A r2 at 1
        a status v1 READY, by A r1 at 0
        """
    )
    again = Bench(ledger.reopened(), bench.config)
    before = bench.progress()
    again.ledger.outputs.append(bench.unit(), segment.envelopes)
    with pytest.raises(Fenced):
        again.store.acknowledge(slept, segment.base, len(segment.envelopes))
    assert bench.progress() == before
    assert drained(bench, [], "PASS") == seen


def of_a(txn_id: str, valid_time: str, qty: int = -1, item: str | None = None) -> Line:
    stock_key = (item or STOCK_KEYS["a"][0], STOCK_KEYS["a"][1])
    return Line(encoded(document(stock_key, txn_id, 1, "NEW", valid_time, qty)))


def test_text_that_cannot_be_stored_stops_nobody(ledger):
    bench = provisioned(ledger, configuration(keys="ab"))
    plain = encoded(document(STOCK_KEYS["a"], "TXN", 1, "NEW", "2026-01-01T12:00:00Z", -1))
    strange = [
        plain.replace(b"DEMO-PART", rb"A\u0000B"),
        plain.replace(b"TXN", rb"\ud800"),
        plain.replace(b"TXN", rb"\ud83d\ude00"),
        plain.replace(b"DEPOT-A", b"DEPOT-B"),
    ]
    seen = drained(bench, [Line(value) for value in strange], "PASS_WITH_EXCLUSIONS")
    assert rows(seen) == lines(
        """
        a day 1 balance v1 99, by \U0001f600 r1 at 2
        b day 1 balance v1 99, by TXN r1 at 3
        a status v1 READY, by \U0001f600 r1 at 2
        b status v1 READY, by TXN r1 at 3
        """
    )
    with bench.store.snapshot("main") as snapshot:
        kept = [each.rejection for each in snapshot.quarantine()]
    assert kept == [(0, "MALFORMED", None, strange[0]), (1, "MALFORMED", None, strange[1])]


def test_names_that_look_alike_are_two(ledger):
    composed, decomposed = "Caf\u00e9", "Cafe\u0301"
    keys = [
        {
            "stock_key": {"item": item, "location": "DEPOT-A"},
            "opening_balance": 100,
            "reorder_threshold": 60,
            "partition": 0,
        }
        for item in (composed, decomposed)
    ]
    bench = provisioned(ledger, configuration() | {"keys": keys})
    noon = "2026-01-01T12:00:00Z"
    records = [
        of_a(composed, noon, -1, composed),
        of_a(decomposed, noon, -2, composed),
        of_a(composed, noon, -4, decomposed),
    ]
    assert closes(drained(bench, records, "PASS")) == [
        (decomposed, "2026-01-01", 96),
        (composed, "2026-01-01", 97),
    ]


TIMES = {
    # Three records of a day on which clocks change in New York, one of the next day
    "2026-03-08T04:59:59Z": "2026-03-08",
    "2026-03-08T05:00:00Z": "2026-03-08",
    "2026-03-08T23:59:59.999999Z": "2026-03-08",
    "2026-03-09T00:00:00Z": "2026-03-09",
    "2026-11-01T05:30:00Z": "2026-11-01",
    "2026-11-01T06:30:00Z": "2026-11-01",
    # Digits that a microsecond does not hold, and offsets that lead to another day
    "2021-03-21T23:59:59.9999999Z": "2021-03-21",
    "2026-01-01T00:30:00+01:00": "2025-12-31",
    "2025-12-31T23:30:00-01:00": "2026-01-01",
    "2026-02-01T00:00:00-00:00": "2026-02-01",
}
NO_TIMES = [
    *("2016-12-31T23:59:60Z", "2026-01-01T24:00:00Z", "2026-01-01t12:00:00Z"),
    *("2026-01-01T12:00:00z", "2026-01-01T12:00:00,5Z", "20260101T000000Z"),
    *("2026-W01-1T00:00:00Z", "2026-01-01T12:00:00+01:00:30", "2026-01-01 12:00:00Z"),
    "2026-01-01T12:00:00.1234567890Z",
]


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
def test_a_day_is_the_utc_date_wherever_the_host_is(ledger, monkeypatch, zone):
    origin = "2016-01-01T00:00:00Z"
    bench = provisioned(ledger, configuration(keys="a", opening=0, threshold=-99, origin=origin))
    records = [of_a(f"T{at}", each, 1) for at, each in enumerate([*TIMES, *NO_TIMES])]
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        seen = drained(bench, records, "PASS_WITH_EXCLUSIONS")
    finally:
        monkeypatch.undo()
        time.tzset()
    days = sorted(TIMES.values())
    assert closes(seen) == [
        ("DEMO-PART", day, days.index(day) + days.count(day)) for day in sorted(set(days))
    ]
    with bench.store.snapshot("main") as snapshot:
        refused = [each.rejection[:2] for each in snapshot.quarantine()]
    assert refused == [(len(TIMES) + at, "MALFORMED") for at in range(len(NO_TIMES))]


def test_large_quantities_stay_exact_and_larger_ones_are_refused(ledger):
    bench = provisioned(ledger, configuration(keys="a", opening=0, threshold=-99))
    days = [f"{day_text(day)}T12:00:00Z" for day in range(20_454, 20_457)]
    records = [
        of_a("A", days[0], 9_007_199_254_740_993),
        of_a("B", days[0], 0),
        of_a("C", days[2], -1),
        of_a("D", days[1], 10**38),
        of_a("E", days[1], 10**38),
    ]
    assert closes(drained(bench, records, "PASS_WITH_EXCLUSIONS")) == [
        ("DEMO-PART", "2026-01-01", 9_007_199_254_740_993),
        ("DEMO-PART", "2026-01-03", 9_007_199_254_740_992),
    ]
