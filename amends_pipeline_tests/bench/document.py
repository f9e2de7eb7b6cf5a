"""The generated part of docs/PERFORMANCE.md: the last table, the machine, how cost grows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from amends_pipeline_tests.bench.measure import Measurement, shown
from amends_pipeline_tests.bench.player import ROOT
from amends_pipeline_tests.bench.table import cells, sentence

DOCUMENT = ROOT / "docs" / "PERFORMANCE.md"
START = "<!-- measured: make bench, then python -m amends_pipeline_tests.bench --document -->"
END = "<!-- end of measured -->"


def read(path: Path) -> tuple[list[Measurement], dict[str, Any]]:
    """What bench.json holds. Raises SystemExit when it is not there, or empty."""
    if not path.exists() or not (entries := json.loads(path.read_text(encoding="utf-8"))):
        raise SystemExit(f"{path}: expected what `make bench` writes, found nothing")
    names = [each.name for each in fields(Measurement)]
    found = [Measurement(**{name: entry[name] for name in names}) for entry in entries]
    return found, entries[0]["machine"]


def renewed(document: str, measurements: Sequence[Measurement], machine: dict[str, Any]) -> str:
    """The document with its generated part made anew. Raises SystemExit without the markers."""
    head, start, rest = document.partition(START)
    _, end, tail = rest.partition(END)
    if not (start and end):
        raise SystemExit(f"{DOCUMENT.name}: expected the two markers, found no pair of them")
    return f"{head}{START}\n\n{part(measurements, machine)}\n{END}{tail}"


def part(measurements: Sequence[Measurement], machine: dict[str, Any]) -> str:
    """Everything between the markers."""
    lines = [f"{sentence(machine)}.", "", *_table(measurements)]
    growing = [each for each in measurements if each.row == "2" and each.note and not each.unit]
    for each in growing:
        fitted = f"The exponent that fits best is {shown(each.value or 0)}"
        meaning = "(0 would be no growth at all, 1 growth in proportion)."
        lines += ["", f"One late correction, by history: {each.note}. {fitted} {meaning}"]
    seconds = {(each.seconds, each.row): each for each in measurements}
    total = sum({each.seconds for each in seconds.values()})
    lines += ["", f"All of this took {total / 60:.0f} minutes."]
    return "\n".join(lines) + "\n"


def _table(measurements: Sequence[Measurement]) -> Iterator[str]:
    yield "| row | what | median | min to max | beside | must | goal | |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for each in measurements:
        row, name, value, spread, peer, ratio, must, goal, holds, note = cells(each)
        beside = f"{ratio} × {peer}" if ratio else peer
        told = f"{name} ({note})" if note else name
        columns = (row, told, value, spread, beside, must, goal, holds)
        yield "| " + " | ".join(column.replace("|", "\\|") for column in columns) + " |"


def write(path: Path) -> None:
    """Renew the document from bench.json."""
    text = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(renewed(text, *read(path)), encoding="utf-8")
