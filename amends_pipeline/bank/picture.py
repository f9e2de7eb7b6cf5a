"""One account over both of its times, as an SVG of 640 by 420 pixels.

Above, the balance by economic time: as it was known before the last correction became known, and as
it is known now. Below, the balance by knowledge time: how it came to be known. Text from values,
and the same text from the same values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from amends_pipeline.bank.movements import Movement
from amends_pipeline.kernel.drawing import (
    INK,
    LARGE,
    MARGIN,
    PALE,
    SMALL,
    Legend,
    Ruler,
    Signs,
    cut,
    opened,
    px,
    round_numbers,
    ruler,
    text,
    width,
)
from amends_pipeline.kernel.instants import day_text, parse_instant

WIDTH: Final = 640
HEIGHT: Final = 420
MARKED_CORRECTIONS: Final = 30
"""Moments at which corrections became known that are all marked; of more, the last one is."""


class Story(NamedTuple):
    """What moved an account, and the moment of knowledge that is compared with now."""

    account_id: str
    currency: str
    moved: Sequence[Movement]
    """In sequence order."""
    then: str | None
    """An inclusive knowledge cutoff; None where there is nothing to compare with."""

    @property
    def known_then(self) -> list[Movement]:
        """What was known at that moment."""
        return [] if self.then is None else [m for m in self.moved if m.available_at <= self.then]


def draw(story: Story) -> str:
    """Return the SVG."""
    legend = Legend(_SIGNS, WIDTH)
    if story.then is not None:
        legend.add("then", f"as known at {story.then}")
    legend.add("now", "as known now")
    receipts = _corrected(story)
    if len(receipts) > MARKED_CORRECTIONS:
        legend.add("correction", f"the last of {len(receipts):,} corrections became known")
        receipts = receipts[-1:]
    elif receipts:
        legend.add("correction", "a correction became known")
    economic = [
        *([("then", _steps(story.known_then, "effective_at"))] if story.then is not None else []),
        ("now", _steps(story.moved, "effective_at")),
    ]
    knowledge = [("now", _steps(story.moved, "available_at"))]
    top = legend.bottom + 18
    middle = (top + HEIGHT) // 2
    return "\n".join(
        [
            *opened(WIDTH, HEIGHT),
            *_title(story),
            *legend.parts,
            *_panel("by economic time", economic, top, middle - 6),
            *_panel("by knowledge time", knowledge, middle, HEIGHT, receipts),
            "</svg>\n",
        ]
    )


# --- looks

_STROKES = {
    "then": 'stroke="#b1b8c0" stroke-width="4"',
    "now": 'stroke="#0969da" stroke-width="2"',
}
_DOTS = {"correction": 'fill="#cf222e" stroke="#ffffff"'}
_SIGNS = Signs(_STROKES, _DOTS)

_RIGHT = WIDTH - 44
"""Where the times end: half the label of the last one stands beyond."""
_LEAD = 140
"""Width in tenths before the first movement and after the last one."""


def _title(story: Story) -> Iterator[str]:
    wide = WIDTH - 2 * MARGIN
    currency = f", {story.currency}, in minor units"
    name = cut(story.account_id, LARGE, wide - width(currency, LARGE))
    bold = f' font-size="{LARGE}" font-weight="bold"'
    yield text(10 * MARGIN, 230, f"{name}{currency}", bold)


# --- steps

_MILLISECONDS_OF_DAY: Final = 86_400_000

Steps = Sequence[tuple[int, int]]
"""A moment, in milliseconds since 1970, and the balance from there on."""


def _milliseconds(timestamp: str) -> int:
    day, nanosecond = parse_instant(timestamp)
    return day * _MILLISECONDS_OF_DAY + nanosecond // 1_000_000


def _steps(moved: Sequence[Movement], clock: str) -> Steps:
    """Add movements up by one of their clocks; a moment stands once."""
    balance = 0
    by_moment: dict[str, int] = {}
    # The texts sort in time order; movements of one moment keep theirs.
    for movement in sorted(moved, key=lambda each: getattr(each, clock)):
        balance += movement.amount
        by_moment[getattr(movement, clock)] = balance
    return [(_milliseconds(moment), after) for moment, after in by_moment.items()]


def _corrected(story: Story) -> Steps:
    """When corrections of the account became known, and what the balance was then."""
    receipts = {_milliseconds(m.available_at) for m in story.moved if m.kind != "posting"}
    return [step for step in _steps(story.moved, "available_at") if step[0] in receipts]


# --- panels


class _Panel(NamedTuple):
    """Where moments and balances lie, in tenths of a pixel."""

    left: int
    top: int
    bottom: int
    first: int
    last: int
    levels: Ruler

    @property
    def right(self) -> int:
        return 10 * _RIGHT

    def x(self, moment: int) -> int:
        """Where a moment lies; a single one in the middle."""
        begin, end = self.left + _LEAD, self.right - _LEAD
        if self.first == self.last:
            return (begin + end) // 2
        return begin + (end - begin) * (moment - self.first) // (self.last - self.first)

    def y(self, balance: int) -> int:
        low, high = self.levels.bottom, self.levels.top
        return self.bottom - (self.bottom - self.top) * (balance - low) // (high - low)


def _panel(
    name: str, told: Sequence[tuple[str, Steps]], top: int, bottom: int, receipts: Steps = ()
) -> Iterator[str]:
    moments = [moment for _, steps in told for moment, _ in steps]
    levels = ruler(_shown([balance for _, steps in told for _, balance in steps]))
    left = 10 * (MARGIN + levels.room() + 8)
    first, last = (min(moments), max(moments)) if moments else (0, 0)
    panel = _Panel(left, 10 * (top + 24), 10 * (bottom - 28), first, last, levels)
    span = f" on {_day(first)}" if _day(first) == _day(last) else ""
    yield text(10 * MARGIN, 10 * (top + 8), f"{name}{span if moments else ': no movement'}")
    yield from _levels(panel)
    yield from _ticks(panel) if moments else ()
    for kind, steps in told:
        yield f'<path class="{kind}" d="{_path(steps, panel)}" fill="none" {_STROKES[kind]}/>'
    for moment, balance in receipts:
        x, y = px(panel.x(moment)), px(panel.y(balance))
        yield f'<circle class="correction" cx="{x}" cy="{y}" r="4" {_DOTS["correction"]}/>'


def _shown(balances: Sequence[int]) -> Sequence[int]:
    """Take zero, where every account begins, to what is drawn, unless all would look flat then."""
    if not balances:
        return [0]
    low, high = min(balances), max(balances)
    span = high - low
    near = not span or low - 2 * span <= 0 <= high + 2 * span
    return [low, high, *([0] if near else [])]


def _path(steps: Steps, panel: _Panel) -> str:
    """Draw a balance from zero on; of moments that lie on one tenth of a pixel, the last one."""
    places = {panel.x(moment): panel.y(balance) for moment, balance in steps}
    at = None
    drawn = []
    if panel.levels.bottom <= 0 <= panel.levels.top:
        at = panel.y(0)
        drawn.append(f"M{px(panel.left)} {px(at)}")
    elif not places:
        return ""
    for x, y in places.items():
        if at is None:
            drawn.append(f"M{px(x)} {px(y)}")
        elif y != at:
            drawn.append(f"H{px(x)}V{px(y)}")
        at = y
    return "".join([*drawn, f"H{px(panel.right)}"])


def _levels(panel: _Panel) -> Iterator[str]:
    size, unit = panel.levels.scale("")
    for value in panel.levels.labels:
        y = panel.y(value)
        yield text(panel.left - 80, y + 40, f"{value // size:,}", ' text-anchor="end"')
        yield f'<path d="M{px(panel.left)} {px(y)}H{px(panel.right)}" stroke="{PALE}"/>'
    if unit.strip():
        label = f"in {unit.strip()}s"
        yield text(panel.right, panel.top - 120, label, ' text-anchor="end"')


# --- the labels of times

_SECOND: Final = 1_000
_MINUTE: Final = 60 * _SECOND
_HOUR: Final = 60 * _MINUTE


def _units() -> Iterator[int]:
    """Distances of labels, in milliseconds: round ones of the clock, then days."""
    yield from (1, 10, 100)
    yield from (n * _SECOND for n in (1, 2, 5, 10, 15, 30))
    yield from (n * _MINUTE for n in (1, 2, 5, 10, 15, 30))
    yield from (n * _HOUR for n in (1, 2, 3, 6, 12))
    yield from (n * _MILLISECONDS_OF_DAY for n in round_numbers())


def _ticks(panel: _Panel) -> Iterator[str]:
    span = panel.last - panel.first
    wide = (panel.right - panel.left - 2 * _LEAD) // 10
    step = next(
        step
        for step in _units()
        if span // step + 1 <= max(1, wide // (width(_label(panel.first, step), SMALL) + 12))
    )
    moments = list(range(-(-panel.first // step) * step, panel.last + 1, step)) or [panel.first]
    if moments == [panel.first]:
        step = min(step, _SECOND)
    for moment in moments:
        x = panel.x(moment)
        yield f'<path d="M{px(x)} {px(panel.bottom)}v5" stroke="{INK}"/>'
        yield text(x, panel.bottom + 190, _label(moment, step), ' text-anchor="middle"')


def _day(moment: int) -> str:
    return day_text(moment // _MILLISECONDS_OF_DAY)


def _label(moment: int, step: int) -> str:
    """Write a moment as exactly as labels at that distance need it."""
    day, rest = divmod(moment, _MILLISECONDS_OF_DAY)
    if step >= _MILLISECONDS_OF_DAY:
        return day_text(day)
    seconds, milliseconds = divmod(rest, _SECOND)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    if step >= _MINUTE:
        return f"{day_text(day)[5:]} {hour:02}:{minute:02}"
    fraction = f".{milliseconds:03}" if step < _SECOND else ""
    return f"{hour:02}:{minute:02}:{second:02}{fraction}"
