"""A stock key before and after a correction, as an SVG of 640 by 320 pixels.

Text from values, and the same text from the same values. Each day is a slot as wide as any other;
a balance stands in the slot of its day and in those after it, up to the next day with one. All
arithmetic is in integers, so closes of 64 bits are placed exactly; coordinates are tenths of a
pixel.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import NamedTuple

from amends_pipeline.inventory.config import StockKey
from amends_pipeline.kernel.display import escape_html, escape_terminal
from amends_pipeline.kernel.instants import day_text

WIDTH = 640
HEIGHT = 320

NOTHING: Mapping[int, int] = {}


class Line(NamedTuple):
    """What readers see of a key over the days of a story."""

    entering: int | None
    """The balance that the first day begins with; None where it is not known."""
    closes: Mapping[int, int] = NOTHING
    """By day."""
    alerts: Mapping[int, int] = NOTHING
    """Closes by day of crossing."""

    @property
    def empty(self) -> bool:
        """Whether readers see no balance at all."""
        return self.entering is None and not self.closes


class Story(NamedTuple):
    """A key over consecutive days, as readers saw it and as they see it now."""

    stock_key: StockKey
    threshold: int
    first: int
    last: int
    """The last day, included."""
    before: Line
    after: Line

    @property
    def raised(self) -> Mapping[int, int]:
        """Alerts that are new to readers: closes by day."""
        return _without(self.after.alerts, self.before.alerts)

    @property
    def withdrawn(self) -> Mapping[int, int]:
        """Alerts that readers no longer see: closes by day, as they were."""
        return _without(self.before.alerts, self.after.alerts)

    @property
    def standing(self) -> Mapping[int, int]:
        """Alerts before and after: closes by day, as they are now."""
        return _without(self.after.alerts, self.raised)


def draw(story: Story) -> str:
    """Return the SVG: both balances as steps, the threshold, and the alerts that came and went."""
    legend = _Legend()
    ruler = _ruler(story)
    level = ruler.bottom <= story.threshold <= ruler.top
    legend.add("before", "before: no balance" if story.before.empty else "before")
    legend.add("after", "after: no balance" if story.after.empty else "after")
    place = "" if level else " (above)" if story.threshold > ruler.top else " (below)"
    legend.add("threshold", f"threshold {story.threshold:,}{place}")
    for kind, alerts in _alerts(story):
        if alerts:
            legend.add(kind, f"{_counted(len(alerts), 'alert')} {_KINDS[kind]}")
    frame = _frame(story, ruler, legend.bottom)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {_SIZE} {_FONT} fill="{_INK}">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
            *_title(story.stock_key),
            *legend.parts,
            *_days(story, frame),
            *_levels(ruler, frame),
            *([_threshold(frame, story.threshold)] if level else []),
            *_line("before", story.before, frame),
            *_line("after", story.after, frame),
            *_marks(story, frame),
            "</svg>\n",
        ]
    )


# --- looks

_INK = "#24292f"
_PALE = "#d8dee4"
_SMALL = 11
_LARGE = 14
_SIZE = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
_FONT = f'font-family="Helvetica, Arial, sans-serif" font-size="{_SMALL}"'
_STROKES = {
    "before": 'stroke="#b1b8c0" stroke-width="4"',
    "after": 'stroke="#0969da" stroke-width="2"',
    "threshold": 'stroke="#9a6700" stroke-width="1" stroke-dasharray="5 3"',
}
_DOTS = {
    "raised": 'fill="#cf222e" stroke="#ffffff"',
    "withdrawn": 'fill="#ffffff" stroke="#cf222e" stroke-width="2"',
    "standing": 'fill="#57606a" stroke="#ffffff"',
}
_KINDS = {"raised": "raised", "withdrawn": "withdrawn", "standing": "as before"}

_MARGIN = 16
_RIGHT = WIDTH - 44
"""Where the days end: half the date of the last one stands beyond."""
_LOWEST = HEIGHT - 34
_LEAD = 140
"""Width in tenths of the balance that the first day begins with."""
_ROOMY = 100
"""Width in tenths of a day that the large sign of an alert has room in."""
_LEVELS = 5
"""At most so many steps between the lowest and the highest label of the balance."""


def _without(some: Mapping[int, int], others: Mapping[int, int]) -> dict[int, int]:
    return {day: close for day, close in some.items() if day not in others}


def _alerts(story: Story) -> Iterator[tuple[str, Mapping[int, int]]]:
    """Kinds of alerts, what matters most last: it is drawn over the others."""
    yield "standing", story.standing
    yield "withdrawn", story.withdrawn
    yield "raised", story.raised


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _px(tenths: int) -> str:
    """Write tenths of a pixel: 125 as 12.5, 120 as 12."""
    whole, rest = divmod(tenths, 10)
    return f"{whole}.{rest}" if rest else f"{whole}"


def _text(x: int, y: int, content: str, more: str = "") -> str:
    return f'<text x="{_px(x)}" y="{_px(y)}"{more}>{escape_html(content)}</text>'


# --- text whose width nobody knows

_NARROW = frozenset("ijl|!.,:;'`")
_SLIM = frozenset("fIrt()[]/\\- ")
_BROAD = frozenset("mwMW@%")


def _hundredths(character: str) -> int:
    """About how wide a character is, in hundredths of the font's size; rather too wide."""
    if character in _NARROW:
        return 30
    if character in _SLIM:
        return 38
    if character in _BROAD or unicodedata.east_asian_width(character) in {"W", "F"}:
        return 100
    return 74 if character.isupper() else 60


