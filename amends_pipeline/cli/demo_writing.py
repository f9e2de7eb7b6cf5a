"""How the demo writes: parts, tables and colours. Text is UTF-8, whatever the locale."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

WIDTH = 92
"""Columns at most; the transcript stands in a README too."""

GOOD, BAD, FAINT, HEAD = "green", "red", "dim", "bold"


def part(title: str, *content: RenderableType) -> Group:
    """Return a titled part of a stage."""
    return Group(Text(), Text(title), Padding(Group(*content), (0, 0, 0, 2)))


def table(*names: str) -> Table:
    """Return an empty table with these columns."""
    made = Table(box=None, pad_edge=False, header_style=FAINT)
    for name in names:
        made.add_column(name, overflow="fold")
    return made


def count(number: int, thing: str) -> str:
    """Write "1 record", "2 records"."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def here(path: Path) -> str:
    """Write a path as short as it can be from the current folder."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def program() -> str:
    """Name `amends` as the shell of this person would find it."""
    if shutil.which("amends") is not None:
        return "amends"
    return here(Path(sys.argv[0]).absolute())


def written(*parts: RenderableType | Sequence[RenderableType]) -> bytes:
    """Lay parts out, for the terminal if it is one."""
    terminal = sys.stdout is not None and sys.stdout.isatty()
    # What is not for a terminal is laid out the same whatever terminal it was started from.
    columns = shutil.get_terminal_size((WIDTH, 24)).columns if terminal else WIDTH
    console = Console(
        file=io.StringIO(),
        force_terminal=terminal,
        width=min(WIDTH, columns),
        highlight=False,
        markup=False,
    )
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    lines = (line.rstrip() for line in captured.get().splitlines())
    return "".join(f"{line}\n" for line in lines).encode()
