from __future__ import annotations

import pytest

from amends_pipeline.inventory.outbox import gap
from amends_pipeline.kernel.errors import InputError, UnknownNamespace
from amends_pipeline.ports import Unit
from amends_pipeline_tests.contracts.bench import STORY


def test_an_empty_outbox_has_no_segments(bench):
    assert list(bench.store.outbox_segments(bench.unit())) == []


def test_each_decision_that_publishes_is_a_segment(bench):
    bench.work("A r1 NEW day 1 -50")  # alert, balance, status
    bench.work("malformed")  # nothing
    bench.work("B r1 NEW day 2 -20")  # a balance
    assert list(bench.store.outbox_segments(bench.unit())) == [(0, 3), (3, 1)]


@pytest.mark.parametrize("size", [1, 3, 10])
def test_segments_cover_the_outbox(bench, size):
    bench.work(STORY, size=size)
    segments = list(bench.store.outbox_segments(bench.unit()))
    assert gap(segments) is None
    assert sum(count for _, count in segments) == len(list(bench.store.outbox(bench.unit())))
    bench.publish()
    assert list(bench.store.outbox_segments(bench.unit())) == segments


def test_a_unit_that_is_not_there_has_no_outbox(bench):
    with pytest.raises(UnknownNamespace):
        bench.store.outbox_segments(Unit("ghost", 0))
    with pytest.raises(InputError):
        bench.store.outbox_segments(Unit("main", 9))
