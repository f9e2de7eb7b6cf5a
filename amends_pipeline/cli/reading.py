"""Input files of a command: each is read twice, once to see that none must be refused.

What cannot be read twice (standard input, a pipe) is copied to a temporary file first. It has no
name, so that nothing is left of it however we end. Memory stays bounded whatever the input. What
stands in a file is the matter of `flows.reading`.
"""

from __future__ import annotations

import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from amends_pipeline.flows.append import Line, checked
from amends_pipeline.flows.reading import BLOCK_BYTES, Format, lines, readable, told
from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import InputError, OperationError

STANDARD_INPUT = "-"

Opening = Callable[[], AbstractContextManager[BinaryIO]]


class Input(NamedTuple):
    """One named input that can be read again and again."""

    name: str
    """For messages: escaped and quoted."""
    format: Format
    opened: Opening
    """Open the file, or go back to the start of the copy of what could be read only once."""

    def lines(self) -> Iterator[Line]:
        """Its records, empty lines included. Raises InputError."""
        with readable(self.name), self.opened() as stream:
            yield from lines(stream, self.format, self.name)


@contextmanager
def inputs(names: Sequence[str], given: Format | None) -> Iterator[list[Input]]:
    """The inputs of a command, for a block; `-` is standard input.

    Without a `given` format the suffix decides. Raises InputError for what cannot be read.
    """
    check_named_once(names)
    with ExitStack() as copies:
        yield [_input(name, given, copies) for name in names]


def check_named_once(names: Iterable[str]) -> None:
    """Raise InputError where standard input, which can be read once, is named twice."""
    if list(names).count(STANDARD_INPUT) > 1:
        raise InputError("standard input", expected="to be named once", found="several -")


def count(input_: Input, on_counted: Callable[[int], None]) -> int:
    """Read an input whole and count its records. Raises InputError where it must be refused."""
    counted = 0
    for _ in checked(input_.lines()):
        counted += 1
        on_counted(1)
    return counted


def records(inputs: Sequence[Input]) -> Iterator[Line]:
    """All records of all inputs in order, empty lines included."""
    for each in inputs:
        yield from each.lines()


def _input(name: str, given: Format | None, copies: ExitStack) -> Input:
    if name == STANDARD_INPUT:
        return Input(
            "standard input",
            given or Format.JSONL,
            _copied("standard input", standard_input(), copies),
        )
    format_ = given or Format.of(name)
    path = Path(name)
    with readable(shown(name)):
        if stat.S_ISREG(path.stat().st_mode):
            return Input(shown(name), format_, lambda: path.open("rb"))
        with path.open("rb") as stream:
            return Input(shown(name), format_, _copied(shown(name), stream, copies))


def standard_input() -> BufferedReader:
    """Return the bytes of standard input. Raises InputError where it is closed."""
    if sys.stdin is None:
        raise InputError("standard input", expected="an open file", found="a closed one")
    return cast("BufferedReader", sys.stdin.buffer)


def _copied(name: str, stream: BufferedReader, copies: ExitStack) -> Opening:
    """Copy a stream that may be read only once; the copy lives as long as `copies`."""
    try:
        copy = tempfile.TemporaryFile()  # noqa: SIM115 - `copies` closes it
        copies.callback(copy.close)
        while block := _block(name, stream):
            copy.write(block)
        copy.flush()
    except OSError as error:
        where = f"temporary copy of {name}"
        raise OperationError(where, expected="room for it", found=told(error)) from error
    return partial(_again, copy)


@contextmanager
def _again(copy: BinaryIO) -> Iterator[BinaryIO]:
    copy.seek(0)
    yield copy


def _block(name: str, stream: BufferedReader) -> bytes:
    with readable(name):
        # Not `read`: while that waits for a whole block, an interrupt may wait with it.
        return stream.read1(BLOCK_BYTES)
