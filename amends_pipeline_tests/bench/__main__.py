"""`python -m amends_pipeline_tests.bench`: measure rows, print the table, write bench.json."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from amends_pipeline_tests.bench import document, table
from amends_pipeline_tests.bench.measure import FAMILIES, Family, Measurement, chosen, missing
from amends_pipeline_tests.bench.player import PlayerError
from amends_pipeline_tests.bench.stage import Options, Stage, WrongError

ROWS_FROM = ("rows_load", "rows_late", "rows_again", "rows_growth", "rows_shapes", "rows_bank")
"""Modules that register rows, in the order in which they are measured. A new one is named here."""
for module in ROWS_FROM:
    import_module(f"amends_pipeline_tests.bench.{module}")


def measured(stage: Stage, families: Sequence[Family], out: Path) -> list[Measurement]:
    """Measure the wanted rows, one family after the other, and write down each as it is done."""
    stage.floor()
    measurements: list[Measurement] = []
    for family in families:
        measurements += family_measured(stage, family)
        table.write(out, measurements, stage.machine())
    return measurements


def family_measured(stage: Stage, family: Family) -> list[Measurement]:
    """What a family's wanted rows measured, each with the seconds that all took.

    Where a result was wrong, or a process died, none of them has a number.
    """
    stage.say(f"rows {', '.join(family.rows)}: {family.title}")
    start = time.monotonic()
    try:
        found = [each for each in family.measure(stage) if stage.wants(each.row)]
    except (WrongError, PlayerError) as error:
        stage.say(f"failed: {error}")
        wanted = [row for row in family.rows if stage.wants(row)]
        found = [missing(row, family.title, f"failed: {error}") for row in wanted]
    if stage.options.scale != 1:  # what must hold is said of the whole workloads
        found = [replace(each, holds=None, goal_holds=None) for each in found]
    seconds = time.monotonic() - start
    load1 = round(os.getloadavg()[0], 2)
    stage.say(f"rows {', '.join(family.rows)}: took {seconds:.0f} s, load {load1}")
    told = {each.row for each in found}
    untold = [row for row in family.rows if stage.wants(row) and row not in told]
    found += [missing(row, family.title, "not measured") for row in untold]
    return [replace(each, seconds=round(seconds, 1), load1=load1) for each in found]


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m amends_pipeline_tests.bench")
    parser.add_argument("--rows", default="", metavar="1,6", help="only these rows")
    parser.add_argument("--runs", type=int, default=5, help="runs of each row, where one is short")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="part of the workloads' size, for development"
    )
    parser.add_argument("--no-peers", action="store_true", help="leave the peers out")
    parser.add_argument("--out", type=Path, default=Path("bench.json"), metavar="bench.json")
    parser.add_argument(
        "--document", action="store_true", help="renew docs/PERFORMANCE.md from bench.json"
    )
    parser.add_argument("--list", action="store_true", help="name the rows, and measure nothing")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0 whatever holds, and 1 where something could not be measured."""
    asked = parsed(arguments)
    if asked.list:
        for family in FAMILIES:
            sys.stdout.write(f"{', '.join(family.rows):12} {family.title}\n")
        return 0
    if asked.document:
        document.write(asked.out)
        return 0
    wanted = tuple(row for row in asked.rows.replace(" ", "").split(",") if row)
    families = list(chosen(wanted))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left behind
    with Stage(Options(wanted, asked.runs, asked.scale, not asked.no_peers)) as stage:
        measurements = measured(stage, families, asked.out)
        machine = stage.machine()
    table.show(measurements, machine)
    return int(any(each.value is None for each in measurements))


if __name__ == "__main__":
    sys.exit(main())
