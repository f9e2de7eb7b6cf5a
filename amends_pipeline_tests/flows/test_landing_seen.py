"""What is seen in landing folders with real files: what is taken, what waits and why."""

from __future__ import annotations

import os
import time

import pytest

from amends_pipeline.flows import landing
from amends_pipeline.flows.landing import Fate, look, look_into
from amends_pipeline.kernel.errors import OperationError
from amends_pipeline_tests.flows.harbour import LINES, SOURCE


def test_without_a_folder_nothing_is_seen(tmp_path):
    assert look(tmp_path / "landing", time.time_ns()) == []


def test_each_source_has_a_folder(quiet):
    for name in ("b", "a", ".hidden"):
        (quiet.root / name).mkdir()
    (quiet.root / "file").write_text("")
    assert [each.source for each in look(quiet.root, time.time_ns())] == ["a", "b", SOURCE]


def test_nothing_is_taken_from_a_folder_that_is_a_link_and_this_is_told(quiet, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.jsonl").write_text("a line")
    (quiet.root / "link").symlink_to(tmp_path / "elsewhere")
    (quiet.root / "nowhere").symlink_to(tmp_path / "nowhere")
    told = {
        each.source: (each.refused, list(each.whole)) for each in look(quiet.root, quiet.clock())
    }
    assert told == {
        SOURCE: ("", []),
        "link": ("its folder is a link, and links are not followed", []),
    }


def test_files_are_whole_when_they_have_not_changed_for_two_seconds(quiet):
    path = quiet.put("a.jsonl")
    changed = path.stat().st_ctime_ns
    young = look_into(quiet.folder, changed + 1_999_999_999)
    assert (young.whole, young.waits) == ([], '"a.jsonl" changed just now')
    old = look_into(quiet.folder, changed + 2_000_000_000)
    assert [each.name for each in old.whole] == ["a.jsonl"]


def test_the_time_of_the_last_write_can_be_set_back_and_deceives_nobody(quiet):
    path = quiet.put("a.jsonl")
    os.utime(path, (0, 0))
    assert quiet.seen().whole
    assert look_into(quiet.folder, time.time_ns()).whole == []


def test_a_file_that_is_renamed_into_the_folder_is_whole_after_two_seconds(quiet, tmp_path):
    (tmp_path / "a.jsonl").write_text(LINES)
    (tmp_path / "a.jsonl").rename(quiet.folder / "a.jsonl")
    assert quiet.land() == {"a.jsonl": Fate.APPENDED}


def test_what_is_not_taken_is_told_and_stays(quiet):
    quiet.put("a.jsonl.part")
    quiet.put("b.CSV.tmp")
    quiet.put(".c.jsonl")
    quiet.put("d.txt")
    quiet.put("e.jsonl", "")
    (quiet.folder / "f.jsonl").mkdir()
    (quiet.folder / "g.jsonl").symlink_to(quiet.folder / "d.txt")
    os.mkfifo(quiet.folder / "h.jsonl")
    before = quiet.files()
    assert quiet.land() == {}
    assert quiet.seen().waiting == [
        ("a.jsonl.part", "is not finished"),
        ("b.CSV.tmp", "is not finished"),
        ("d.txt", "is neither .jsonl nor .csv"),
        ("e.jsonl", "is empty, and taken after a minute"),
        ("f.jsonl", "is no file"),
        ("g.jsonl", "is a link"),
        ("h.jsonl", "is no file"),
    ]
    assert quiet.seen().waits == (
        '"a.jsonl.part" is not finished, "b.CSV.tmp" is not finished,'
        ' "d.txt" is neither .jsonl nor .csv, and 4 more'
    )
    assert quiet.files() == before


def test_a_file_that_cannot_be_read_waits(quiet, monkeypatch):
    quiet.put("a.jsonl")
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may read everything
    assert quiet.seen().waits == '"a.jsonl" cannot be read'


def test_one_look_sees_a_thousand_files_in_the_order_of_their_names(quiet, monkeypatch):
    monkeypatch.setattr(landing, "FILES_AT_ONCE", 3)
    for name in ("d", "b", "a", "c"):
        quiet.put(f"{name}.jsonl", name)
    assert list(quiet.land()) == ["a.jsonl", "b.jsonl", "c.jsonl"]
    assert list(quiet.land()) == ["d.jsonl"]
    assert quiet.values == [b"a", b"b", b"c", b"d"]


def test_a_folder_that_is_a_link_or_is_gone_is_refused(quiet, tmp_path):
    quiet.folder.rmdir()
    with pytest.raises(OperationError, match="found No such file or directory"):
        quiet.land()
    (tmp_path / "elsewhere").mkdir()
    quiet.folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OperationError, match="found a link"):
        quiet.land()
