"""What the harness shows: a table for people, bench.json for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from amends_pipeline_tests.bench.measure import Measurement, in_order, shown

COLUMNS = ("row", "what", "median", "min to max", "peer", "ratio", "must", "goal", "holds", "note")
WIDTH = 200
"""Of a table that no terminal shows."""
HOLDS = {True: "yes", False: "NO", None: ""}


def sorted_rows(measurements: Sequence[Measurement]) -> list[Measurement]:
    """By row; within a row as they were measured."""
    order = {row: at for at, row in enumerate(in_order({each.row for each in measurements}))}
    return sorted(measurements, key=lambda each: order[each.row])


def cells(each: Measurement) -> tuple[str, ...]:
    """The columns of one line."""
    value = "not measured" if each.value is None else f"{shown(each.value)} {each.unit}".strip()
    spread = ""
    if each.low is not None and each.high is not None and each.runs > 1:
        spread = f"{shown(each.low)} to {shown(each.high)} ({each.runs})"
    holds = HOLDS[each.holds]
    if each.peer and each.ratio is None:
        holds = "peer missing"
    elif each.goal_holds:
        holds = "goal"
    return (
        each.row,
        each.name,
        value,
        spread,
        each.peer or "",
        "" if each.ratio is None else shown(each.ratio),
        each.must or "",
        each.goal or "",
        holds,
        each.note,
    )


def text(measurements: Sequence[Measurement], machine: dict[str, Any], width: int) -> str:
    """The table, as wide as that."""
    out = StringIO()
    _print(Console(file=out, width=width), measurements, machine)
    return out.getvalue()


def show(measurements: Sequence[Measurement], machine: dict[str, Any]) -> None:
    """Print the table on standard output."""
    _print(Console(width=None if Console().is_terminal else WIDTH), measurements, machine)


def _print(console: Console, measurements: Sequence[Measurement], machine: dict[str, Any]) -> None:
    table = Table(caption=sentence(machine), caption_justify="left")
    for column in COLUMNS:
        right = column in {"median", "min to max", "ratio"}
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    for each in sorted_rows(measurements):
        table.add_row(*cells(each), style="red" if each.holds is False else None)
    console.print(table, markup=False)


def sentence(machine: dict[str, Any]) -> str:
    """The machine in a line."""
    floor = machine.get("commit_floor_ms")
    told = [
        f"{machine['cores']} cores of {machine['processor']}",
        f"Python {machine['python']}",
        f"PostgreSQL {machine['postgresql']} with fsync {machine['fsync']}",
        f"load {machine['load1']}",
    ]
    if floor is not None:
        told.append(f"commit floor {floor:g} ms")
    if machine.get("scale", 1) != 1:
        told.append(f"workloads scaled by {machine['scale']:g}: these numbers say nothing")
    return "; ".join(told)


def write(path: Path, measurements: Sequence[Measurement], machine: dict[str, Any]) -> None:
    """Write bench.json, and the machine beside it."""
    entries = [each.as_json() | {"machine": machine} for each in sorted_rows(measurements)]
    path.write_text(json.dumps(entries, indent=1, ensure_ascii=False) + "\n")
