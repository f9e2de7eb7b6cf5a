"""When files that are derived from what readers have are made anew, as a table of cases."""

from __future__ import annotations

import pytest

from amends_pipeline.flows.automation import Concern, Request, Skip, Urgency
from amends_pipeline.flows.refresh import Derived, fingerprint, plan_refreshes
from amends_pipeline_tests.flows.situations import NOW, failed, unit

TO_MAKE = {
    "changed, and still since the last look": Derived("files", "v2", "v2", "v1", NOW - 10),
    "nobody knows what they were made from": Derived("files", "v2", "v2", None, None),
    "changing for a minute": Derived("files", "v3", "v2", "v1", NOW - 60),
}
NOT_TO_MAKE = {
    "made from what readers have": (
        Derived("files", "v1", "v1", "v1"),
        "made from what readers have now",
        Concern.NONE,
    ),
    "a run made them, as Dagster knows": (
        Derived("files", "v2", "v2", "v1", attempts=failed(1, 0)._replace(succeeded=True)),
        "made from what readers have now",
        Concern.NONE,
    ),
    "changed since the last look": (
        Derived("files", "v2", "v1", "v1"),
        "what readers have is changing",
        Concern.WAITING,
    ),
    "never looked at": (
        Derived("files", "v1"),
        "what readers have is changing",
        Concern.WAITING,
    ),
    "changing for 59 s": (
        Derived("files", "v3", "v2", "v1", NOW - 59),
        "what readers have is changing",
        Concern.WAITING,
    ),
    "being made": (
        Derived("files", "v2", "v2", "v1", running="run 12345678 (QUEUED)"),
        "run 12345678 (QUEUED) is not finished",
        Concern.WAITING,
    ),
    "failed 4 s ago": (
        Derived("files", "v2", "v2", "v1", attempts=failed(1, 4, "disk full")),
        (
            "1 attempt to make the files anew, the last one ended with: disk full;"
            " tried again at 2026-01-01T00:00:01Z, in 1 s"
        ),
        Concern.STUCK,
    ),
}


@pytest.mark.parametrize("derived", TO_MAKE.values(), ids=TO_MAKE)
def test_files_are_made_anew_behind_everything_else(derived):
    place = f"files@{derived.views}"
    assert plan_refreshes([derived], NOW) == [
        Request("files", place, 0, f"{place}#0", Urgency.RECHECK)
    ]


@pytest.mark.parametrize(("derived", "reason", "concern"), NOT_TO_MAKE.values(), ids=NOT_TO_MAKE)
def test_files_stay_as_they_are(derived, reason, concern):
    assert plan_refreshes([derived], NOW) == [Skip("files", reason, concern)]


def test_a_failed_attempt_is_followed_by_another():
    [request] = plan_refreshes([Derived("files", "v2", "v2", attempts=failed(1, 5))], NOW)
    assert request.run_key == "files@v2#1"


def test_what_readers_have_is_told_by_the_view_frontiers_of_units_that_follow():
    def of(*units):
        return fingerprint(units)

    before = of(unit(5, 5, name="a"), unit(5, 5, name="b", follows=False))
    assert of(unit(5, 9, name="a")) == before, "records came"
    assert of(unit(5, 5, name="b", follows=False), unit(5, 5, name="a")) == before
    assert of(unit(6, 6, name="a")) != before, "envelopes were applied"
    assert of(unit(6, 6, name="a", unapplied=10)) == before, "they are only on their way"
    assert of(unit(5, 5, name="a"), unit(5, 5, name="b")) != before, "another one follows"
    assert of(unit(5, 5, name="a", partition=1)) != before