def _width(text: str, size: int) -> int:
    """About how many pixels a text takes."""
    return sum(map(_hundredths, text)) * size // 100


def cut(text: str, size: int, room: int) -> str:
    """Return the text on one line, cut with an ellipsis so that it takes about `room` pixels."""
    safe = escape_terminal(text[:room])  # no character is narrower than a pixel, escapes are longer
    if _width(safe, size) <= room and len(text) <= room:
        return safe
    room -= _width("\N{HORIZONTAL ELLIPSIS}", size)
    used = 0
    kept = []
    for character in safe:
        used += _hundredths(character) * size
        if used > room * 100:
            break
        kept.append(character)
    return f"{''.join(kept).rstrip()}\N{HORIZONTAL ELLIPSIS}"


def _title(stock_key: StockKey) -> Iterator[str]:
    """Item and location on one line. The inner picture clips whatever is wider than it looked."""
    wide = WIDTH - 2 * _MARGIN
    room = wide - _width(" at ", _LARGE)
    # Each has half of the line, and what the other one leaves.
    location = cut(stock_key.location, _LARGE, room // 2)
    item = cut(stock_key.item, _LARGE, room - _width(location, _LARGE))
    location = cut(stock_key.location, _LARGE, room - _width(item, _LARGE))
    yield f'<svg x="{_MARGIN}" y="6" width="{wide}" height="24">'
    bold = f' font-size="{_LARGE}" font-weight="bold"'
    yield _text(0, 170, f"{item} at {location}", bold)
    yield "</svg>"


class _Legend:
    """Signs and words under the title, in as many rows as they need."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._x = _MARGIN
        self._y = 46

    @property
    def bottom(self) -> int:
        """Where the last row ends."""
        return self._y

    def add(self, kind: str, words: str) -> None:
        """Put the sign of a kind and what it means behind the others."""
        wide = 26 + _width(words, _SMALL)
        if self._x + wide > WIDTH - _MARGIN and self._x > _MARGIN:
            self._x = _MARGIN
            self._y += 17
        x, y = self._x, self._y - 4
        self.parts.append(
            f'<path d="M{x} {y}h18" {_STROKES[kind]}/>'
            if kind in _STROKES
            else f'<circle cx="{x + 9}" cy="{y}" r="5" {_DOTS[kind]}/>'
        )
        self.parts.append(_text(10 * (x + 24), 10 * self._y, words))
        self._x += wide + 16


# --- where things stand


class _Ruler(NamedTuple):
    """The range of balances that is drawn, and its labels."""

    bottom: int
    top: int
    step: int

    @property
    def labels(self) -> range:
        """The balances that are labelled."""
        return range(self.bottom, self.top + 1, self.step)

    @property
    def scale(self) -> tuple[int, str]:
        """What the labels are divided by, and its name."""
        for size, name in _SCALES:
            if all(value % size == 0 for value in self.labels):
                return size, f"{name} units"
        return 1, "units"


_SCALES = [
    (10**18, "quintillion"),
    (10**15, "quadrillion"),
    (10**12, "trillion"),
    (10**9, "billion"),
    (10**6, "million"),
]


def _ruler(story: Story) -> _Ruler:
    """Find round balances around what is shown.

    The threshold is among it unless it is so far away that the balances would look flat.
    """
    shown = [*_balances(story.before), *_balances(story.after)] or [story.threshold]
    low, high = min(shown), max(shown)
    span = high - low
    if not span or low - 2 * span <= story.threshold <= high + 2 * span:
        low, high = min(low, story.threshold), max(high, story.threshold)
    if low == high:
        low, high = low - 1, high + 1
    step = next(step for step in _round_numbers() if high - low <= _LEVELS * step)
    return _Ruler(low // step * step, -(-high // step) * step, step)


def _balances(line: Line) -> Iterator[int]:
    if line.entering is not None:
        yield line.entering
    yield from line.closes.values()
    yield from line.alerts.values()


def _round_numbers() -> Iterator[int]:
    """1, 2, 5, 10, 20, 50, 100, and so on."""
    return (digit * 10**zeros for zeros in count() for digit in (1, 2, 5))


class _Frame(NamedTuple):
    """Where days and balances lie, in tenths of a pixel."""

    left: int
    top: int
    first: int
    days: int
    ruler: _Ruler

    @property
    def right(self) -> int:
        """Where the last day ends."""
        return 10 * _RIGHT

    @property
    def bottom(self) -> int:
        """Where the lowest label stands."""
        return 10 * _LOWEST

    def x(self, day: int, halves: int = 0) -> int:
        """Where a day begins; where it is half over, with one half."""
        begin = self.left + _LEAD
        return begin + (self.right - begin) * (2 * (day - self.first) + halves) // (2 * self.days)

    def y(self, balance: int) -> int:
        """How far down a balance stands."""
        low, high = self.ruler.bottom, self.ruler.top
        return self.bottom - (self.bottom - self.top) * (balance - low) // (high - low)


def _frame(story: Story, ruler: _Ruler, above: int) -> _Frame:
    size, _ = ruler.scale
    wide = max(_width(f"{value // size:,}", _SMALL) for value in ruler.labels)
    days = story.last - story.first + 1
    return _Frame(10 * (_MARGIN + wide + 8), 10 * (above + 34), story.first, days, ruler)


# --- the parts


def _levels(ruler: _Ruler, frame: _Frame) -> Iterator[str]:
    size, unit = ruler.scale
    yield _text(10 * _MARGIN, frame.top - 130, unit)
    for value in ruler.labels:
        y = frame.y(value)
        label = f"{value // size:,}"
        yield _text(frame.left - 80, y + 40, label, ' text-anchor="end"')
        yield f'<path d="M{_px(frame.left)} {_px(y)}H{_px(frame.right)}" stroke="{_PALE}"/>'


def _days(story: Story, frame: _Frame) -> Iterator[str]:
    room = (frame.right - frame.left) // 10 // (_width("2026-01-01", _SMALL) + 10)
    step = next(step for step in _round_numbers() if frame.days <= step * room)
    for day in range(story.first, story.last + 1, step):
        x = frame.x(day, 1)
        yield f'<path d="M{_px(x)} {_px(frame.bottom)}v5" stroke="{_INK}"/>'
        yield _text(x, frame.bottom + 190, day_text(day), ' text-anchor="middle"')


def _threshold(frame: _Frame, threshold: int) -> str:
    y = _px(frame.y(threshold))
    return (
        f'<path class="threshold" d="M{_px(frame.left)} {y}H{_px(frame.right)}"'
        f" {_STROKES['threshold']}/>"
    )


def _line(kind: str, line: Line, frame: _Frame) -> Iterator[str]:
    if not line.empty:
        steps = "".join(_steps(line, frame))
        yield f'<path class="{kind}" d="{steps}" fill="none" {_STROKES[kind]}/>'


def _steps(line: Line, frame: _Frame) -> Iterator[str]:
    at = None
    if line.entering is not None:
        at = frame.y(line.entering)
        yield f"M{_px(frame.left)} {_px(at)}"
    for day, close in sorted(line.closes.items()):
        x, y = _px(frame.x(day)), frame.y(close)
        if at is None:
            yield f"M{x} {_px(y)}"
        elif y != at:
            yield f"H{x}V{_px(y)}"
        at = y
    yield f"H{_px(frame.right)}"


def _marks(story: Story, frame: _Frame) -> Iterator[str]:
    roomy = frame.x(story.first + 1) - frame.x(story.first) >= _ROOMY
    for kind, alerts in _alerts(story):
        radius = "5" if roomy and kind != "standing" else "3.5"
        yield from _dots(kind, alerts.items(), radius, frame)


def _dots(
    kind: str, alerts: Iterable[tuple[int, int]], radius: str, frame: _Frame
) -> Iterator[str]:
    for day, close in sorted(alerts):
        x, y = _px(frame.x(day, 1)), _px(frame.y(close))
        yield f'<circle class="{kind}" cx="{x}" cy="{y}" r="{radius}" {_DOTS[kind]}/>'
