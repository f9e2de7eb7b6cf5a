"""Which verifications are asked for: situations as a table, as for runs."""

from __future__ import annotations

import pytest

from amends_pipeline.flows.automation import (
    BULK_OFFSETS,
    Concern,
    Request,
    Situation,
    Skip,
    Urgency,
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
    "judged 600 s ago, where it stands": (
        Situation(unit(5, 5), verdict=verdict("PASS", 5, 50, 600)),
        "main|p0@5/50~2025-12-31T23:50:00Z verified#0",
    ),
    "drifted 600 s ago, where it stands": (
        Situation(unit(5, 5), verdict=verdict("DRIFT", 5, 50, 600)),
        "main|p0@5/50~2025-12-31T23:50:00Z verified#0",
    ),
    "stuck behind a record, and judged where it stands an hour ago": (
        Situation(unit(3, 5), verdict=verdict("PASS", 3, 30, 3_600)),
        "main|p0@3/30~2025-12-31T23:00:00Z verified#0",
    ),
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
        Situation(unit(3, 5), verdict=verdict("PASS", 3, 30, 599)),
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
    "judged 599 s ago, where it stands": (
        Situation(unit(5, 5), verdict=verdict("PASS", 5, 50, 599)),
        "PASS stands at source offset 5",
        Concern.NONE,
    ),
    "drifted where it stands": (
        Situation(unit(5, 5), verdict=verdict("DRIFT", 5, 50, 599)),
        "DRIFT stands at source offset 5",
        Concern.NONE,
    ),
    "judged an hour ago, where it stands, and nobody reads it": (
        Situation(unit(5, 5, follows=False), verdict=verdict("PASS", 5, 50, 3_600)),
        "PASS stands at source offset 5",
        Concern.NONE,
    ),
    "judged an hour ago, where it stands, and running": (
        Situation(
            unit(5, 5), verdict=verdict("PASS", 5, 50, 3_600), running="run 12345678 (QUEUED)"
        ),
        "run 12345678 (QUEUED) is not finished",
        Concern.WAITING,
    ),
    "judged again in vain, 4 s ago": (
        Situation(unit(5, 5), verdict=verdict("PASS", 5, 50, 3_600), attempts=failed(1, 4)),
        (
            "1 attempt at source offset 5, the last one ended with: a bad record;"
            " tried again at 2026-01-01T00:00:01Z, in 1 s"
        ),
        Concern.STUCK,
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


# --- rechecks


def idle(seconds_ago: dict[str, int], **members) -> list[Situation]:
    """Units of these names with nothing to process, judged so long ago."""
    return [
        Situation(unit(5, 5, name=name), verdict=verdict("PASS", 5, 50, seconds), **members)
        for name, seconds in seconds_ago.items()
    ]


def asked_of(situations, *more) -> list[str]:
    decisions = plan_verdicts(situations, NOW, *more)
    return [each.subject for each in decisions if isinstance(each, Request)]


@pytest.mark.parametrize(
    ("seconds_ago", "asked"),
    [
        ({"a": 599, "b": 600}, ["b|p0"]),
        ({"a": 700, "b": 3_000, "c": 601, "d": 2_000}, ["b|p0", "d|p0"]),  # the oldest two
        ({"a": 700, "b": 700, "c": 700}, ["a|p0", "b|p0"]),
    ],
)
def test_units_are_judged_again_the_oldest_first_and_few_at_a_time(seconds_ago, asked):
    assert asked_of(idle(seconds_ago)) == asked


def test_a_unit_that_is_being_judged_again_keeps_its_turn():
    oldest = idle({"a": 3_000, "b": 2_000}, running="run 12345678 (STARTED)")
    assert asked_of([*oldest, *idle({"c": 1_000})]) == []


def test_units_with_something_new_to_judge_take_no_turn():
    moved = [
        Situation(unit(5, 5, name=name), verdict=verdict("PASS", 4, 40, 3_000)) for name in "abc"
    ]
    assert asked_of([*moved, *idle({"d": 1_000})]) == ["a|p0", "b|p0", "c|p0", "d|p0"]


def test_how_long_a_verdict_stands_is_the_caller_s_and_may_be_for_ever():
    assert asked_of(idle({"a": 30}), 60, 30) == ["a|p0"]
    assert asked_of(idle({"a": 30}), 60, 31) == []
    assert asked_of(idle({"a": 3_600}), 60, 0) == []


# --- the queue


@pytest.mark.parametrize(
    ("situation", "urgency", "bulk"),
    [
        (Situation(unit(5, 5)), Urgency.VERDICT, False),
        (Situation(unit(BULK_OFFSETS - 1, BULK_OFFSETS - 1)), Urgency.VERDICT, False),
        (Situation(unit(BULK_OFFSETS, BULK_OFFSETS)), Urgency.VERDICT, True),
        (
            Situation(unit(BULK_OFFSETS, BULK_OFFSETS, first_offset=1, start=1)),
            Urgency.VERDICT,
            False,
        ),
        (*idle({"a": 600}), Urgency.RECHECK, False),
    ],
)
def test_a_verdict_waits_behind_corrections_and_a_long_one_is_bulk(situation, urgency, bulk):
    [decision] = plan_verdicts([situation], NOW)
    assert (decision.urgency, decision.bulk) == (urgency, bulk)


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
