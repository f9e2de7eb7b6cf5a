"""How far long work has come, on standard error: bars in a terminal, else a line a second."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING, Protocol

import click

if TYPE_CHECKING:
    from rich.progress import Progress

Advance = Callable[[int], None]
"""Called with what was done since the last call; cheap enough to be called for each record."""

BAR_SECONDS = 0.1
LINE_SECONDS = 1.0


class Meters(Protocol):
    """Where work that takes its time is announced."""

    def start(self, name: str, unit: str, total: int | None = None) -> Advance:
        """Begin to measure. `name` and `unit` are our own words, never a stranger's."""
        ...


@contextmanager
def meters(*, quiet: bool = False) -> Iterator[Meters]:
    """Measure what happens in a block; standard error tells about it unless `quiet`."""
    if quiet or sys.stderr is None:
        yield _Silence()
    elif sys.stderr.isatty():
        with _rich_progress() as progress:
            yield _Bars(progress)
    else:
        yield _Lines()


class _Silence:
    def start(self, _name: str, _unit: str, _total: int | None = None) -> Advance:
        return lambda _: None


class _Lines:
    """One line a second while something moves; work that ends within a second says nothing."""

    def start(self, name: str, unit: str, total: int | None = None) -> Advance:
        of = f" of {total}" if total is not None else ""
        done = 0
        began = told = monotonic()

        def advance(count: int) -> None:
            nonlocal done, told
            done += count
            now = monotonic()
            if now - told >= LINE_SECONDS:
                told = now
                rate = done / (now - began)
                with suppress(OSError):  # the work goes on when nobody hears of it any more
                    click.echo(f"{name}: {done}{of} {unit}, {rate:.0f}/s", err=True)

        return advance


class _Bars:
    """Bars that vanish when the work is done: the answer on standard output takes their place."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def start(self, name: str, unit: str, total: int | None = None) -> Advance:
        task = self._progress.add_task(name, total=total, unit=unit)
        waiting = 0
        told = monotonic()

        def advance(count: int) -> None:
            nonlocal waiting, told
            waiting += count
            now = monotonic()
            if now - told >= BAR_SECONDS:
                self._progress.advance(task, waiting)
                waiting, told = 0, now

        return advance


def _rich_progress() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:.0f} {task.fields[unit]}", markup=False),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
