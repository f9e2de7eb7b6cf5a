"""Nothing lands twice: the same bytes again, files that change, two at once, kills."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from amends_pipeline.flows import landing
from amends_pipeline.flows.landing import Fate
from amends_pipeline.kernel.errors import DatabaseUnavailable
from amends_pipeline_tests.flows.harbour import HEADER, LINES, ROW, SOURCE, Harbour, digest


def test_the_same_bytes_under_two_names_are_appended_once(harbour):
    harbour.put("a.jsonl")
    harbour.put("b.jsonl")
    assert harbour.land() == {"a.jsonl": Fate.APPENDED, "b.jsonl": Fate.APPENDED_BEFORE}
    assert len(harbour.values) == 2
    assert [name for name, _, _, _ in harbour.landed] == ["a.jsonl"]
    known = digest(LINES)[:12]
    assert harbour.files() == [f"done/{known}-a.jsonl", f"done/{known}-b.jsonl"]


def test_the_same_file_again_is_not_appended_again(harbour):
    for expected in (Fate.APPENDED, Fate.APPENDED_BEFORE, Fate.APPENDED_BEFORE):
        harbour.put("a.jsonl")
        assert harbour.land() == {"a.jsonl": expected}
    assert len(harbour.values) == 2
    assert harbour.files() == [f"done/{digest(LINES)[:12]}-a.jsonl"]


def test_a_file_that_cannot_be_moved_stays_and_is_known_by_its_digest(harbour):
    (harbour.folder / "done").write_text("in the way")
    harbour.put("a.jsonl")
    [first], [second] = harbour.outcomes(), harbour.outcomes()
    assert (first.fate, first.note) == (Fate.APPENDED, "not moved: File exists")
    assert (second.fate, second.note) == (Fate.APPENDED_BEFORE, "not moved: File exists")
    assert len(harbour.values) == 2
    (harbour.folder / "done").unlink()
    assert harbour.outcomes()[0].note == ""
    assert harbour.files() == [f"done/{digest(LINES)[:12]}-a.jsonl"]


def test_files_are_not_moved_through_a_link(quiet, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (quiet.folder / "done").symlink_to(tmp_path / "elsewhere")
    quiet.put("a.jsonl")
    assert quiet.outcomes()[0].note == "not moved: a link"
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert len(quiet.values) == 2


def test_a_file_that_grows_after_it_was_appended_lands_as_another_one(quiet, monkeypatch):
    path = quiet.put("a.jsonl", "one\n")
    append_to = landing.append_to

    def append_and_grow(*arguments, **options):
        done = append_to(*arguments, **options)
        with path.open("a") as stream:
            stream.write("two\n")
        return done

    monkeypatch.setattr(landing, "append_to", append_and_grow)
    [outcome] = quiet.outcomes()
    assert (outcome.fate, outcome.note) == (
        Fate.APPENDED,
        "not moved: it is another file by now",
    )
    monkeypatch.undo()
    assert quiet.files() == ["a.jsonl"]
    assert quiet.land() == {"a.jsonl": Fate.APPENDED}
    assert quiet.values == [b"one", b"one", b"two"]


def test_a_file_that_changes_while_it_is_read_is_not_appended(harbour, monkeypatch):
    path = harbour.put("a.jsonl", "one\n")
    append_to = landing.append_to

    def change_and_append(*arguments, **options):
        path.write_text("two\n")
        return append_to(*arguments, **options)

    monkeypatch.setattr(landing, "append_to", change_and_append)
    [outcome] = harbour.outcomes()
    assert (outcome.fate, outcome.note) == (Fate.LEFT, "it changed while it was read")
    assert (harbour.values, harbour.landed) == ([], [])
    monkeypatch.undo()
    assert harbour.land() == {"a.jsonl": Fate.APPENDED}
    assert harbour.values == [b"two"]


def test_a_file_that_somebody_takes_away_meanwhile_is_passed_over(quiet, monkeypatch):
    quiet.put("a.jsonl")
    quiet.put("b.jsonl", "b")
    gone = quiet.seen()
    (quiet.folder / "a.jsonl").unlink()
    monkeypatch.setattr(landing, "look_into", lambda *_: gone)
    assert quiet.land() == {"a.jsonl": Fate.LEFT, "b.jsonl": Fate.APPENDED}


def test_without_a_database_the_files_stay(quiet, monkeypatch):
    quiet.put("a.jsonl")

    def append(*_, **__):
        raise DatabaseUnavailable("database", expected="a server", found="none")

    monkeypatch.setattr(landing, "append_to", append)
    with pytest.raises(DatabaseUnavailable):
        quiet.land()
    assert quiet.files() == ["a.jsonl"]


KILLED = """
import os, signal, sys, time
from pathlib import Path
from amends_pipeline.assembly import open_ledger
from amends_pipeline.flows import landing, reading

url, root, source, moment = sys.argv[1:]

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

if moment == "before the commit":
    wrapped = landing._same
    def lines(*arguments):
        yield from wrapped(*arguments)
        die()
    landing._same = lines
else:
    name = {"before the move": "rename", "before the error is written": "write_text"}[moment]
    setattr(Path, name, die)
with open_ledger(url) as ledger:
    list(landing.land(ledger, Path(root), source, clock=lambda: time.time_ns() + 3 * 10**9))
"""


@pytest.mark.parametrize("ledger", ["postgres"], indirect=True)
@pytest.mark.parametrize(
    ("moment", "name", "text", "appended", "fate"),
    [
        ("before the commit", "a.jsonl", LINES, 0, Fate.APPENDED),
        ("before the move", "a.jsonl", LINES, 2, Fate.APPENDED_BEFORE),
        ("before the move", "a.csv", HEADER + ROW, 1, Fate.APPENDED_BEFORE),
        ("before the error is written", "a.csv", "bad", 0, Fate.SET_ASIDE),
        ("before the move", "a.csv", "bad", 0, Fate.SET_ASIDE),
    ],
)
def test_a_kill_in_the_middle_changes_nothing_twice(  # noqa: PLR0917 - columns of the table
    harbour, ledger, moment, name, text, appended, fate
):
    harbour.put(name, text)
    program = [sys.executable, "-c", KILLED, ledger.url, str(harbour.root), SOURCE, moment]
    assert subprocess.run(program, check=False).returncode == -signal.SIGKILL
    assert len(harbour.values) == appended
    assert (harbour.folder / name).exists()
    assert harbour.land() == {name: fate}
    assert len(harbour.landed) == 1
    records = {LINES: 2, HEADER + ROW: 1}.get(text, 0)
    assert (len(harbour.values), harbour.landed[0][1]) == (records, records)
    assert not (harbour.folder / name).exists()
    assert harbour.land() == {}


def test_two_who_land_the_same_file_at_once_append_it_once(tmp_path, ledger):
    harbour = Harbour(ledger, tmp_path / "landing")
    harbour.put("a.jsonl")
    seen = harbour.seen()
    other = Harbour.__new__(Harbour)
    other.__dict__.update(harbour.__dict__, ledger=ledger.reopened())
    fates = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(landing, "look_into", lambda *_: seen)
        patch.setattr(landing, "_move", lambda *_: "")
        fates = [harbour.land(), other.land()]
    assert fates == [{"a.jsonl": Fate.APPENDED}, {"a.jsonl": Fate.APPENDED_BEFORE}]
    assert len(harbour.values) == 2
