"""What goes to standard output: bytes in UTF-8, whatever the locale, and nothing else.

JSON is exact. Text for people is escaped, and tables never cut a row: they are written as they
come, in aligned runs, so that a million rows take no more memory than a thousand.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import BinaryIO, NamedTuple

from amends_pipeline.kernel.display import escape_terminal
from amends_pipeline.kernel.errors import OperationError

RUN_ROWS = 1_000
"""Rows that are aligned together."""
PADDED = 40
"""A cell wider than so many columns pushes its row to the right, not the whole table."""
SHOWN = 240
"""Characters of a cell that are shown. `--json` has them all."""


class Output:
    """Standard output, found when it is written to."""

    def write(self, data: bytes) -> None:
        """Write bytes. Raises BrokenPipeError, or OperationError when there is no room."""
        try:
            _binary().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise refused(error) from error

    def flush(self) -> None:
        """See that everything left this process. Raises as `write`."""
        if sys.stdout is None:
            return
        try:
            _binary().flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise refused(error) from error

    def document(self, value: object) -> None:
        """Write one JSON document on a line of its own, in ASCII."""
        self.write(json_text(value).encode() + b"\n")

    def text(self, line: str = "") -> None:
        """Write one line for people."""
        self.write(escape_terminal(line).encode() + b"\n")


def _binary() -> BinaryIO:
    if sys.stdout is None:
        raise OperationError("standard output", expected="an open file", found="a closed one")
    return sys.stdout.buffer


def refused(error: OSError) -> OperationError:
    """Let go of standard output, and return the error that says why."""
    abandon()
    found = error.strerror or type(error).__name__
    return OperationError("standard output", expected="it to take what is printed", found=found)


def abandon() -> None:
    """Let go of a standard output that takes nothing more, so that no later flush fails again."""
    try:
        descriptor = sys.stdout.fileno()
    except (AttributeError, OSError):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def json_text(value: object) -> str:
    """Return compact JSON in ASCII: it does no harm in a terminal and needs no encoding."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


class Column(NamedTuple):
    """A column of a table. Numbers stand to the right."""

    name: str
    number: bool = False


def columns(names: str) -> list[Column]:
    """Columns by name, separated by commas; a `#` in front makes a column of numbers."""
    return [
        Column(name.strip().removeprefix("#"), number=name.strip().startswith("#"))
        for name in names.split(",")
    ]


class Table:
    """A table for people: a heading, then rows, aligned run by run. End it with `end`."""

    def __init__(self, out: Output, names: str) -> None:
        """Describe the columns as `columns` reads them."""
        self._out = out
        self._columns = columns(names)
        self._widths = [len(column.name) for column in self._columns]
        self._rows: list[list[str]] = [[column.name for column in self._columns]]
        self._any = False

    def row(self, *cells: object) -> None:
        """Add a row of texts and integers, one for each column; None is an empty cell."""
        self._any = True
        self._rows.append(["" if cell is None else _cell(cell) for cell in cells])
        if len(self._rows) >= RUN_ROWS:
            self._run()

    def end(self, none: str = "none") -> None:
        """Write what is left; `none` stands for a table without rows."""
        if self._any:
            self._run()
        else:
            self._out.text(none)

    def _run(self) -> None:
        for at in range(len(self._columns)):
            widest = max((_width(row[at]) for row in self._rows), default=0)
            self._widths[at] = max(self._widths[at], min(widest, PADDED))
        for row in self._rows:
            self._out.write("  ".join(self._padded(row)).rstrip().encode() + b"\n")
        self._rows.clear()

    def _padded(self, row: Sequence[str]) -> list[str]:
        return [
            f"{' ' * (width - _width(cell))}{cell}"
            if column.number
            else f"{cell}{' ' * (width - _width(cell))}"
            for column, cell, width in zip(self._columns, row, self._widths, strict=True)
        ]


def counted(number: int, noun: str) -> str:
    """Return "1 key" or "2 keys"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _cell(value: object) -> str:
    text = str(value)
    if len(text) > SHOWN:
        return f"{escape_terminal(text[:SHOWN])}... ({len(text)} characters)"
    return escape_terminal(text)


def _width(text: str) -> int:
    """Columns that printable text takes in a terminal."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
