"""What becomes of files that land: their records in the source log, and where they go."""

from __future__ import annotations

import os
import tracemalloc
from functools import partial
from pathlib import Path

import pytest

from amends_pipeline.flows import landing, reading
from amends_pipeline.flows.landing import Fate, land
from amends_pipeline.kernel.errors import InputError
from amends_pipeline.sources import table
from amends_pipeline_tests.flows.harbour import HEADER, LATER, LINES, ROW, digest
from amends_pipeline_tests.tables import history


@pytest.mark.parametrize(
    "name", ["a.jsonl", "A.JSONL", "\u202ea\n.jsonl", "a b|c.jsonl", "ä.jsonl"]
)
def test_lines_are_appended_byte_for_byte_and_the_file_is_moved(harbour, name):
    harbour.put(name)
    [outcome] = harbour.outcomes()
    known = digest(LINES)
    assert outcome == (name, Fate.APPENDED, known, 2, "")
    assert harbour.values == [line.encode() for line in LINES.splitlines()]
    assert harbour.landed == [(name, 2, known, None)]
    assert harbour.files() == [f"done/{known[:12]}-{name}"]
    assert harbour.outcomes() == []


def test_rows_of_csv_become_records(harbour):
    harbour.put("a.csv", HEADER + ROW)
    harbour.put("b.Csv", HEADER + ROW + ROW)
    assert harbour.land() == {"a.csv": Fate.APPENDED, "b.Csv": Fate.APPENDED}
    assert len(set(harbour.values)) == 1
    assert [records for _, records, _, _ in harbour.landed] == [1, 2]


def test_a_name_that_is_no_utf_8_is_kept_readable(harbour):
    name = os.fsdecode(b"\xff.jsonl")
    harbour.put(name)
    assert harbour.land() == {name: Fate.APPENDED}
    assert harbour.landed[0][0] == "\\udcff.jsonl"
    assert harbour.files() == [f"done/{digest(LINES)[:12]}-{name}"]


def test_names_of_every_length_can_be_moved(quiet):
    quiet.put("\u00e4" * 124 + ".jsonl")
    quiet.put("b" * 251 + ".csv", "no header")
    assert set(quiet.land().values()) == {Fate.APPENDED, Fate.SET_ASIDE}
    moved = [Path(name) for name in quiet.files()]
    assert [(path.parent.name, path.name[-6:]) for path in moved] == [
        ("done", ".jsonl"),
        ("set-aside", "bb.csv"),
        ("set-aside", "or.txt"),
    ]


def test_files_without_records_land_too(harbour):
    harbour.put("a.jsonl", "\n\r\n")
    harbour.put("b.csv", HEADER)
    assert set(harbour.land().values()) == {Fate.APPENDED}
    assert harbour.values == []
    assert [(name, records) for name, records, _, _ in harbour.landed] == [
        ("a.jsonl", 0),
        ("b.csv", 0),
    ]


def test_a_file_that_is_empty_for_a_minute_is_done_with(quiet, monkeypatch):
    quiet.put("a.jsonl", "")
    assert quiet.land() == {}
    monkeypatch.setattr(landing, "EMPTY_NANOSECONDS", LATER - 1)
    [outcome] = quiet.outcomes()
    assert outcome == ("a.jsonl", Fate.APPENDED, digest(""), 0, "it was empty")
    quiet.put("b.jsonl", "")
    [again] = quiet.outcomes()
    assert (again.fate, again.note) == (Fate.APPENDED_BEFORE, "it was empty")
    assert quiet.files() == [f"done/{digest('')[:12]}-{name}.jsonl" for name in "ab"]


def test_a_source_that_no_namespace_has_is_refused(quiet):
    with pytest.raises(InputError, match='found "elsewhere"'):
        list(land(quiet.ledger, quiet.root, "elsewhere"))


def test_no_file_is_begun_when_the_time_is_over(quiet):
    quiet.put("a.jsonl")
    assert quiet.land(seconds=-1) == {}
    assert quiet.land(seconds=60) == {"a.jsonl": Fate.APPENDED}


@pytest.mark.parametrize("ledger", ["postgres"], indirect=True)
@pytest.mark.parametrize("name", ["a.jsonl", "a.csv"])
def test_a_large_file_takes_as_much_memory_as_a_small_one(harbour, monkeypatch, name):
    """With buffers of 16 and 64 KB: 5,000 records, then 20,000, each file in one transaction."""
    monkeypatch.setattr(landing, "BLOCK_BYTES", 2**14)
    monkeypatch.setattr(reading, "BLOCK_BYTES", 2**14)
    monkeypatch.setattr(table, "BUFFERED_BYTES", 2**16)
    monkeypatch.setattr(table, "SEGMENT_BYTES", 2**16)
    monkeypatch.setattr(landing, "append_to", partial(_traced, landing.append_to, peaks := []))
    line = history("A r1 NEW day 1 -50")[0].value.decode()
    for records in (5_000, 20_000):
        text = HEADER + ROW * records if name == "a.csv" else f"{line}\n" * records
        harbour.put(name, text)
        assert harbour.outcomes()[0].records == records
    small, large = peaks
    assert large < 1.5 * small


def _traced(function, peaks, *arguments, **options):
    tracemalloc.start()
    try:
        return function(*arguments, **options)
    finally:
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
