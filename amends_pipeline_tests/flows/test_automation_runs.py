"""Which runs are asked for: situations as a table, decisions as what comes of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.flows.automation import (
    BULK_OFFSETS,
    Attempts,
    Concern,
    Request,
    Situation,
    Skip,
    Urgency,
    backoff_seconds,
    concerns,
    plan_runs,
    requests,
    told,
)
from amends_pipeline_tests.flows.situations import NOW, failed, unit


def decided(situation: Situation) -> Request | Skip:
    [decision] = plan_runs([situation], NOW)
    return decision


ASKED = {
    "behind": (Situation(unit(3, 5)), "main|p0@3->5#0"),
    "behind by one record": (Situation(unit(4, 5)), "main|p0@4->5#0"),
    "at the beginning": (Situation(unit(0, 1)), "main|p0@0->1#0"),
    "at the first offset that the source retains": (
        Situation(unit(3, 5, start=3)),
        "main|p0@3->5#0",
    ),
    "killed between worker and relay": (Situation(unit(5, 5, pending=2)), "main|p0@5->5#0"),
    "killed between relay and view": (Situation(unit(5, 5, unapplied=2)), "main|p0@5->5#0"),
    "a correction came during a run, which is over": (
        Situation(unit(5, 6)),
        "main|p0@5->6#0",
    ),
    "failed once, 5 s ago": (Situation(unit(3, 5), attempts=failed(1, 5)), "main|p0@3->5#1"),
    "failed twice, 10 s ago": (Situation(unit(3, 5), attempts=failed(2, 10)), "main|p0@3->5#2"),
    "failed three times, 20 s ago": (
        Situation(unit(3, 5), attempts=failed(3, 20)),
        "main|p0@3->5#3",
    ),
    "failed for a week, 5 min ago": (
        Situation(unit(3, 5), attempts=failed(2_000, 300)),
        "main|p0@3->5#2000",
    ),
    "failed, then more records came": (
        Situation(unit(3, 9), attempts=failed(1, 5)),
        "main|p0@3->9#1",
    ),
    "another unit of the namespace": (Situation(unit(3, 5, partition=1)), "main|p1@3->5#0"),
}

NOT_ASKED = {
    "caught up": (Situation(unit(5, 5)), "caught up at source offset 5", Concern.NONE),
    "nothing was ever appended": (
        Situation(unit(0, 0)),
        "caught up at source offset 0",
        Concern.NONE,
    ),
    "caught up, and held": (
        Situation(unit(5, 5, holder="warm worker 7")),
        "caught up at source offset 5",
        Concern.NONE,
    ),
    "does not follow": (
        Situation(unit(3, 5, follows=False)),
        "its namespace does not follow the source",
        Concern.NONE,
    ),
    "running": (
        Situation(unit(3, 5), running="run 12345678 (STARTED)"),
        "run 12345678 (STARTED) is not finished",
        Concern.WAITING,
    ),
    "running again after a failure": (
        Situation(unit(3, 5), running="run 12345678 (QUEUED)", attempts=failed(1, 60)),
        "run 12345678 (QUEUED) is not finished",
        Concern.WAITING,
    ),
    "a correction comes during a run": (
        Situation(unit(3, 6), running="run 12345678 (STARTED)"),
        "run 12345678 (STARTED) is not finished",
        Concern.WAITING,
    ),
    "held": (
        Situation(unit(3, 5, holder='warm "worker"\n7')),
        r'held by "warm \"worker\"\n7"',
        Concern.WAITING,
    ),
    "failed once, 4 s ago": (
        Situation(unit(3, 5), attempts=failed(1, 4)),
        (
            "1 attempt from source offset 3, the last one ended with: a bad record;"
            " tried again at 2026-01-01T00:00:01Z, in 1 s"
        ),
        Concern.STUCK,
    ),
    "failed twice, 5 s ago": (
        Situation(unit(3, 5), attempts=failed(2, 5)),
        (
            "2 attempts from source offset 3, the last one ended with: a bad record;"
            " tried again at 2026-01-01T00:00:05Z, in 5 s"
        ),
        Concern.STUCK,
    ),
    "failed seven times, 299 s ago": (
        Situation(unit(3, 5), attempts=failed(7, 299)),
        (
            "7 attempts from source offset 3, the last one ended with: a bad record;"
            " tried again at 2026-01-01T00:00:01Z, in 1 s"
        ),
        Concern.STUCK,
    ),
    "the source ends before what comes next": (
        Situation(unit(5, 3)),
        "expected source offset 5 to come next, found a source that holds 0 to 3",
        Concern.STUCK,
    ),
    "the source starts after what comes next": (
        Situation(unit(3, 9, start=4)),
        "expected source offset 3 to come next, found a source that holds 4 to 9",
        Concern.STUCK,
    ),
    "the source was made anew": (
        Situation(unit(3, 5, bound=False)),
        (
            'expected the log of source "feed" that the namespace was bound to,'
            " found another one of that name"
        ),
        Concern.STUCK,
    ),
    "there is no source log": (
        Situation(unit(3, None, bound=False)),
        'expected a log of source "feed", found none',
        Concern.STUCK,
    ),
}


@pytest.mark.parametrize(("situation", "run_key"), ASKED.values(), ids=ASKED)
def test_a_run_is_asked_for(situation, run_key):
    decision = decided(situation)
    place, attempt = run_key.split("->")[0], int(run_key.split("#")[1])
    unit_ = str(situation.standing.unit)
    assert decision == Request(unit_, place, attempt, run_key, Urgency.SMALL)


@pytest.mark.parametrize(("situation", "reason", "concern"), NOT_ASKED.values(), ids=NOT_ASKED)
def test_no_run_is_asked_for_and_the_reason_is_told(situation, reason, concern):
    assert decided(situation) == Skip("main|p0", reason, concern)


@pytest.mark.parametrize(
    ("made", "seconds"),
    [
        (0, 0),
        (1, 5),
        (2, 10),
        (3, 20),
        (4, 40),
        (5, 80),
        (6, 160),
        (7, 300),
        (8, 300),
        (10**9, 300),
    ],
)
def test_waits_double_from_5_s_to_5_min(made, seconds):
    assert backoff_seconds(made) == seconds


@given(
    st.integers(0, 9),
    st.lists(st.integers(0, 9), max_size=40),
    st.sampled_from(
        [Situation(unit(3, 5)), Situation(unit(3, 9)), Situation(unit(5, 5, pending=1))]
    ),
)
def test_a_run_key_is_never_asked_for_twice_however_runs_end(first, waits, situation):
    """Each request becomes a run that does not help; the next look finds it, and nothing else."""
    now, asked, attempts = NOW + first, [], None
    for wait in waits:
        now += wait
        standing = situation.standing
        [decision] = plan_runs([Situation(standing, attempts=attempts)], now)
        if isinstance(decision, Request):
            asked.append(decision.run_key)
            attempts = Attempts(decision.attempt + 1, now, "no luck")
    assert len(asked) == len(set(asked))


@pytest.mark.parametrize(
    ("lag", "urgency", "bulk"),
    [
        (1, Urgency.SMALL, False),
        (BULK_OFFSETS - 1, Urgency.SMALL, False),
        (BULK_OFFSETS, Urgency.USUAL, True),
        (10**9, Urgency.USUAL, True),
    ],
)
def test_a_small_run_goes_before_all_others_and_a_long_one_is_bulk(lag, urgency, bulk):
    decision = decided(Situation(unit(7, 7 + lag)))
    assert (decision.urgency, decision.bulk) == (urgency, bulk)


def test_what_people_launch_goes_before_verdicts_and_behind_small_runs():
    people = 0  # Dagster's own, for a run without a priority
    assert Urgency.SMALL > people == Urgency.USUAL > Urgency.VERDICT > Urgency.RECHECK


def test_decisions_stand_in_the_order_of_the_units():
    situations = [
        Situation(unit(3, 5, name="a")),
        Situation(unit(5, 5, name="b")),
        Situation(unit(3, 5, name="c", partition=1)),
    ]
    assert [each.subject for each in plan_runs(situations, NOW)] == ["a|p0", "b|p0", "c|p1"]


def test_a_look_asks_for_a_hundred_runs_and_first_for_those_that_were_not_tried():
    situations = [
        Situation(unit(3, 5, partition=number), attempts=failed(1, 60) if number < 50 else None)
        for number in range(130)
    ]
    asked = requests(plan_runs(situations, NOW))
    assert len(asked) == 100
    assert [each.attempt for each in asked] == [0] * 80 + [1] * 20


def test_what_is_stuck_is_told_first_and_ten_are_named():
    decisions = [
        Skip("quiet", "caught up at source offset 5"),
        *(Skip(f"w{number}", "held", Concern.WAITING) for number in range(10)),
        Skip("bad\u202e", "no way", Concern.STUCK),
        Request("main|p0", "main|p0@3", 0, "main|p0@3->5#0"),
    ]
    text = told(concerns(decisions))
    assert text.startswith("bad\\u202e: no way. w0: held. w1: held.")
    assert text.endswith("w8: held. And 1 more.")
    assert told(concerns(decisions[:1])) == ""
