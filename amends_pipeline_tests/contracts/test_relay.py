from __future__ import annotations

import pytest

from amends_pipeline.inventory.outbox import gap
from amends_pipeline.kernel.errors import FrontierMoved
from amends_pipeline.ports import Role
from amends_pipeline_tests.contracts.bench import STORY, decision, segments_of
from amends_pipeline_tests.envelopes import batch, envelopes

TABLE = """
    a day 1 balance v1 50, by A r1 at 0
    a status v1 READY, by A r1 at 0
    b status v1 READY, by A r1 at 1
    a day 1 balance v2 70, by A r2 at 4
    b status v2 BLOCKED by A r1, by A r1 at 5
    c status v1 READY, by A r1 at 6
"""
SIX = envelopes(TABLE)
SIZES = [2, 1, 0, 3]
"""How many of the six each of four decisions publishes."""


@pytest.fixture
def waiting(bench):
    """Six pending rows of three decisions, and one decision without any."""
    token, at = bench.claim(), 0
    for number, size in enumerate(SIZES):
        columns = batch(SIX[at : at + size])
        bench.store.commit(token, [decision(number, number + 1, at, envelopes=columns)])
        at += size
    return bench


def pending(bench, limit=100):
    return segments_of(bench.store.pending(bench.unit(), limit))


def acknowledge(bench, base, count):
    bench.store.acknowledge(bench.claim(Role.RELAY), base, count)


def test_nothing_is_pending_before_anything_was_decided(bench):
    assert list(bench.store.pending(bench.unit(), 10)) == []
    assert list(bench.store.outbox(bench.unit())) == []
    bench.store.commit(bench.claim(), [decision()])
    assert list(bench.store.pending(bench.unit(), 10)) == []


def test_sequences_are_consecutive_from_0(waiting):
    assert list(waiting.store.outbox(waiting.unit())) == [
        (sequence, False, each) for sequence, each in enumerate(SIX)
    ]
    assert pending(waiting) == list(enumerate(SIX))
    assert waiting.progress().pending == 6


@pytest.mark.parametrize("acknowledged", [0, 3, 6])
def test_segments_tell_where_rows_stand_without_a_gap(waiting, acknowledged):
    acknowledge(waiting, 0, acknowledged)
    segments = list(waiting.store.outbox_segments(waiting.unit()))
    assert gap(segments) is None
    assert sum(count for _, count in segments) == 6
    assert segments == sorted(segments)


def test_an_empty_outbox_has_no_segments(bench):
    bench.store.commit(bench.claim(), [decision()])
    assert list(bench.store.outbox_segments(bench.unit())) == []


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 6, 100])
def test_pending_starts_with_the_earliest_and_keeps_about_to_its_limit(waiting, limit):
    rows = pending(waiting, limit)
    assert rows == list(enumerate(SIX))[: len(rows)]
    assert len(rows) >= 1
    assert len(rows) < limit + max(SIZES)
    assert limit < 6 or len(rows) == 6


@pytest.mark.parametrize("acknowledged", range(7))
def test_acknowledged_rows_are_pending_no_more_wherever_decisions_end(waiting, acknowledged):
    acknowledge(waiting, 0, acknowledged)
    assert pending(waiting) == list(enumerate(SIX))[acknowledged:]
    assert waiting.progress().acknowledged == acknowledged
    assert waiting.progress().pending == 6 - acknowledged
    assert list(waiting.store.outbox(waiting.unit())) == [
        (sequence, sequence < acknowledged, each) for sequence, each in enumerate(SIX)
    ]
    first = waiting.store.pending(waiting.unit(), 1)
    assert [segment.base for segment in first] == [acknowledged][: len(first)]


def test_a_relay_that_died_after_the_first_row_goes_on_with_the_second(waiting):
    acknowledge(waiting, 0, 1)
    other = type(waiting)(waiting.ledger.reopened(), waiting.config)
    for sequence in range(1, 6):
        assert pending(other, 1)[0] == (sequence, SIX[sequence])
        acknowledge(other, sequence, 1)
    assert pending(waiting) == []


@pytest.mark.parametrize("base", [0, 1, 3, 4, 5, 6, 99])
def test_only_the_earliest_pending_rows_can_be_acknowledged(waiting, base):
    acknowledge(waiting, 0, 2)
    token = waiting.claim(Role.RELAY)
    with waiting.unchanged(), pytest.raises(FrontierMoved):
        waiting.store.acknowledge(token, base, 1)


@pytest.mark.parametrize("count", [5, 6, 2**40, -1])
def test_no_more_rows_than_are_pending_can_be_acknowledged(waiting, count):
    acknowledge(waiting, 0, 2)
    token = waiting.claim(Role.RELAY)
    with waiting.unchanged(), pytest.raises(FrontierMoved):
        waiting.store.acknowledge(token, 2, count)


def test_acknowledging_nothing_changes_nothing(waiting):
    token = waiting.claim(Role.RELAY)
    with waiting.unchanged():
        waiting.store.acknowledge(token, 0, 0)


def test_an_acknowledgement_that_is_repeated_is_refused(waiting):
    token = waiting.claim(Role.RELAY)
    waiting.store.acknowledge(token, 0, 2)
    with waiting.unchanged(), pytest.raises(FrontierMoved):
        waiting.store.acknowledge(token, 0, 2)


def test_a_row_committed_later_is_never_behind_the_relay(bench):
    """Whatever is acknowledged, the next commit's rows come right after it and are pending."""
    bench.work(STORY)
    before = pending(bench)
    acknowledge(bench, 0, len(before))
    bench.work("A r3 AMEND day 1 -1")
    after = pending(bench)
    assert after[0][0] == len(before)
    assert len(after) > 0
    bench.publish()
    log = segments_of(bench.ledger.outputs.read(bench.unit(), 0, 1_000))
    assert [each for _, each in log] == [each for _, each in after]


def test_publication_and_acknowledgement_leave_the_worker_alone(waiting):
    before = waiting.progress()
    waiting.publish()
    after = waiting.progress()
    assert after.pending == 0
    assert after[:2] == before[:2]
    assert after[3:5] == before[3:5]


def test_the_outbox_is_read_as_of_one_moment(waiting):
    reading = waiting.store.outbox(waiting.unit())
    first = next(reading)
    acknowledge(waiting, 0, 6)
    waiting.store.commit(waiting.claim(), [decision(4, 5, 6, envelopes=batch(SIX))])
    assert [first, *reading] == [(sequence, False, each) for sequence, each in enumerate(SIX)]
