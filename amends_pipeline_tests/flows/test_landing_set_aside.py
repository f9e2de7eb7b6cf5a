"""Bad files are set aside whole, with the error beside them."""

from __future__ import annotations

import pytest

from amends_pipeline.flows import landing
from amends_pipeline.flows.landing import Fate
from amends_pipeline_tests.flows.harbour import HEADER, LATER, ROW, digest


@pytest.mark.parametrize(
    ("name", "text", "where", "expected", "found"),
    [
        ("bad.csv", HEADER + "one,two\n", ", row 2", "8 columns", "2"),
        ("bad.csv", ROW, ", row 1", "the columns txn_id, ", '"A, 1, NEW, DEMO-PART'),
        ("bad.csv", HEADER + '"open', ", row 2", "CSV by RFC 4180", "unexpected end of data"),
        ("bad.jsonl", b"x" * (16 * 2**20 + 1), ", line 1", "at most 16777216 bytes", "16777217"),
        ("bad.jsonl", b"ok\n" + b"x" * 2**25, ", line 2", "at most 16777216 bytes", "more"),
    ],
)
def test_a_bad_file_is_set_aside_with_its_error(  # noqa: PLR0917 - columns of the table
    harbour, name, text, where, expected, found
):
    harbour.put(name, text)
    harbour.put("good.jsonl", "good")
    assert harbour.land() == {name: Fate.SET_ASIDE, "good.jsonl": Fate.APPENDED}
    assert harbour.values == [b"good"]
    parts = (harbour.folder / "set-aside" / f"{name}.error.txt").read_text().splitlines()
    assert parts[0] == f'where: "{name}"{where}'
    assert parts[1].startswith(f"expected: {expected}")
    assert parts[2].startswith(f"found: {found}")
    [(bad, records, known, error), _] = harbour.landed
    assert (bad, records, known) == (name, 0, digest(text))
    assert error.startswith(f'"{name}"{where}: expected {expected}')
    kept = (harbour.folder / "set-aside" / name).read_bytes()
    assert digest(kept) == known


def test_a_table_that_is_empty_for_a_minute_is_set_aside(quiet, monkeypatch):
    monkeypatch.setattr(landing, "EMPTY_NANOSECONDS", LATER - 1)
    quiet.put("a.csv", "")
    [outcome] = quiet.outcomes()
    assert outcome.fate is Fate.SET_ASIDE
    assert outcome.note.startswith('"a.csv", row 1: expected the columns txn_id, ')
    assert outcome.note.endswith(", found no header")
    assert quiet.files() == ["set-aside/a.csv", "set-aside/a.csv.error.txt"]


@pytest.mark.parametrize("text", [HEADER + ROW, ""])
def test_a_table_with_a_byte_order_mark_is_set_aside_and_the_mark_is_named(quiet, text):
    quiet.put("a.csv", b"\xef\xbb\xbf" + text.encode())
    [outcome] = quiet.outcomes()
    assert outcome.fate is Fate.SET_ASIDE
    assert ', found "\\ufeff' in outcome.note


def test_two_bad_files_of_one_name_are_both_kept(quiet):
    for text in ("one", "two", "two"):
        quiet.put("bad.csv", text)
        assert quiet.land() == {"bad.csv": Fate.SET_ASIDE}
    two = f"set-aside/{digest('two')[:12]}-bad.csv"
    assert quiet.files() == sorted(
        ["set-aside/bad.csv", "set-aside/bad.csv.error.txt", two, f"{two}.error.txt"]
    )
    assert [known for _, _, known, _ in quiet.landed] == [digest("one"), digest("two")]


def test_bytes_that_were_set_aside_may_land_under_a_better_name(harbour):
    harbour.put("a.csv", "one\n")
    harbour.land()
    harbour.put("a.jsonl", "one\n")
    assert harbour.land() == {"a.jsonl": Fate.APPENDED}
    assert harbour.values == [b"one"]
    assert [error is None for _, _, _, error in harbour.landed] == [False, True]


def test_hostile_names_are_escaped_in_what_people_read(quiet):
    name = "\x1b[31m\n\u202e.csv"
    quiet.put(name, "no header")
    quiet.land()
    text = (quiet.folder / "set-aside" / f"{name}.error.txt").read_text()
    assert text.splitlines()[0] == 'where: "\\x1b[31m\\n\\u202e.csv", row 1'
    assert len(text.splitlines()) == 3
