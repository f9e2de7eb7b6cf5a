"""The picture of what changed: which key, which days, and the words around it."""

from __future__ import annotations

import base64
import re

import pytest

from amends_pipeline.defs.inventory.changes import Change, Fact
from amends_pipeline.defs.inventory.pictured import (
    DRAWN_DAYS,
    LISTED_DAYS,
    Window,
    most_changed,
    pictured,
    seen,
    story_of,
    unpictured,
)
from amends_pipeline.inventory.config import parse_configuration
from amends_pipeline.inventory.envelope import STATUS_DAY, Cause, Envelope, Type
from amends_pipeline.inventory.picture import Line, draw
from amends_pipeline.kernel.instants import MAX_DAY
from amends_pipeline.ports import Unit
from amends_pipeline_tests.defs.conftest import SEED, on_both
from amends_pipeline_tests.tables import configuration, day

CONFIG = parse_configuration(configuration(keys="abc"))
UNIT = Unit("main", 0)
CAUSE = Cause(0, "A", 1)
PICTURE = "what_changed_picture"


def change(number: int, was: int | None, now: int | None, key: int = 0) -> Change:
    return Change(key, day(number), Fact(was), Fact(now), CAUSE)


def status(key: int = 0) -> Change:
    return Change(key, STATUS_DAY, Fact(blocked_by=()), Fact(blocked_by=(("A", 2),)), CAUSE)


def image(markdown: str) -> str:
    """The SVG in a text."""
    [data] = re.findall(r"\(data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)\)", markdown)
    return base64.b64decode(data, validate=True).decode()


def words(markdown: str) -> str:
    """The text, with the picture left out."""
    return re.sub(r"!\[.*?\]\(data:[^)]*\)\n\n", "", markdown)


# --- which key, which days


@pytest.mark.parametrize(
    ("changed", "key"),
    [
        ([change(1, 50, 70)], 0),
        ([change(1, 50, 70), change(1, 1, 2, key=1), change(2, 1, 2, key=1)], 1),
        # As many days: the one that moved further.
        ([change(1, 50, 70), change(1, 50, 90, key=2)], 2),
        # As far too: the first.
        ([change(1, 50, 70, key=2), change(1, 50, 70, key=1)], 1),
        # A status is no day.
        ([status(1), change(1, 50, 70, key=2)], 2),
    ],
)
def test_the_key_with_the_most_changed_days_is_chosen(changed, key):
    assert most_changed(CONFIG, changed).key == key


@pytest.mark.parametrize("changed", [[], [status()]])
def test_no_key_is_chosen_while_no_day_changed(changed):
    assert most_changed(CONFIG, changed) is None


@pytest.mark.parametrize(
    ("days", "first", "last"),
    [
        ([20], day(13), day(27)),
        ([20, 30], day(13), day(37)),
        ([3], day(1), day(10)),  # the origin is day 1
        ([20, 1_000], day(13), day(13) + DRAWN_DAYS - 1),
    ],
)
def test_the_window_lies_around_the_changed_days_and_is_bounded(days, first, last):
    window = most_changed(CONFIG, [change(at, 1, 2) for at in days])
    assert (window.first, window.last) == (first, last)
    assert len(window.changes) == len(days)


def test_the_window_ends_with_the_calendar():
    changed = [Change(0, MAX_DAY, Fact(1), Fact(2), CAUSE)]
    assert most_changed(CONFIG, changed).last == MAX_DAY


# --- what readers see


class View:
    """Rows of a view."""

    def __init__(self, *envelopes: Envelope) -> None:
        self.rows = {envelope.output_id: envelope for envelope in envelopes}

    def view_rows(self, unit, outputs):
        assert unit == UNIT
        asked = list(outputs)
        assert len(asked) < 3_000
        return {output: self.rows[output] for output in asked if output in self.rows}


def row(kind: Type, number: int, close: int = 0) -> Envelope:
    return Envelope(0, kind, day(number), 1, close, CAUSE, ())


def looked_at(first: int, last: int, *envelopes: Envelope) -> Line:
    return seen(View(*envelopes), UNIT, CONFIG, Window(0, day(first), day(last), [], 1))


def test_balances_and_alerts_of_the_window_are_seen_and_withdrawn_ones_are_not():
    line = looked_at(
        1,
        3,
        row(Type.BALANCE_STATED, 1, 50),
        row(Type.ALERT_RAISED, 1, 50),
        row(Type.BALANCE_RETRACTED, 2),
        row(Type.ALERT_RETRACTED, 2),
        row(Type.BALANCE_STATED, 3, 70),
        row(Type.BALANCE_STATED, 4, 80),
    )
    assert line == Line(100, {day(1): 50, day(3): 70}, {day(1): 50})


@pytest.mark.parametrize(
    ("first", "rows", "entering"),
    [
        # Nothing is before the origin but the opening balance.
        (1, [row(Type.BALANCE_STATED, 1, 50)], 100),
        (5, [row(Type.BALANCE_STATED, 5, 50)], 100),
        (5, [row(Type.BALANCE_STATED, 2, 80), row(Type.BALANCE_STATED, 4, 70)], 70),
        (5, [row(Type.BALANCE_STATED, 2, 80), row(Type.BALANCE_RETRACTED, 4)], 80),
        # Too far back to be found.
        (900, [row(Type.BALANCE_STATED, 1, 50), row(Type.BALANCE_STATED, 900, 40)], None),
        # No balance at all is not the opening balance: readers see nothing.
        (1, [], None),
    ],
)
def test_the_first_day_begins_with_the_latest_balance_before_it(first, rows, entering):
    assert looked_at(first, first + 3, *rows).entering == entering


