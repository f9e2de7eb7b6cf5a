"""Which runs are asked for: situations as a table, decisions as what comes of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.flows.automation import (
    Attempts,
    Concern,
    Landing,
    Request,
    Situation,
    Skip,
    backoff_seconds,
    concerns,
    plan_landings,
    plan_runs,
    plan_verdicts,
    requests,
    told,
)
from amends_pipeline.flows.landing import File, Identity, Seen
from amends_pipeline.ports import Extent, Progress, Role, Unit, UnitStanding, Verdict

NOW = 1_767_225_600  # 2026-01-01T00:00:00Z
EPOCHS = dict.fromkeys(Role, 1)


def unit(
    at: int,
    end: int | None,
    *,
    start: int = 0,
    pending: int = 0,
    unapplied: int = 0,
    stop: str | None = None,
    name: str = "main",
    partition: int = 0,
    **members: Any,
) -> UnitStanding:
    """A unit at a source offset; its outbox and its log hold 10 envelopes of each record."""
    output_end = 10 * at - pending
    progress = Progress(at, 10 * at, output_end, output_end - unapplied, stop, EPOCHS)
    parts: dict[str, Any] = {
        "unit": Unit(name, partition),
        "source": "feed",
        "follows": True,
        "bound": True,
        "extent": None if end is None else Extent(start, end),
        "first_offset": 0,
        "progress": progress,
        "output_end": output_end,
        "holder": None,
    }
    return UnitStanding(**(parts | members))


def failed(made: int, seconds_ago: int, error: str = "a bad record") -> Attempts:
    return Attempts(made, NOW - seconds_ago, error)


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
    assert decision == Request(str(situation.standing.unit), place, attempt, run_key)


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


# --- verdicts


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


# --- landing folders

FILE = File("a.jsonl", Identity(1, 2, 3, 4))
SEEN = Seen("feed", [FILE])


def test_a_folder_with_a_whole_file_is_emptied():
    place = f"feed@{SEEN.fingerprint}"
    assert plan_landings([Landing(SEEN, known=True)], NOW) == [
        Request("feed", place, 0, f"{place}#0")
    ]


@pytest.mark.parametrize(
    "other",
    [
        [File("b.jsonl", FILE.identity)],
        [FILE, File("b.jsonl", Identity(1, 3, 3, 4))],
        *([File("a.jsonl", FILE.identity._replace(**{name: 9}))] for name in Identity._fields),
    ],
)
def test_other_files_are_another_place(other):
    assert Seen("feed", other).fingerprint != SEEN.fingerprint


LEFT_ALONE = {
    "empty": (Landing(Seen("feed"), known=True), "empty", Concern.NONE),
    "files that are not whole": (
        Landing(
            Seen("feed", [], [("a.part", "is not finished"), ("b\n", "is a link")]), known=True
        ),
        r'"a.part" is not finished, "b\n" is a link',
        Concern.WAITING,
    ),
    "unknown": (
        Landing(SEEN, known=False),
        "no namespace has a source of that name; nothing is taken from the folder",
        Concern.STUCK,
    ),
    "running": (
        Landing(SEEN, known=True, running="run 12345678 (STARTED)"),
        "run 12345678 (STARTED) is not finished",
        Concern.WAITING,
    ),
    "files that a run left where they are": (
        Landing(SEEN, known=True, attempts=failed(2, 5, "they are still there")),
        (
            "2 attempts to take 1 file, the last one ended with: they are still there;"
            " tried again at 2026-01-01T00:00:05Z, in 5 s"
        ),
        Concern.STUCK,
    ),
}


@pytest.mark.parametrize(("landing", "reason", "concern"), LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_a_folder_is_left_alone(landing, reason, concern):
    assert plan_landings([landing], NOW) == [Skip("feed", reason, concern)]
