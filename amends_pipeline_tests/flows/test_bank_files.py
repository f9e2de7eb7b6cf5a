"""What an export writes to: whole or not at all, and never in the place of something else."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from amends_pipeline.flows import bank_files
from amends_pipeline.flows.bank_files import written
from amends_pipeline.kernel.errors import OperationError


def write(path, content=b"new", end=None):
    with written(path) as out:
        out.write(content)
        if end is not None:
            raise end


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(params=["without a name", "with a name", "without /proc"])
def system(request, monkeypatch):
    """How a file that is being written stands in the file system."""
    if request.param == "with a name":
        monkeypatch.setattr(bank_files, "_WITHOUT_NAME", None)
    elif request.param == "without /proc":
        monkeypatch.setattr(bank_files, "_by_number", lambda number: f"/nowhere/{number}")
    elif not hasattr(os, "O_TMPFILE"):
        pytest.skip("the system knows no files without a name")
    return request.param


def killed(path, *, named):
    """Let another process write to a file, and kill it before it is done."""
    program = f"""
import sys
from pathlib import Path
from amends_pipeline.flows import bank_files
if {named}:
    bank_files._WITHOUT_NAME = None
with bank_files.written(Path({str(path)!r})) as out:
    out.write(b"half")
    out.flush()
    print("written", flush=True)
    sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"written\n"
        yield
        process.kill()
        assert process.wait() == -signal.SIGKILL
    yield


@pytest.mark.usefixtures("system")
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


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="files without a name are of Linux")
def test_of_a_writer_that_was_killed_nothing_is_left(tmp_path):
    path = tmp_path / "groups.json"
    for old in (b"", b"old"):
        path.write_bytes(old)
        for _ in killed(path, named=False):
            assert names(tmp_path) == [path.name]
        assert path.read_bytes() == old
    path.unlink()
    for _ in killed(path, named=False):
        assert names(tmp_path) == []


@pytest.mark.usefixtures("system")
def test_what_a_killed_writer_left_is_removed_by_the_next_one_of_the_same_file(tmp_path):
    path, other = tmp_path / "groups.json", tmp_path / "accounts.json"
    living, dead = killed(path, named=True), killed(path, named=True)
    next(living)
    next(dead)
    next(dead)
    assert len(names(tmp_path)) == 2
    write(other)
    assert len(names(tmp_path)) == 3  # that of another file may be anybody's
    write(path)
    left = names(tmp_path)
    assert left[1:] == [other.name, path.name]  # the living one goes on
    assert path.read_bytes() == b"new"
    next(living)
    write(path)
    assert names(tmp_path) == [other.name, path.name]


@pytest.mark.usefixtures("system")
def test_two_write_one_file_and_the_later_end_counts(tmp_path):
    path = tmp_path / "groups.json"
    with written(path) as early:
        early.write(b"early")
        write(path, b"late")
        assert path.read_bytes() == b"late"
    assert path.read_bytes() == b"early"
    assert names(tmp_path) == [path.name]


@pytest.mark.usefixtures("system")
def test_a_new_file_may_be_read_by_whom_the_mask_allows(tmp_path):
    before = os.umask(0o027)
    try:
        write(tmp_path / "new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


@pytest.mark.usefixtures("system")
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
