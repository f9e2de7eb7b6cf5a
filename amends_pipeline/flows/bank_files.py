"""A file that is there whole, or as it was before.

What is being written has no name where the system can give it one in the end (Linux, on most file
systems), so that nothing of it is left when the process is killed. Elsewhere, and for the moment in
which it takes the place of a file that is there, it stands beside its target under a name that
says which one. Its writer holds a lock on it for as long as it lives: what nobody holds was left
behind, and the next writer of the same target removes it.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import OperationError

_WITHOUT_NAME = getattr(os, "O_TMPFILE", None)
# What file systems and kernels say that know no files without a name.
_UNKNOWN = {errno.EISDIR, errno.ENOENT, errno.EINVAL, errno.EOPNOTSUPP}
_NEW = 0o666  # less what the user's mask takes


@contextmanager
def written(path: Path) -> Iterator[BinaryIO]:
    """Write a file for a block; it takes its place when the block ends well.

    Where a link stands, the file that it leads to is written; whoever may read a file that is there
    may read the new one. Raises OperationError when the file system refuses, and for what is there
    and no file: a folder, a pipe, a device.
    """
    try:
        mode = _mode(path)
        coming = _Coming(Path(os.path.realpath(path)))
        try:
            with coming.out as out:
                if mode is not None:
                    os.fchmod(out.fileno(), mode)
                yield out
                out.flush()
                os.fsync(out.fileno())
                coming.put()
        finally:
            coming.remove()
    except OSError as error:
        raise _refused(path, error.strerror or type(error).__name__) from None


class _Coming:
    """A file on its way to its place."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._mark = f".{hashlib.sha256(os.fsencode(place.name)).hexdigest()[:16]}-"
        self._beside: Path | None = None
        self._sweep()
        descriptor = _without_name(place.parent)
        if descriptor is None:
            descriptor = self._with_name()
        self.out: BinaryIO = os.fdopen(descriptor, "wb")

    def put(self) -> None:
        """Let the file take its place."""
        if self._beside is None:
            beside = self._some_name()
            _give_name(self.out.fileno(), beside)
            self._beside = beside
        self._beside.replace(self._place)
        self._beside = None

    def remove(self) -> None:
        """Leave nothing of a file that took no place."""
        if self._beside is not None:
            self._beside.unlink(missing_ok=True)

    def _some_name(self) -> Path:
        return self._place.with_name(f"{self._mark}{uuid.uuid4().hex}.tmp")

    def _with_name(self) -> int:
        while True:
            beside = self._some_name()
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _NEW)
            _lock(descriptor)
            if beside.exists():  # nobody took it for left behind before it was locked
                self._beside = beside
                return descriptor
            os.close(descriptor)

    def _sweep(self) -> None:
        """Remove what killed writers of the same target left."""
        for path in self._place.parent.glob(f"{self._mark}*.tmp"):
            with suppress(OSError):  # somebody holds it, or was quicker
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    path.unlink()
                finally:
                    os.close(descriptor)


def _without_name(folder: Path) -> int | None:
    """Open a file that has no name, None where there can be none."""
    if _WITHOUT_NAME is None:
        return None
    try:
        descriptor = os.open(folder, os.O_WRONLY | _WITHOUT_NAME | os.O_CLOEXEC, _NEW)
    except OSError as error:
        if error.errno in _UNKNOWN:
            return None
        raise
    if not Path(_by_number(descriptor)).exists():  # where no /proc is, it gets no name either
        os.close(descriptor)
        return None
    _lock(descriptor)
    return descriptor


def _by_number(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"


def _give_name(descriptor: int, path: Path) -> None:
    """Name a file that has none."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # With a folder the link is followed to the file: linkat with AT_SYMLINK_FOLLOW.
        os.link(_by_number(descriptor), path, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        os.close(folder)


def _lock(descriptor: int) -> None:
    """Hold a file while this process lives; where nothing can be held, nothing is swept either."""
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX)


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
