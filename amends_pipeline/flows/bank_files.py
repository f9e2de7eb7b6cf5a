"""A file that is there whole, or as it was before."""

from __future__ import annotations

import os
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import OperationError


@contextmanager
def written(path: Path) -> Iterator[BinaryIO]:
    """Write a file for a block, under another name; it takes its own when the block ends well.

    Where a link stands, the file that it leads to is written; whoever may read a file that is there
    may read the new one. Raises OperationError when the file system refuses, and for what is there
    and no file: a folder, a pipe, a device.
    """
    place = Path(os.path.realpath(path))
    try:
        mode = _mode(path)
        beside = place.with_name(f".{uuid.uuid4().hex}.tmp")
        try:
            with beside.open("wb") as out:
                if mode is not None:
                    os.fchmod(out.fileno(), mode)
                yield out
                out.flush()
                os.fsync(out.fileno())
            beside.replace(place)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise _refused(path, error.strerror or type(error).__name__) from None


def _mode(path: Path) -> int | None:
    """Return who may do what with the file that is there, None where none is."""
    try:
        there = path.stat()
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(there.st_mode):
        raise _refused(path, "a folder")
    if not stat.S_ISREG(there.st_mode):
        raise _refused(path, "a pipe or a device")
    return stat.S_IMODE(there.st_mode)


def _refused(path: Path, found: str) -> OperationError:
    return OperationError(f"file {shown(str(path))}", expected="a place to write it", found=found)
