"""What a row of the table is: who measures it, against what, and whether it holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from amends_pipeline_tests.bench.stage import Stage


class Bound(NamedTuple):
    """What a measured number must be, and what it should become."""

    at_most: bool
    must: float
    goal: float | None = None

    def holds(self, number: float) -> bool:
        return number <= self.must if self.at_most else number >= self.must

    def reached(self, number: float) -> bool | None:
        if self.goal is None:
            return None
        return number <= self.goal if self.at_most else number >= self.goal

    def text(self, number: float | None, unit: str) -> str | None:
        sign = "≤" if self.at_most else "≥"
        return None if number is None else f"{sign} {shown(number)} {unit}"


def at_most(must: float, goal: float | None = None) -> Bound:
    return Bound(at_most=True, must=must, goal=goal)


def at_least(must: float, goal: float | None = None) -> Bound:
    return Bound(at_most=False, must=must, goal=goal)


@dataclass(frozen=True)
class Measurement:
    """One line of the table; `as_json` is its entry in bench.json."""

    row: str
    name: str
    value: float | None
    """Median of the runs; None when nothing was measured."""
    unit: str
    peer: str | None = None
    ratio: float | None = None
    must: str | None = None
    holds: bool | None = None
    """None where nothing is asked, or the peer is missing."""
    goal: str | None = None
    goal_holds: bool | None = None
    low: float | None = None
    high: float | None = None
    runs: int = 0
    note: str = ""
    seconds: float = 0.0
    """How long all the rows that were measured together took."""
    load1: float = 0.0
    """The machine's load when they were done; the harness itself makes one or two of it."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class Peer:
    """What a number is compared with. `value` is None when the peer is missing; `note` says why."""

    name: str
    value: float | None
    note: str = ""


@dataclass
class Row:
    """A row under measurement: `told` makes a measurement of its samples."""

    number: str
    name: str
    unit: str
    samples: Sequence[float]
    note: str = ""
    made: list[Measurement] = field(default_factory=list)

    @property
    def value(self) -> float:
        return median(self.samples)

    def told(self, bound: Bound | None = None) -> Measurement:
        """The samples against an absolute bound, in the row's unit."""
        number = self.value
        return Measurement(
            self.number,
            self.name,
            number,
            self.unit,
            must=bound and bound.text(bound.must, self.unit),
            holds=bound and bound.holds(number),
            goal=bound and bound.text(bound.goal, self.unit),
            goal_holds=bound and bound.reached(number),
            low=min(self.samples),
            high=max(self.samples),
            runs=len(self.samples),
            note=self.note,
        )

    def beside(self, peer: Peer, bound: Bound, *, plus: float = 0) -> Measurement:
        """The samples against a peer's number.

        A bound from below says how many times better we are: a duration is divided into the peer's
        and a rate by it. One from above says how many times the peer's number ours may be; `plus`
        is granted beside what must be.
        """
        ratio, holds = None, None
        if peer.value is not None:
            better = not bound.at_most and not self.unit.endswith("/s")
            ratio = peer.value / self.value if better else self.value / peer.value
            holds = bound.holds((self.value - plus) / peer.value if plus else ratio)
        unit = f"× {peer.name}"
        return replace(
            self.told(),
            peer=f"{peer.name}: {_quantity(peer, self.unit)}",
            ratio=ratio,
            must=bound.text(bound.must, unit + (f" + {shown(plus)} {self.unit}" if plus else "")),
            holds=holds,
            goal=bound.text(bound.goal, unit),
            goal_holds=None if ratio is None else bound.reached(ratio),
        )


def _quantity(peer: Peer, unit: str) -> str:
    if peer.value is None:
        return f"missing ({peer.note})"
    return f"{shown(peer.value)} {unit}"


def missing(row: str, name: str, why: str) -> Measurement:
    """A row that could not be measured."""
    return Measurement(row, name, None, "", note=why)


def shown(number: float) -> str:
    """A number with as many digits as a reader needs."""
    if number == 0 or not math.isfinite(number):
        return f"{number:g}"
    size = abs(number)
    digits = 0 if size >= 100 else min(4, 2 - math.floor(math.log10(size)))
    text = f"{number:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def quantile(samples: Sequence[float], part: float) -> float:
    """The sample below which `part` of them lie."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def slope(points: Iterable[tuple[float, float]]) -> float:
    """Exponent of the power law that fits (size, cost) best: the slope between logarithms."""
    logs = [(math.log(size), math.log(cost)) for size, cost in points]
    mean_x = sum(x for x, _ in logs) / len(logs)
    mean_y = sum(y for _, y in logs) / len(logs)
    above = sum((x - mean_x) * (y - mean_y) for x, y in logs)
    return above / sum((x - mean_x) ** 2 for x, _ in logs)


# --- registration

Measuring = Callable[["Stage"], Iterable[Measurement]]


class Family(NamedTuple):
    """Rows that are measured together, because they share what is dear to set up."""

    rows: tuple[str, ...]
    title: str
    measure: Measuring


FAMILIES: list[Family] = []


def rows(*numbers: str, title: str) -> Callable[[Measuring], Measuring]:
    """Register a function as what measures these rows.

    It is handed the stage and returns measurements. One that measures several rows asks
    `stage.wants(row)` before it does what only that row needs.
    """

    def register(function: Measuring) -> Measuring:
        FAMILIES.append(Family(numbers, title, function))
        return function

    return register


def chosen(wanted: Sequence[str]) -> Iterator[Family]:
    """The families that measure any of the wanted rows, in the order of registration."""
    known = {row for family in FAMILIES for row in family.rows}
    if unknown := sorted(set(wanted) - known):
        raise SystemExit(f"--rows: expected some of {', '.join(in_order(known))}, found {unknown}")
    return (each for each in FAMILIES if not wanted or set(each.rows) & set(wanted))


def in_order(numbers: Iterable[str]) -> list[str]:
    """Row numbers, by number and then by letter."""
    return sorted(numbers, key=lambda row: (not row[:1].isdigit(), row.zfill(4)))
