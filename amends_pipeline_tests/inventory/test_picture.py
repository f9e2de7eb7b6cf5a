"""A key before and after, as an SVG: read back as XML, the way a browser does."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.inventory.config import StockKey
from amends_pipeline.inventory.picture import HEIGHT, WIDTH, Line, Story, cut, draw
from amends_pipeline.kernel.instants import MAX_DAY, MIN_DAY
from amends_pipeline_tests.tables import FIRST_DAY, day

LARGEST, SMALLEST = 2**63 - 1, -(2**63)
SVG = "{http://www.w3.org/2000/svg}"
KEY = StockKey("DEMO-PART", "DEPOT-A")


def line(text: str, entering: int | None = 100) -> Line:
    """What readers see, as `1: 50 alert, 2: 30`."""
    closes, alerts = {}, {}
    for part in filter(None, text.split(", ")):
        match = re.fullmatch(r"(\d+): (-?\d+)( alert)?", part)
        closes[day(int(match[1]))] = int(match[2])
        if match[3]:
            alerts[day(int(match[1]))] = int(match[2])
    return Line(entering, closes, alerts)


SEED = Story(
    KEY, 60, day(1), day(3), line("1: 50 alert, 2: 30, 3: 80"), line("1: 70, 2: 50 alert, 3: 100")
)


@dataclass
class Seen:
    """A picture as it is read."""

    text: str

    def __post_init__(self):
        self.root = ET.fromstring(self.text)  # noqa: S314 - we wrote it
        self.elements = list(self.root.iter())

    def marks(self, kind: str) -> list[tuple[str, str]]:
        """Where the signs of a kind of alert are."""
        return [(e.get("cx"), e.get("cy")) for e in self.elements if e.get("class") == kind]

    def path(self, kind: str) -> str | None:
        """The steps of a line."""
        return next((e.get("d") for e in self.elements if e.get("class") == kind), None)

    @property
    def words(self) -> list[str]:
        return [e.text for e in self.elements if e.tag == f"{SVG}text"]

    @property
    def title(self) -> str:
        return self.words[0]


def seen(story: Story) -> Seen:
    return Seen(draw(story))


def test_the_seed_s_amendment_stands_where_a_ruler_puts_it():
    picture = seen(SEED)
    # Balances 20 to 100 lie on 286 to 80 pixels, three days on 57 to 596; rounded down to tenths.
    assert picture.path("before") == "M43 80H57V208.8H236.6V260.3H416.3V131.5H596"
    assert picture.path("after") == "M43 80H57V157.3H236.6V208.8H416.3V80H596"
    assert picture.path("threshold") == "M43 183H596"
    assert picture.marks("withdrawn") == [("146.8", "208.8")]
    assert picture.marks("raised") == [("326.5", "208.8")]
    assert picture.marks("standing") == []
    assert picture.words == [
        "DEMO-PART at DEPOT-A",
        "before",
        "after",
        "threshold 60",
        "1 alert withdrawn",
        "1 alert raised",
        "2026-01-01",
        "2026-01-02",
        "2026-01-03",
        "units",
        "20",
        "40",
        "60",
        "80",
        "100",
    ]


def test_alerts_that_came_went_and_stayed_look_different_and_are_counted():
    before = line("1: 50 alert, 2: 70, 3: 50 alert, 4: 70, 5: 10 alert")
    after = line("1: 40 alert, 2: 60, 4: 20 alert, 6: 70, 7: 1 alert")
    picture = seen(Story(KEY, 60, day(1), day(7), before, after))
    assert [len(picture.marks(kind)) for kind in ("standing", "withdrawn", "raised")] == [1, 2, 2]
    assert picture.words[4:7] == ["1 alert as before", "2 alerts withdrawn", "2 alerts raised"]
    hollow = {e.get("fill") for e in picture.elements if e.get("class") == "withdrawn"}
    filled = {e.get("fill") for e in picture.elements if e.get("class") == "raised"}
    assert (hollow, filled) == ({"#ffffff"}, {"#cf222e"})


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (Line(None), line("1: 50"), ["before: no balance", "after"]),
        (line("1: 50"), Line(None), ["before", "after: no balance"]),
    ],
)
def test_a_side_without_a_balance_is_told_and_not_drawn(before, after, words):
    picture = seen(Story(KEY, 60, day(1), day(1), before, after))
    assert picture.words[1:3] == words
    assert [picture.path("before") is None, picture.path("after") is None] == [
        before.empty,
        after.empty,
    ]


def test_a_balance_that_is_not_known_is_not_drawn():
    after = line("2: 50", entering=None)
    picture = seen(Story(KEY, 60, day(1), day(2), line("1: 50"), after))
    left, right = picture.path("before"), picture.path("after")
    assert left.startswith("M43 ")
    assert right.startswith("M326.5 ")  # the middle, where day 2 begins


@pytest.mark.parametrize(
    ("threshold", "words", "drawn"),
    [
        (60, "threshold 60", True),
        (1_000, "threshold 1,000 (above)", False),
        (-1_000, "threshold -1,000 (below)", False),
        (LARGEST, "threshold 9,223,372,036,854,775,807 (above)", False),
    ],
)
def test_a_threshold_far_away_does_not_flatten_the_balances(threshold, words, drawn):
    picture = seen(SEED._replace(threshold=threshold))
    assert picture.words[3] == words
    assert (picture.path("threshold") is not None) is drawn


@pytest.mark.parametrize(
    ("closes", "labels"),
    [
        ([0, 100], ["units", "0", "20", "40", "60", "80", "100"]),
        ([-7, 4], ["units", "-10", "-5", "0", "5"]),
        ([1_000, 2_500], ["units", "1,000", "1,500", "2,000", "2,500"]),
        ([0, 3_000_000], ["million units", "0", "1", "2", "3"]),
        ([SMALLEST, LARGEST], ["quintillion units", "-10", "-5", "0", "5", "10"]),
        (
            [LARGEST - 1, LARGEST],
            ["units", "9,223,372,036,854,775,806", "9,223,372,036,854,775,807"],
        ),
    ],
)
def test_labels_are_round_and_large_units_have_a_name(closes, labels):
    low, high = closes
    after = Line(None, {day(1): low, day(2): high})
    story = Story(KEY, low, day(1), day(2), Line(None), after)
    words = seen(story).words
    assert words[words.index("2026-01-02") + 1 :] == labels


@pytest.mark.parametrize(
    ("days", "labelled"),
    [
        (1, ["2026-01-01"]),
        (3, ["2026-01-01", "2026-01-02", "2026-01-03"]),
        (7, [f"2026-01-0{at}" for at in range(1, 8)]),
        (8, ["2026-01-01", "2026-01-03", "2026-01-05", "2026-01-07"]),
        (365, ["2026-01-01", "2026-04-11", "2026-07-20", "2026-10-28"]),
    ],
)
def test_days_are_labelled_as_far_as_there_is_room(days, labelled):
    story = Story(KEY, 60, day(1), day(days), line("1: 50"), line("1: 70"))
    assert [word for word in seen(story).words if word.startswith("2026")] == labelled


@pytest.mark.parametrize(
    ("item", "location", "title"),
    [
        ("<b>&\"'", "</text>", "<b>&\"' at </text>"),
        ("A\u202eB\n", "\x1b[31m", "A\\u202eB\\n at \\x1b[31m"),
        ("&lt;", "]]>", "&lt; at ]]>"),
        ("\ud800\x00\uffff", "c", "\\ud800\\x00\\uffff at c"),
        ("W" * 80, "l", f"{'W' * 40}… at l"),
        ("a", "i" * 300, f"a at {'i' * 135}…"),
        ("漢" * 50, "b", f"{'漢' * 40}… at b"),
        ("W" * 80, "M" * 80, f"{'W' * 20}… at {'M' * 20}…"),
        ("\x00" * 300, "b", "\\x00" * 18 + "\\x… at b"),
    ],
)
def test_hostile_and_long_names_are_shown_harmless_and_cut(item, location, title):
    assert seen(SEED._replace(stock_key=StockKey(item, location))).title == title


def test_what_the_title_has_no_room_for_is_clipped_by_its_own_picture():
    tower = "Z" + "\u0301" * 30
    picture = seen(SEED._replace(stock_key=StockKey(tower * 9, "\ufdfd" * 99)))
    inner = [e for e in picture.root if e.tag == f"{SVG}svg"]
    assert [(e.get("width"), e.get("height")) for e in inner] == [("608", "24")]
    assert [e.text for e in inner[0]] == [picture.title]


@given(st.text(), st.integers(1, 30), st.integers(20, 400))
def test_a_cut_text_is_printable_and_the_beginning_of_what_it_was(text, size, room):
    shown = cut(text, size, room)
    assert shown.isprintable()
    if text.isprintable() and shown != text:
        assert shown.endswith("…")
        assert text.startswith(shown[:-1])
        assert cut(shown, size, room) == shown


@st.composite
def lines(draw, first: int, last: int) -> Line:
    closes = draw(
        st.dictionaries(st.integers(first, last), st.integers(SMALLEST, LARGEST), max_size=8)
    )
    alerting = draw(st.sets(st.sampled_from(sorted(closes)))) if closes else set()
    entering = draw(st.none() | st.integers(SMALLEST, LARGEST))
    return Line(entering, closes, {at: closes[at] for at in alerting})


@st.composite
def stories(draw) -> Story:
    names = st.text(min_size=1, max_size=200)
    first = draw(st.sampled_from([MIN_DAY, FIRST_DAY, MAX_DAY - 399]))
    last = first + draw(st.integers(0, 399))
    threshold = draw(st.integers(SMALLEST, LARGEST))
    sides = draw(lines(first, last)), draw(lines(first, last))
    return Story(StockKey(draw(names), draw(names)), threshold, first, last, *sides)


def points(path: str) -> list[tuple[float, float]]:
    """The corners of a path of absolute moves."""
    x = y = None
    corners = []
    for kind, one, other in re.findall(r"([MHV])([\d.]+)(?: ([\d.]+))?", path):
        x = float(one) if kind != "V" else x
        y = float(other) if kind == "M" else float(one) if kind == "V" else y
        corners.append((x, y))
    return corners


@given(stories())
def test_any_story_is_drawn_within_the_picture_and_the_same_each_time(story):
    text = draw(story)
    assert text == draw(story)
    picture = Seen(text)
    assert picture.root.get("viewBox") == f"0 0 {WIDTH} {HEIGHT}"
    for kind, line in (("before", story.before), ("after", story.after)):
        corners = points(picture.path(kind) or "")
        assert bool(corners) is not line.empty
        assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in corners)
        assert all(one[0] <= other[0] for one, other in pairwise(corners))
    for kind in ("raised", "withdrawn", "standing"):
        marks = picture.marks(kind)
        assert len(marks) == len(getattr(story, kind))
        assert all(5 <= float(x) <= WIDTH - 5 and 5 <= float(y) <= HEIGHT - 5 for x, y in marks)
    assert all(word.isprintable() and len(word) < 200 for word in picture.words)
    # No word outside of the picture, by the size of its letters.
    for element in picture.elements:
        if element.tag == f"{SVG}text":
            assert 0 <= float(element.get("x")) <= WIDTH
            assert 0 < float(element.get("y")) <= HEIGHT - 10


@given(stories())
def test_a_higher_balance_never_stands_lower(story):
    picture = seen(story)
    marks = {
        day: float(y)
        for kind in ("raised", "withdrawn", "standing")
        for (day, _), (_, y) in zip(
            sorted(getattr(story, kind).items()), picture.marks(kind), strict=True
        )
    }
    closes = {**story.withdrawn, **story.raised, **story.standing}
    ordered = sorted(closes, key=closes.get)
    assert all(marks[low] >= marks[high] for low, high in pairwise(ordered))


def test_a_long_story_stays_small():
    closes = {day(at): at * 7919 % 1_000 for at in range(1, 401)}
    story = Story(KEY, 500, day(1), day(400), Line(100, closes), Line(90, closes))
    assert len(draw(story)) < 20_000
