"""Records as they stand in files: JSON lines byte for byte, CSV rows turned into JSON.

A line ends with LF or CRLF; a lone CR ends nothing. Nothing is judged here that quarantine could
keep: bytes that are not UTF-8 pass, in CSV too. Memory stays bounded whatever the file.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from operator import itemgetter
from typing import Protocol

from amends_pipeline.flows.append import MAX_LINE_BYTES, Line
from amends_pipeline.kernel.canonical import json_string
from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import InputError

COLUMNS = ("txn_id", "revision", "kind", "item", "location", "valid_time", "qty", "source_time")
"""What the header of a CSV file names, in any order."""

BLOCK_BYTES = 1 << 20

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")


class Format(StrEnum):
    """How records stand in a file."""

    JSONL = "jsonl"
    CSV = "csv"

    @classmethod
    def of(cls, name: str) -> Format:
        """What the suffix of a file's name says: CSV where it is .csv, else JSON lines."""
        return cls.CSV if name.lower().endswith(".csv") else cls.JSONL


class Stream(Protocol):
    """What is asked of an open file."""

    def read(self, size: int, /) -> bytes:
        """Return at most so many bytes; none at the end."""
        ...

    def readline(self, size: int, /) -> bytes:
        """Return the bytes up to and with the next line feed, at most so many; none at the end."""
        ...


def lines(stream: Stream, format_: Format, name: str) -> Iterator[Line]:
    """The records of a file, empty lines included; `name` is for messages.

    Raises InputError at what no record can be read from.
    """
    return (_csv_lines if format_ is Format.CSV else _json_lines)(stream, name)


@contextmanager
def readable(name: str) -> Iterator[None]:
    """Turn what the system says against reading into an InputError about `name`."""
    try:
        yield
    except OSError as error:
        raise InputError(name, expected="a readable file", found=told(error)) from None


def told(error: OSError) -> str:
    """What the system says, without the number and the path."""
    return error.strerror or type(error).__name__


def _too_long(name: str, number: int) -> InputError:
    expected = f"at most {MAX_LINE_BYTES} bytes"
    return InputError(f"{name}, line {number}", expected=expected, found="more")


# --- JSON lines


def _json_lines(stream: Stream, name: str) -> Iterator[Line]:
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


def _csv_lines(stream: Stream, name: str) -> Iterator[Line]:
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
            found, _, _ = str(error).partition(" - ")  # advice to programmers comes after it
            raise InputError(where, expected="CSV by RFC 4180", found=found) from None
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

    def __init__(self, stream: Stream, name: str) -> None:
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