def test_days_at_the_ends_without_a_balance_are_left_out():
    window = most_changed(CONFIG, [change(20, 1, 2), change(22, 1, 2)])
    before = Line(5, {day(18): 3, day(20): 1, day(22): 1})
    story = story_of(CONFIG, window, before, Line(5, {day(20): 2, day(22): 2, day(24): 2}))
    assert (story.first, story.last) == (day(18), day(24))


# --- the words


def told(changed: list[Change], before: Line, after: Line) -> str:
    window = most_changed(CONFIG, changed)
    return pictured(CONFIG, window, before, after).md_str


def test_one_day_is_told_without_plural():
    before, after = Line(100, {day(1): 50}), Line(100, {day(1): 70})
    markdown = told([change(1, 50, 70)], before, after)
    assert words(markdown) == (
        "DEMO-PART at DEPOT-A: 1 day changed, 2026-01-01.\n\nAlerts raised: 0, withdrawn: 0.\n\n"
        "| day | was | now |\n| --- | ---: | ---: |\n| 2026-01-01 | 50 | 70 |\n"
    )


def test_many_days_are_counted_and_those_after_the_picture_told():
    changed = [change(at, at, at + 1) for at in range(1, 601)]
    changed += [change(1, 1, 2, key=1)]
    markdown = told(changed, Line(100, {day(1): 1}), Line(100, {day(1): 2}))
    assert words(markdown).startswith(
        "DEMO-PART at DEPOT-A: 600 days changed, from 2026-01-01 to 2027-08-23.\n\n"
        "Alerts raised: 0, withdrawn: 0.\n\n"
        "The picture ends on 2027-02-04: 200 changed days are later.\n\n"
        "Of 2 stock keys with changed days, this one changed most.\n\n"
    )
    assert markdown.count("\n| 20") == LISTED_DAYS
    assert markdown.endswith("\nAnd 590 more days.\n")


@pytest.mark.parametrize(
    ("changed", "more"),
    [
        ([], ""),
        ([status()], " The status of 1 stock key changed: see the table what\\_changed."),
        (
            [status(0), status(1)],
            " The status of 2 stock keys changed: see the table what\\_changed.",
        ),
    ],
)
def test_that_no_day_changed_is_told_in_the_place_of_a_picture(changed, more):
    assert unpictured(changed).md_str == f"No balance and no alert changed for readers.{more}"


def test_hostile_names_are_escaped_in_the_text_and_in_the_picture():
    document = configuration(keys="a")
    names = {"item": "](javascript:alert(1))|<b>", "location": "*\u202e\n# x"}
    document["keys"][0]["stock_key"] = names
    config = parse_configuration(document)
    window = most_changed(config, [change(1, 50, 70)])
    lines = Line(100, {day(1): 50}), Line(100, {day(1): 70})
    markdown = pictured(config, window, *lines).md_str
    name = "\\]\\(javascript:alert\\(1\\)\\)\\|\\<b\\> at \\*\\\\u202e\\\\n\\# x"
    assert markdown.startswith(f"{name}: 1 day changed")
    assert f"![Balance of {name} before and after](data:" in markdown
    assert image(markdown) == draw(story_of(config, window, *lines))


# --- through a run


@on_both
def test_the_view_shows_the_seed_s_amendment_as_a_picture(office):
    office.provision(path=SEED / "config.json")
    office.append_file(SEED / "before.jsonl")
    first = office.refold()
    office.append_file(SEED / "correction.jsonl")
    run = office.refold()
    markdown = run.value("materialized_view", PICTURE)
    assert words(markdown) == (
        "DEMO-PART at DEPOT-A: 3 days changed, from 2026-01-01 to 2026-01-03.\n\n"
        "Alerts raised: 1, withdrawn: 1.\n\n"
        "| day | was | now |\n| --- | ---: | ---: |\n"
        "| 2026-01-01 | 50, alert | 70 |\n"
        "| 2026-01-02 | 30 | 50, alert |\n"
        "| 2026-01-03 | 80 | 100 |\n"
    )
    svg = image(markdown)
    for part in ("threshold 60", "1 alert withdrawn", "1 alert raised", 'd="M43 80H57V208.8H236'):
        assert part in svg
    assert "before: no balance" in image(first.value("materialized_view", PICTURE))
    # The other steps have no picture, and the same run again says that there is none.
    assert [PICTURE in run.told(asset) for asset in ("committed_outbox", "output_log")] == [
        False,
        False,
    ]
    assert office.refold().value("materialized_view", PICTURE) == (
        "No balance and no alert changed for readers."
    )


def test_a_key_that_blocks_changes_no_day(main):
    main.append("A r1 NEW day 1 -50")
    main.refold()
    main.append("A r1 NEW day 1 -51")
    assert "The status of 1 stock key changed" in main.refold().value("materialized_view", PICTURE)
