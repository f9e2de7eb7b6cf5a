"""What an export writes to: whole or not at all, and never in the place of something else."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from amends_pipeline.flows.bank_files import written
from amends_pipeline.kernel.errors import OperationError


def write(path, content=b"new", end=None):
    with written(path) as out:
        out.write(content)
        if end is not None:
            raise end


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_takes_its_place_when_it_is_whole(tmp_path):
    path = tmp_path / ("n" * 255)  # the longest name that there is
    path.write_bytes(b"old")
    path.chmod(0o640)
    with written(path) as out:
        out.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert names(tmp_path) == [path.name]


@pytest.mark.parametrize("end", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_what_is_interrupted_leaves_the_file_as_it_was(tmp_path, end):
    path = tmp_path / "groups.json"
    path.write_bytes(b"old")
    expected = OperationError if isinstance(end, OSError) else end
    with pytest.raises(expected):
        write(path, b"half", end)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == [path.name]


def test_a_link_stays_one(tmp_path):
    path = tmp_path / "link"
    path.symlink_to("folder/file")
    (tmp_path / "folder").mkdir()
    write(path)
    write(path, b"newer")
    assert path.is_symlink()
    assert (tmp_path / "folder" / "file").read_bytes() == b"newer"


def test_nothing_that_is_no_file_is_replaced(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    Path("loop").symlink_to("loop")
    refused = {
        "pipe": "a pipe or a device",
        ".": "a folder",
        "..": "a folder",
        "": "a folder",
        "/": "a folder",
        "loop": "Too many levels of symbolic links",
        "nowhere/file": "No such file or directory",
        "pipe/file": "Not a directory",
    }
    for name, found in refused.items():
        with pytest.raises(OperationError, match=f"expected a place to write it, found {found}"):
            write(Path(name))
    assert stat.S_ISFIFO(Path("pipe").stat().st_mode)
    assert names(tmp_path) == ["loop", "pipe"]
