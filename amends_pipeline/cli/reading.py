"""Input files of records: JSON lines as they stand, CSV turned into them.

All inputs of a command are read twice: once to see that none must be refused, once to append.
What cannot be read twice (standard input, a pipe) is copied to a temporary file first. Memory stays
bounded whatever the input.

A line ends with LF or CRLF; a lone CR ends nothing. Nothing is judged here that quarantine could
keep: bytes that are not UTF-8 pass, in CSV too.
"""

from __future__ import annotations

import csv
import re
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from io import BufferedReader
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from amends_pipeline.flows.append import MAX_LINE_BYTES, Line, checked
from amends_pipeline.kernel.canonical import json_string
from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import InputError, OperationError

COLUMNS = ("txn_id", "revision", "kind", "item", "location", "valid_time", "qty", "source_time")
"""What the header of a CSV file names, in any order."""

BLOCK_BYTES = 1 << 20
STANDARD_INPUT = "-"

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")


class Format(StrEnum):
    """How records stand in a file."""

    JSONL = "jsonl"
    CSV = "csv"


class Input(NamedTuple):
    """One named input that can be read again and again."""

    name: str
    """For messages: escaped and quoted."""
    format: Format
    path: Path
    """The file itself, or the copy of what could be read only once."""

    def lines(self) -> Iterator[Line]:
        """Its records, empty lines included. Raises InputError."""
        with readable(self.name), self.path.open("rb") as stream:
            yield from (_csv_lines if self.format is Format.CSV else _json_lines)(stream, self.name)


@contextmanager
def inputs(names: Sequence[str], given: Format | None) -> Iterator[list[Input]]:
    """The inputs of a command, for a block; `-` is standard input.

    Without a `given` format the suffix decides. Raises InputError for what cannot be read.
    """
    if names.count(STANDARD_INPUT) > 1:
        raise InputError("standard input", expected="to be named once", found="several -")
    with ExitStack() as copies:
        yield [_input(name, given, copies) for name in names]


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
            _copied("standard input", _standard_input(), copies),
        )
    format_ = given or (Format.CSV if name.lower().endswith(".csv") else Format.JSONL)
    path = Path(name)
    with readable(shown(name)):
        if stat.S_ISREG(path.stat().st_mode):
            return Input(shown(name), format_, path)
        with path.open("rb") as stream:
            return Input(shown(name), format_, _copied(shown(name), stream, copies))


def _standard_input() -> BufferedReader:
    if sys.stdin is None:
        raise InputError("standard input", expected="an open file", found="a closed one")
    return cast("BufferedReader", sys.stdin.buffer)


def _copied(name: str, stream: BufferedReader, copies: ExitStack) -> Path:
    """Copy a stream that may be read only once; the copy lives as long as `copies`."""
    try:
        folder = copies.enter_context(tempfile.TemporaryDirectory(prefix="amends-"))
        path = Path(folder, "input")
        with path.open("wb") as copy:
            while block := _block(name, stream):
                copy.write(block)
    except OSError as error:
        where = f"temporary copy of {name}"
        raise OperationError(where, expected="room for it", found=_told(error)) from error
    return path


def _block(name: str, stream: BufferedReader) -> bytes:
    with readable(name):
        # Not `read`: while that waits for a whole block, an interrupt may wait with it.
        return stream.read1(BLOCK_BYTES)


@contextmanager
def readable(name: str) -> Iterator[None]:
    """Turn what the system says against reading into an InputError about `name`."""
    try:
        yield
    except OSError as error:
        raise InputError(name, expected="a readable file", found=_told(error)) from None


def _told(error: OSError) -> str:
    return error.strerror or type(error).__name__


def _too_long(name: str, number: int) -> InputError:
    expected = f"at most {MAX_LINE_BYTES} bytes"
    return InputError(f"{name}, line {number}", expected=expected, found="more")


# --- JSON lines


def _json_lines(stream: BinaryIO, name: str) -> Iterator[Line]:
    number = 0
    rest = b""
    while block := stream.read(BLOCK_BYTES):
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            number += 1
            yield Line(name, number, line[:-1] if line.endswith(b"\r") else line)
        if len(rest) > MAX_LINE_BYTES + 1:  # one more, for a CR that may be half a line end
            raise _too_long(name, number + 1)
    if rest:
        yield Line(name, number + 1, rest)


# --- CSV


def _csv_lines(stream: BinaryIO, name: str) -> Iterator[Line]:
    """Rows after the header as JSON records. Raises InputError that names the row."""
    csv.field_size_limit(MAX_LINE_BYTES)
    texts = _Texts(stream, name)
    rows = csv.reader(texts, strict=True)
    number = 0
    arranged: Callable[[list[str]], tuple[str, ...]] | None = None
    while True:
        number += 1
        where = f"{name}, row {number}"
        try:
            row = next(rows)
        except StopIteration:
            break
        except csv.Error as error:
            raise InputError(where, expected="CSV by RFC 4180", found=str(error)) from None
        if texts.last.endswith(("\r", "\r\r\n")):
            raise InputError(where, expected="CSV by RFC 4180", found="a CR that ends no line")
        if not row:
            continue
        if arranged is None:
            arranged = _arrangement(where, row)
        elif len(row) != len(COLUMNS):
            raise InputError(where, expected=f"{len(COLUMNS)} columns", found=str(len(row)))
        else:
            yield Line(name, number, _record(*arranged(row)))
    if arranged is None:
        raise InputError(f"{name}, row 1", expected=_HEADER, found="no header")


class _Texts:
    """Lines of a CSV file with their ends, as the CSV reader wants them, and the last one given."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self.last = ""
        self._stream = stream
        self._name = name
        self._number = 0

    def __iter__(self) -> Iterator[str]:
        while line := self._stream.readline(MAX_LINE_BYTES + 3):
            self._number += 1
            if len(line.rstrip(b"\r\n")) > MAX_LINE_BYTES:
                raise _too_long(self._name, self._number)
            # Bytes that are no UTF-8 come out again as they were.
            self.last = line.decode("utf-8", "surrogateescape")
            yield self.last


_HEADER = f"the columns {', '.join(COLUMNS)}"


def _arrangement(where: str, header: list[str]) -> Callable[[list[str]], tuple[str, ...]]:
    if sorted(header) != sorted(COLUMNS):
        found = shown(", ".join(header))
        raise InputError(where, expected=f"{_HEADER}, in any order", found=found)
    return itemgetter(*(header.index(column) for column in COLUMNS))


def _record(  # noqa: PLR0913, PLR0917 - a record has so many texts
    txn_id: str,
    revision: str,
    kind: str,
    item: str,
    location: str,
    valid_time: str,
    qty: str,
    source_time: str,
) -> bytes:
    return (
        f'{{"txn_id":{json_string(txn_id)},"revision":{_integer(revision)}'
        f',"kind":{json_string(kind)},"stock_key":{{"item":{json_string(item)}'
        f',"location":{json_string(location)}}},"valid_time":{json_string(valid_time)}'
        f',"qty":{_integer(qty)},"source_time":{json_string(source_time)}}}'
    ).encode("utf-8", "surrogateescape")


def _integer(text: str) -> str:
    """Copy a plain integer; anything else becomes a text, so that quarantine shows what it was."""
    return text if _INTEGER.fullmatch(text) else json_string(text)
