"""A stock key before and after a correction, as an SVG of 640 by 320 pixels.

Text from values, and the same text from the same values. Each day is a slot as wide as any other;
a balance stands in the slot of its day and in those after it, up to the next day with one. All
arithmetic is in integers, so closes of 64 bits are placed exactly; coordinates are tenths of a
pixel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from amends_pipeline.inventory.config import StockKey
from amends_pipeline.kernel.drawing import (
    INK,
    LARGE,
    MARGIN,
    PALE,
    SMALL,
    Legend,
    Ruler,
    Signs,
    counted,
    cut,
    opened,
    px,
    round_numbers,
    ruler,
    text,
    width,
)
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
    legend = Legend(_SIGNS, WIDTH)
    levels = _levels_of(story)
    level = levels.bottom <= story.threshold <= levels.top
    legend.add("before", "before: no balance" if story.before.empty else "before")
    legend.add("after", "after: no balance" if story.after.empty else "after")
    place = "" if level else " (above)" if story.threshold > levels.top else " (below)"
    legend.add("threshold", f"threshold {story.threshold:,}{place}")
    for kind, alerts in _alerts(story):
        if alerts:
            legend.add(kind, f"{counted(len(alerts), 'alert')} {_KINDS[kind]}")
    frame = _frame(story, levels, legend.bottom)
    return "\n".join(
        [
            *opened(WIDTH, HEIGHT),
            *_title(story.stock_key),
            *legend.parts,
            *_days(story, frame),
            *_levels(levels, frame),
            *([_threshold(frame, story.threshold)] if level else []),
            *_line("before", story.before, frame),
            *_line("after", story.after, frame),
            *_marks(story, frame),
            "</svg>\n",
        ]
    )


# --- looks

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
_SIGNS = Signs(_STROKES, _DOTS)
_KINDS = {"raised": "raised", "withdrawn": "withdrawn", "standing": "as before"}

_RIGHT = WIDTH - 44
"""Where the days end: half the date of the last one stands beyond."""
_LOWEST = HEIGHT - 34
_LEAD = 140
"""Width in tenths of the balance that the first day begins with."""
_ROOMY = 100
"""Width in tenths of a day that the large sign of an alert has room in."""


def _without(some: Mapping[int, int], others: Mapping[int, int]) -> dict[int, int]:
    return {day: close for day, close in some.items() if day not in others}


def _alerts(story: Story) -> Iterator[tuple[str, Mapping[int, int]]]:
    """Kinds of alerts, what matters most last: it is drawn over the others."""
    yield "standing", story.standing
    yield "withdrawn", story.withdrawn
    yield "raised", story.raised


def _title(stock_key: StockKey) -> Iterator[str]:
    """Item and location on one line. The inner picture clips whatever is wider than it looked."""
    wide = WIDTH - 2 * MARGIN
    room = wide - width(" at ", LARGE)
    # Each has half of the line, and what the other one leaves.
    location = cut(stock_key.location, LARGE, room // 2)
    item = cut(stock_key.item, LARGE, room - width(location, LARGE))
    location = cut(stock_key.location, LARGE, room - width(item, LARGE))
    yield f'<svg x="{MARGIN}" y="6" width="{wide}" height="24">'
    bold = f' font-size="{LARGE}" font-weight="bold"'
    yield text(0, 170, f"{item} at {location}", bold)
    yield "</svg>"


# --- where things stand


def _levels_of(story: Story) -> Ruler:
    """Find round balances around what is shown.

    The threshold is among it unless it is so far away that the balances would look flat.
    """
    shown = [*_balances(story.before), *_balances(story.after)] or [story.threshold]
    low, high = min(shown), max(shown)
    span = high - low
    near = not span or low - 2 * span <= story.threshold <= high + 2 * span
    return ruler([low, high, *([story.threshold] if near else [])])


def _balances(line: Line) -> Iterator[int]:
    if line.entering is not None:
        yield line.entering
    yield from line.closes.values()
    yield from line.alerts.values()


class _Frame(NamedTuple):
    """Where days and balances lie, in tenths of a pixel."""

    left: int
    top: int
    first: int
    days: int
    ruler: Ruler

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


def _frame(story: Story, levels: Ruler, above: int) -> _Frame:
    days = story.last - story.first + 1
    left = 10 * (MARGIN + levels.room() + 8)
    return _Frame(left, 10 * (above + 34), story.first, days, levels)


# --- the parts


def _levels(levels: Ruler, frame: _Frame) -> Iterator[str]:
    size, unit = levels.scale("units")
    yield text(10 * MARGIN, frame.top - 130, unit)
    for value in levels.labels:
        y = frame.y(value)
        label = f"{value // size:,}"
        yield text(frame.left - 80, y + 40, label, ' text-anchor="end"')
        yield f'<path d="M{px(frame.left)} {px(y)}H{px(frame.right)}" stroke="{PALE}"/>'


def _days(story: Story, frame: _Frame) -> Iterator[str]:
    room = (frame.right - frame.left) // 10 // (width("2026-01-01", SMALL) + 10)
    step = next(step for step in round_numbers() if frame.days <= step * room)
    for day in range(story.first, story.last + 1, step):
        x = frame.x(day, 1)
        yield f'<path d="M{px(x)} {px(frame.bottom)}v5" stroke="{INK}"/>'
        yield text(x, frame.bottom + 190, day_text(day), ' text-anchor="middle"')


def _threshold(frame: _Frame, threshold: int) -> str:
    y = px(frame.y(threshold))
    return (
        f'<path class="threshold" d="M{px(frame.left)} {y}H{px(frame.right)}"'
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
        yield f"M{px(frame.left)} {px(at)}"
    for day, close in sorted(line.closes.items()):
        x, y = px(frame.x(day)), frame.y(close)
        if at is None:
            yield f"M{x} {px(y)}"
        elif y != at:
            yield f"H{x}V{px(y)}"
        at = y
    yield f"H{px(frame.right)}"


def _marks(story: Story, frame: _Frame) -> Iterator[str]:
    roomy = frame.x(story.first + 1) - frame.x(story.first) >= _ROOMY
    for kind, alerts in _alerts(story):
        radius = "5" if roomy and kind != "standing" else "3.5"
        yield from _dots(kind, alerts.items(), radius, frame)


def _dots(
    kind: str, alerts: Iterable[tuple[int, int]], radius: str, frame: _Frame
) -> Iterator[str]:
    for day, close in sorted(alerts):
        x, y = px(frame.x(day, 1)), px(frame.y(close))
        yield f'<circle class="{kind}" cx="{x}" cy="{y}" r="{radius}" {_DOTS[kind]}/>'
