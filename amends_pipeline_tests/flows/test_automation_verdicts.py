"""Which verifications are asked for: situations as a table, as for runs."""

from __future__ import annotations

import pytest

from amends_pipeline.flows.automation import (
    Concern,
    Request,
    Situation,
    Skip,
    plan_runs,
    plan_verdicts,
)
from amends_pipeline.ports import Unit, Verdict
from amends_pipeline_tests.flows.situations import NOW, failed, unit


def verdict(status: str, source_end: int, output_end: int, seconds_ago: int) -> Verdict:
    seconds = 3_600 - seconds_ago
    judged_at = f"2025-12-31T23:{seconds // 60:02}:{seconds % 60:02}Z"
    unit_ = Unit("main", 0)
    accepted = status == "PASS"
    return Verdict(unit_, status, accepted, source_end, output_end, 0, judged_at, "a run", "")


TO_VERIFY = {
    "caught up, never judged": (Situation(unit(5, 5)), "main|p0@5/50 verified#0"),
    "empty, never judged": (Situation(unit(0, 0)), "main|p0@0/0 verified#0"),
    "judged 60 s ago, then records came": (
        Situation(unit(5, 5), verdict=verdict("PASS", 4, 40, 60)),
        "main|p0@5/50 verified#0",
    ),
    "drifted at another boundary": (
        Situation(unit(5, 5), verdict=verdict("DRIFT", 4, 40, 60)),
        "main|p0@5/50 verified#0",
    ),
    "judged at the same source end before envelopes came": (
        Situation(unit(5, 5), verdict=verdict("PASS", 5, 40, 60)),
        "main|p0@5/50 verified#0",
    ),
    "incomplete where it stands": (
        Situation(unit(5, 5), verdict=verdict("INCOMPLETE", 5, 50, 60)),
        "main|p0@5/50 verified#0",
    ),
    "an error where it stands, for the fifth time": (
        Situation(
            unit(5, 5), verdict=verdict("ERROR", 5, 50, 80), attempts=failed(5, 80, "SUCCESS")
        ),
        "main|p0@5/50 verified#5",
    ),
    "the run before failed without a verdict": (
        Situation(unit(5, 5), attempts=failed(1, 5)),
        "main|p0@5/50 verified#1",
    ),
    "held by a warm worker that has caught up": (
        Situation(unit(5, 5, holder="warm worker 7")),
        "main|p0@5/50 verified#0",
    ),
    "rebuilt, and not followed yet": (
        Situation(unit(5, 5, follows=False)),
        "main|p0@5/50 verified#0",
    ),
    "rebuilt while more records came": (
        Situation(unit(5, 9, follows=False)),
        "main|p0@5/50 verified#0",
    ),
    "rebuilt over a source without records": (
        Situation(unit(0, 0, follows=False)),
        "main|p0@0/0 verified#0",
    ),
    "always behind, judged 600 s ago": (
        Situation(unit(3, 5), verdict=verdict("PASS", 2, 20, 600)),
        "main|p0@3/30 verified#0",
    ),
    "always behind, never judged": (Situation(unit(3, 5)), "main|p0@3/30 verified#0"),
    "the view stopped since": (
        Situation(unit(5, 5, unapplied=1, stop="a fault"), verdict=verdict("PASS", 4, 40, 60)),
        "main|p0@5/50 verified#0",
    ),
}

NOT_TO_VERIFY = {
    "never judged, and nothing processed yet": (
        Situation(unit(0, 5)),
        "not caught up with its source",
        Concern.WAITING,
    ),
    "behind, judged 599 s ago": (
        Situation(unit(3, 5), verdict=verdict("PASS", 2, 20, 599)),
        "not caught up with its source",
        Concern.WAITING,
    ),
    "behind, and judged where it stands": (
        Situation(unit(3, 5), verdict=verdict("PASS", 3, 30, 3_600)),
        "PASS stands at source offset 3",
        Concern.NONE,
    ),
    "behind, told an error at a later end, and no further since": (
        Situation(unit(3, 5), verdict=verdict("ERROR", 5, 30, 3_600)),
        "not caught up with its source",
        Concern.WAITING,
    ),
    "envelopes on their way": (
        Situation(unit(5, 5, pending=1)),
        "what was decided has not reached the readers",
        Concern.WAITING,
    ),
    "the view stopped, and this was told": (
        Situation(unit(5, 5, unapplied=1, stop="a fault"), verdict=verdict("ERROR", 5, 50, 3_600)),
        "ERROR stands at source offset 5",
        Concern.NONE,
    ),
    "to be rebuilt by a backfill": (
        Situation(unit(0, 5, follows=False)),
        "waits for its backfill",
        Concern.NONE,
    ),
    "the source was made anew": (
        Situation(unit(5, 5, bound=False)),
        (
            'expected the log of source "feed" that the namespace was bound to,'
            " found another one of that name"
        ),
        Concern.WAITING,
    ),
    "no source log": (
        Situation(unit(5, None)),
        'expected a log of source "feed", found none',
        Concern.WAITING,
    ),
    "running": (
        Situation(unit(5, 5), running="run 12345678 (STARTED)"),
        "run 12345678 (STARTED) is not finished",
        Concern.WAITING,
    ),
    "judged 59 s ago, then records came": (
        Situation(unit(5, 5), verdict=verdict("PASS", 4, 40, 59)),
        "to be verified in 1 s, 60 s after the last time",
        Concern.WAITING,
    ),
    "judged an hour ago, where it stands": (
        Situation(unit(5, 5), verdict=verdict("PASS", 5, 50, 3_600)),
        "PASS stands at source offset 5",
        Concern.NONE,
    ),
    "drifted where it stands": (
        Situation(unit(5, 5), verdict=verdict("DRIFT", 5, 50, 3_600)),
        "DRIFT stands at source offset 5",
        Concern.NONE,
    ),
    "an error where it stands, for the fifth time, 79 s ago": (
        Situation(unit(5, 5), verdict=verdict("ERROR", 5, 50, 79), attempts=failed(5, 79, "OK")),
        (
            "5 attempts at source offset 5, the last one ended with: OK;"
            " tried again at 2026-01-01T00:00:01Z, in 1 s"
        ),
        Concern.STUCK,
    ),
}


@pytest.mark.parametrize(("situation", "run_key"), TO_VERIFY.values(), ids=TO_VERIFY)
def test_a_verification_is_asked_for(situation, run_key):
    [decision] = plan_verdicts([situation], NOW)
    assert isinstance(decision, Request)
    assert decision.run_key == run_key
    assert decision.place == run_key.split(" ", maxsplit=1)[0]


@pytest.mark.parametrize(
    ("situation", "reason", "concern"), NOT_TO_VERIFY.values(), ids=NOT_TO_VERIFY
)
def test_no_verification_is_asked_for(situation, reason, concern):
    assert plan_verdicts([situation], NOW) == [Skip("main|p0", reason, concern)]


def test_places_of_records_and_of_verdicts_are_never_the_same():
    [verified] = plan_verdicts([Situation(unit(5, 5))], NOW)
    [processed] = plan_runs([Situation(unit(5, 6))], NOW)
    assert isinstance(verified, Request)
    assert isinstance(processed, Request)
    assert verified.place != processed.place


def test_the_interval_is_the_caller_s():
    situation = Situation(unit(5, 5), verdict=verdict("PASS", 4, 40, 7))
    assert isinstance(plan_verdicts([situation], NOW, 7)[0], Request)
    assert isinstance(plan_verdicts([situation], NOW, 8)[0], Skip)
