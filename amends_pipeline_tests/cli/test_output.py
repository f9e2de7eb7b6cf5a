"""Tables that line up, and progress that is told on standard error alone."""

from __future__ import annotations

import io
import sys

import pytest

from amends_pipeline.cli import output, progress
from amends_pipeline.cli.output import Output, Table


@pytest.fixture
def printed(capsysbinary):
    """What was written to standard output since the last look, as text."""
    return lambda: capsysbinary.readouterr().out.decode("utf-8")


def test_columns_are_aligned_numbers_to_the_right(printed):
    table = Table(Output(), "name, #count, note")
    table.row("a", 5, "x")
    table.row("longer", 123456, None)
    table.end()
    assert printed() == "name     count  note\na            5  x\nlonger  123456\n"


def test_wide_characters_take_their_place(printed):
    table = Table(Output(), "name, #count")
    table.row("日本", 1)
    table.row("e\u0301", 2)
    table.row("abcd", 3)
    table.end()
    assert printed() == "name  count\n日本      1\ne\u0301         2\nabcd      3\n"


def test_one_long_cell_does_not_push_the_others(printed):
    table = Table(Output(), "name, #count")
    table.row("x" * 300, 1)
    table.row("y", 2)
    table.end()
    heading, long, short = printed().splitlines()
    assert long == f"{'x' * 240}... (300 characters)      1"
    assert (len(heading), len(short)) == (47, 47)


def test_a_table_is_written_while_it_grows(printed, monkeypatch):
    monkeypatch.setattr(output, "RUN_ROWS", 3)
    table = Table(Output(), "name")
    table.row("one")
    assert printed() == ""
    table.row("two")
    assert printed() == "name\none\ntwo\n"
    table.row("three")
    table.end()
    assert printed() == "three\n"


def test_an_empty_table_is_a_word(printed):
    Table(Output(), "name").end("nobody")
    assert printed() == "nobody\n"


class Clock:
    """A clock that a test moves."""

    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progress, "monotonic", clock)
    return clock


def test_long_work_prints_a_line_a_second(capsys, clock):
    with progress.meters() as meters:
        advance = meters.start("append", "records", 1_000)
        for _ in range(32):
            clock.now += 0.125
            advance(25)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "append: 200 of 1000 records, 200/s",
        "append: 400 of 1000 records, 200/s",
        "append: 600 of 1000 records, 200/s",
        "append: 800 of 1000 records, 200/s",
    ]


def test_short_work_and_quiet_work_say_nothing(capsys, clock):
    with progress.meters() as meters:
        advance = meters.start("append", "records")
        clock.now += 0.9
        advance(1_000)
    with progress.meters(quiet=True) as meters:
        advance = meters.start("append", "records")
        clock.now += 10
        advance(1_000)
    assert capsys.readouterr() == ("", "")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_gets_bars_that_vanish(capsys, clock, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress.meters() as meters:
        advance = meters.start("append [red]", "records", 10)
        clock.now += 1
        advance(5)
    assert "append [red]" in terminal.getvalue()
    assert "5 records" in terminal.getvalue()
    assert capsys.readouterr().out == ""


class Deaf(io.StringIO):
    def write(self, _text):
        raise BrokenPipeError


def test_work_goes_on_when_nobody_hears_of_it(clock, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Deaf())
    with progress.meters() as meters:
        advance = meters.start("append", "records")
        clock.now += 2
        advance(1)


def test_without_a_standard_error_nothing_is_told(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    with progress.meters() as meters:
        meters.start("append", "records")(1)
