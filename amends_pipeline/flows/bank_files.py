"""A file that is there whole, or as it was before."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import OperationError


@contextmanager
def written(path: Path) -> Iterator[BinaryIO]:
    """Write a file for a block, under another name; it takes its own when the block ends well.

    Raises OperationError when the file system refuses.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        try:
            with beside.open("wb") as out:
                yield out
                out.flush()
                os.fsync(out.fileno())
            beside.replace(path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
    except OSError as error:
        found = error.strerror or type(error).__name__
        expected = "a place to write it"
        raise OperationError(f"file {shown(str(path))}", expected=expected, found=found) from None
