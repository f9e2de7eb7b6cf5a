"""Which landing folders are emptied, and which are left alone."""

from __future__ import annotations

import pytest

from amends_pipeline.flows.automation import (
    Concern,
    Landing,
    Request,
    Skip,
    plan_landings,
)
from amends_pipeline.flows.landing import File, Identity, Seen
from amends_pipeline_tests.flows.situations import NOW, failed

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
    "a link": (
        Landing(Seen("feed", refused="its folder is a link"), known=True),
        "its folder is a link",
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
