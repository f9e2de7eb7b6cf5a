from __future__ import annotations

import pytest

from amends_pipeline.inventory.envelope import STATUS_DAY, Cause, Envelope, Type
from amends_pipeline.kernel.errors import AmendsError, ProtocolStop, UnknownNamespace
from amends_pipeline.kernel.instants import MAX_DAY, MIN_DAY
from amends_pipeline.ports import Unit
from amends_pipeline_tests.contracts.bench import provisioned, segments_of
from amends_pipeline_tests.envelopes import LARGEST, SMALLEST, batch, envelopes
from amends_pipeline_tests.tables import configuration

SIX = """
    a day 1 alert v1 50, by A r1 at 0
    a day 1 balance v1 50, by A r1 at 0
    a day 2 alert v2 withdrawn, by B r1 at 1
    a day 2 balance v2 withdrawn, by A r1 at 0
    a status v2 BLOCKED by A r1, B r2, by B r2 at 7
    b status v1 READY, by C r1 at 3
"""
EXTREMES = [
    Envelope(0, Type.BALANCE_STATED, MIN_DAY, LARGEST, SMALLEST, Cause(LARGEST, "x", LARGEST), ()),
    Envelope(0, Type.ALERT_RAISED, MAX_DAY, 1, LARGEST, Cause(0, '"\\\u2028\x01', 1), ()),
    Envelope(
        *(1, Type.BLOCKED_STATED, STATUS_DAY, 1, 0, Cause(0, "Cafe\u0301", 1)),
        (("Caf\u00e9", 1), ("Caf\u00e9", LARGEST), ("\uff61", 1), ("\U0001f600", 1)),
    ),
    Envelope(1, Type.BALANCE_STATED, -1, 1, -1, Cause(0, "; drop table", 1), ()),
]


def test_a_new_log_is_empty(bench):
    assert bench.ledger.outputs.end(bench.unit()) == 0
    assert list(bench.ledger.outputs.read(bench.unit(), 0, 10)) == []


def test_rows_come_back_in_order_from_offset_0_on(bench):
    outputs, unit, six = bench.ledger.outputs, bench.unit(), envelopes(SIX)
    assert outputs.append(unit, batch(six[:2])) == 0
    assert outputs.append(unit, batch(six[2:3])) == 2
    assert outputs.append(unit, batch(six[3:])) == 3
    assert outputs.end(unit) == 6
    assert segments_of(outputs.read(unit, 0, 100)) == list(enumerate(six))


def test_every_extreme_of_an_envelope_comes_back(ledger):
    bench = provisioned(ledger, configuration(origin="0001-01-01T00:00:00Z"))
    outputs, unit = ledger.outputs, bench.unit()
    outputs.append(unit, batch(EXTREMES))
    assert [each for _, each in segments_of(outputs.read(unit, 0, 100))] == EXTREMES


@pytest.mark.parametrize("cuts", [[6], [1, 6], [2, 3, 6], [1, 2, 3, 4, 5, 6]], ids=str)
@pytest.mark.parametrize("start", range(6))
@pytest.mark.parametrize("limit", [1, 2, 100])
def test_a_read_starts_at_its_offset_and_gets_on(bench, cuts, start, limit):
    outputs, unit, six = bench.ledger.outputs, bench.unit(), envelopes(SIX)
    for begin, end in zip([0, *cuts], cuts, strict=False):
        outputs.append(unit, batch(six[begin:end]))
    rows = segments_of(outputs.read(unit, start, limit))
    assert rows == list(enumerate(six))[start : start + len(rows)]
    assert len(rows) >= 1
    assert limit < 100 or len(rows) == 6 - start


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_repeated_reads_get_everything(bench, limit):
    outputs, unit, six = bench.ledger.outputs, bench.unit(), envelopes(SIX)
    outputs.append(unit, batch(six[:4]))
    outputs.append(unit, batch(six[4:]))
    rows, at = [], 0
    while at < outputs.end(unit):
        rows += segments_of(outputs.read(unit, at, limit))
        at = rows[-1][0] + 1
    assert rows == list(enumerate(six))


