"""When a ledger stream gets a run: situations as a table."""

from __future__ import annotations

import pytest

from amends_pipeline.flows.automation import Attempts, Concern, Request, Skip, Urgency
from amends_pipeline.flows.bank_follow import BULK_JOURNALS, Followed, plan_streams

NOW = 1_000_000


def decided(stream: Followed) -> Request | Skip:
    [decision] = plan_streams([stream], NOW)
    return decision


def failed(ago: int, made: int = 1) -> Attempts:
    return Attempts(made, NOW - ago, "no luck")


ASKED = {
    "never made": (Followed("S", 4), "S@nothing->4#0"),
    "never made, and empty": (Followed("S", 0), "S@nothing->0#0"),
    "behind by one journal": (Followed("S", 5, 4), "S@4->5#0"),
    "made when it was empty": (Followed("S", 1, 0), "S@0->1#0"),
    "failed 5 s ago": (Followed("S", 5, 4, attempts=failed(5)), "S@4->5#1"),
    "failed, and went on since": (Followed("S", 9, 4, attempts=failed(5)), "S@4->9#1"),
}


@pytest.mark.parametrize(("stream", "run_key"), ASKED.values(), ids=ASKED.keys())
def test_a_run_is_asked_for(stream, run_key):
    request = decided(stream)
    assert isinstance(request, Request)
    assert request.run_key == run_key
    assert request.subject == "S"


SKIPPED = {
    "made through its head": (Followed("S", 4, 4), Concern.NONE),
    "made of an offered export that is further": (Followed("S", 4, 9), Concern.NONE),
    "empty and made": (Followed("S", 0, 0), Concern.NONE),
    "running": (Followed("S", 5, 4, running="run 1234 (STARTED)"), Concern.WAITING),
    "failed 4 s ago": (Followed("S", 5, 4, attempts=failed(4)), Concern.STUCK),
    "failed twice, 9 s ago": (Followed("S", 5, 4, attempts=failed(9, made=2)), Concern.STUCK),
    "with a name that is a range": (Followed("A...B", 5, 4), Concern.STUCK),
}


@pytest.mark.parametrize(("stream", "concern"), SKIPPED.values(), ids=SKIPPED.keys())
def test_no_run_is_asked_for(stream, concern):
    skip = decided(stream)
    assert isinstance(skip, Skip)
    assert skip.concern is concern


def test_a_failure_is_told_with_its_error_and_the_time_of_the_next_attempt():
    told = decided(Followed("S", 5, 4, attempts=failed(2)))
    assert told.reason.startswith("1 attempt from sequence 4, the last one ended with: no luck; ")
    assert told.reason.endswith("in 3 s")


def test_small_streams_go_first_and_long_ones_leave_a_place():
    small, long = decided(Followed("S", BULK_JOURNALS - 1)), decided(Followed("S", BULK_JOURNALS))
    assert (small.urgency, small.bulk) == (Urgency.SMALL, False)
    assert (long.urgency, long.bulk) == (Urgency.USUAL, True)
