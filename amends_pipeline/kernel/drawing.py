"""Parts of an SVG that every ledger draws: text of a known width, a legend, a ruler of numbers.

All arithmetic is in integers, so that numbers of any length are placed exactly; coordinates are
tenths of a pixel, so that the same values give the same text everywhere.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import NamedTuple

from amends_pipeline.kernel.display import escape_html, escape_terminal

INK = "#24292f"
PALE = "#d8dee4"
SMALL = 11
"""Size of the font, in pixels."""
LARGE = 14
MARGIN = 16

_LEVELS = 5
"""At most so many steps between the lowest and the highest label of a ruler."""


def opened(width: int, height: int) -> list[str]:
    """Return how a picture of so many pixels begins: white, with our font."""
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    font = f'font-family="Helvetica, Arial, sans-serif" font-size="{SMALL}"'
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font} fill="{INK}">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]


def px(tenths: int) -> str:
    """Write tenths of a pixel: 125 as 12.5, 120 as 12."""
    whole, rest = divmod(abs(tenths), 10)
    sign = "-" if tenths < 0 else ""
    return f"{sign}{whole}.{rest}" if rest else f"{sign}{whole}"


def text(x: int, y: int, content: str, more: str = "") -> str:
    """Return a text at tenths of a pixel; `more` are further attributes, with a leading blank."""
    return f'<text x="{px(x)}" y="{px(y)}"{more}>{escape_html(content)}</text>'


def counted(number: int, what: str) -> str:
    """Write "1 alert", "2 alerts"."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


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


def width(content: str, size: int) -> int:
    """About how many pixels a text takes."""
    return sum(map(_hundredths, content)) * size // 100


def cut(content: str, size: int, room: int) -> str:
    """Return the text on one line, cut with an ellipsis so that it takes about `room` pixels."""
    # No character is narrower than a pixel, and escapes are longer.
    safe = escape_terminal(content[:room])
    if width(safe, size) <= room and len(content) <= room:
        return safe
    room -= width("\N{HORIZONTAL ELLIPSIS}", size)
    used = 0
    kept = []
    for character in safe:
        used += _hundredths(character) * size
        if used > room * 100:
            break
        kept.append(character)
    return f"{''.join(kept).rstrip()}\N{HORIZONTAL ELLIPSIS}"


# --- signs


class Signs(NamedTuple):
    """The attributes of what is drawn, by kind."""

    strokes: Mapping[str, str]
    """Of lines."""
    dots: Mapping[str, str]
    """Of circles."""


class Legend:
    """Signs and words under a title, in as many rows as they need."""

    def __init__(self, signs: Signs, wide: int) -> None:
        self.parts: list[str] = []
        self._signs = signs
        self._right = wide - MARGIN
        self._x = MARGIN
        self._y = 46

    @property
    def bottom(self) -> int:
        """Where the last row ends, in pixels."""
        return self._y

    def add(self, kind: str, words: str) -> None:
        """Put the sign of a kind and what it means behind the others."""
        wide = 26 + width(words, SMALL)
        if self._x + wide > self._right and self._x > MARGIN:
            self._x = MARGIN
            self._y += 17
        x, y = self._x, self._y - 4
        strokes, dots = self._signs
        self.parts.append(
            f'<path d="M{x} {y}h18" {strokes[kind]}/>'
            if kind in strokes
            else f'<circle cx="{x + 9}" cy="{y}" r="5" {dots[kind]}/>'
        )
        self.parts.append(text(10 * (x + 24), 10 * self._y, words))
        self._x += wide + 16


# --- numbers

_SCALES = [
    (10**18, "quintillion"),
    (10**15, "quadrillion"),
    (10**12, "trillion"),
    (10**9, "billion"),
    (10**6, "million"),
]


class Ruler(NamedTuple):
    """The range of numbers that is drawn, and its labels."""

    bottom: int
    top: int
    step: int

    @property
    def labels(self) -> range:
        """The numbers that are labelled."""
        return range(self.bottom, self.top + 1, self.step)

    def scale(self, unit: str) -> tuple[int, str]:
        """What the labels are divided by, and its name."""
        for size, name in _SCALES:
            if all(value % size == 0 for value in self.labels):
                return size, f"{name} {unit}"
        return 1, unit

    def room(self) -> int:
        """How many pixels the widest label takes."""
        size, _ = self.scale("")
        return max(width(f"{value // size:,}", SMALL) for value in self.labels)


def ruler(numbers: Iterable[int]) -> Ruler:
    """Find round numbers around some, of which there is at least one."""
    shown = list(numbers)
    low, high = min(shown), max(shown)
    if low == high:
        low, high = low - 1, high + 1
    step = next(step for step in round_numbers() if high - low <= _LEVELS * step)
    return Ruler(low // step * step, -(-high // step) * step, step)


def round_numbers() -> Iterator[int]:
    """1, 2, 5, 10, 20, 50, 100, and so on."""
    return (digit * 10**zeros for zeros in count() for digit in (1, 2, 5))