@pytest.mark.parametrize("start", [2, 3, 9])
def test_there_is_nothing_past_the_end(bench, start):
    outputs, unit = bench.ledger.outputs, bench.unit()
    outputs.append(unit, batch(envelopes(SIX)[:2]))
    assert list(outputs.read(unit, start, 10)) == []


def test_rows_that_go_twice_stand_twice(bench):
    outputs, unit, six = bench.ledger.outputs, bench.unit(), envelopes(SIX)
    outputs.append(unit, batch(six))
    assert outputs.append(unit, batch(six)) == 6
    assert [each for _, each in segments_of(outputs.read(unit, 0, 100))] == six * 2


def test_appending_nothing_changes_nothing(bench):
    outputs, unit = bench.ledger.outputs, bench.unit()
    outputs.append(unit, batch(envelopes(SIX)[:2]))
    outputs.append(unit, batch([]))
    assert outputs.end(unit) == 2


def test_units_have_logs_of_their_own(ledger):
    keys = configuration(keys="abc", partitions=2)["keys"]
    keys[2]["partition"] = 1
    one = provisioned(ledger, configuration(keys="abc", partitions=2) | {"keys": keys})
    other = provisioned(
        ledger, configuration(keys="abc", partitions=2, namespace="other") | {"keys": keys}
    )
    on_0, on_1 = envelopes("a status v1 READY, by A r1 at 0\n c status v1 READY, by A r1 at 0")
    ledger.outputs.append(one.unit(0), batch([on_0]))
    assert ledger.outputs.append(one.unit(1), batch([on_1, on_1])) == 0
    ends = [ledger.outputs.end(bench.unit(p)) for bench in (one, other) for p in (0, 1)]
    assert ends == [1, 2, 0, 0]
    assert segments_of(ledger.outputs.read(one.unit(1), 0, 9)) == [(0, on_1), (1, on_1)]


@pytest.mark.parametrize("before", [0, 1, 2])
def test_a_row_that_is_no_envelope_ends_the_run_after_what_precedes_it(bench, before):
    outputs, unit, six = bench.ledger.outputs, bench.unit(), envelopes(SIX)
    if before:
        outputs.append(unit, batch(six[:before]))
    bench.ledger.spoil(unit)
    outputs.append(unit, batch(six[before:]))
    assert outputs.end(unit) == 7
    read = []
    with pytest.raises(ProtocolStop):
        read.extend(outputs.read(unit, 0, 100))
    read.clear()
    reading = outputs.read(unit, 0, 100)
    with pytest.raises(ProtocolStop):  # noqa: PT012 - what comes before the stop is the point
        while True:
            read.append(next(reading))
    assert segments_of(read) == list(enumerate(six[:before]))
    assert segments_of(outputs.read(unit, before + 1, 100)) == list(
        enumerate(six[before:], before + 1)
    )


def test_what_was_appended_and_read_is_not_shared(bench):
    outputs, unit, six = bench.ledger.outputs, bench.unit(), envelopes(SIX)
    given = batch(six)
    outputs.append(unit, given)
    given.versions[0] = 99
    given.reasons.clear()
    for segment in outputs.read(unit, 0, 100):
        segment.envelopes.versions[0] = 98
        segment.envelopes.reasons.clear()
    assert [each for _, each in segments_of(outputs.read(unit, 0, 100))] == six


@pytest.mark.parametrize(
    ("unit", "error"), [(Unit("nobody", 0), UnknownNamespace), (Unit("main", 1), AmendsError)]
)
def test_a_unit_that_is_not_there_is_refused(bench, unit, error):
    outputs = bench.ledger.outputs
    for ask in (
        lambda: outputs.end(unit),
        lambda: outputs.append(unit, batch(envelopes(SIX))),
        lambda: list(outputs.read(unit, 0, 1)),
    ):
        with pytest.raises(error):
            ask()
