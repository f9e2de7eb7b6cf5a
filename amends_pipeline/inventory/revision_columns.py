"""Many source records decode to columns; each row says what `revision.decode` says of its record.

Sources write record after record in one manner: the same members in the same order with the same
spaces. So one record that decodes serves as a pattern. What lies outside its six texts and two
numbers are nine constant pieces. A record is read by the pattern when it is proven that

- it has the nine pieces, byte for byte, in their places from its first byte to its last, and
  between them six texts and two numbers of its own;
- its texts hold no quotation mark, no backslash, no control and only UTF-8: they are JSON strings
  as they stand, whatever is in them, and U+0000 is not;
- its numbers are plain JSON integers in the signed 64-bit range;
- it is no longer than a value may be.

Such a record is JSON of the pattern's very structure, hence of the same members, each once. Its
timestamps are judged as `decode` judges them. Whatever is not proven goes to `decode_batch`, so
that no record is refused here alone, and the others of its batch do not pay for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from amends_pipeline.inventory.revision import MAX_VALUE_BYTES, Revision, decode, decode_batch
from amends_pipeline.kernel import arrow
from amends_pipeline.kernel.instant_columns import parse_instants
from amends_pipeline.kernel.instants import MAX_DAY, MIN_DAY
from amends_pipeline.kernel.integer_columns import MOST_CHARACTERS, parse_integers
from amends_pipeline.kernel.joined import Joined
from amends_pipeline.kernel.words import LOW_BYTES, WORD, words_of

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_TEXTS: Final = ("txn_id", "kind", "item", "location")
_TIMES: Final = ("valid_time", "source_time")
_INTEGERS: Final = ("revision", "qty")
_QUOTES: Final = 30  # of nine member names and six texts
_MEMBERS: Final = {
    "revision": "revision",
    "qty": "qty",
    "days": "valid_day",
    "nanoseconds": "valid_nanosecond",
}
_SPACE: Final = ord(" ")  # controls are all below
_ASCII: Final = 0x7F

_RUN_RECORDS: Final = 8_192  # worked on together: columns on the way fit the processor's cache
_RUN_BYTES: Final = 1 << 24
_PATTERNS: Final = 8  # for sources that mix manners: made of a run, and kept for the next one
_TRIALS: Final = 64  # records of a run that are looked at as patterns
_WORTH_KEEPING: Final = 64  # records that a pattern has read


@dataclass(frozen=True, slots=True)
class RevisionColumns:
    """Revisions as columns of equal length; "" and 0 where a record is MALFORMED."""

    sound: Flags
    """Which records decode."""
    txn_ids: pa.StringArray
    revisions: Integers
    kinds: pa.StringArray
    items: pa.StringArray
    locations: pa.StringArray
    valid_days: Integers
    valid_nanoseconds: Integers
    qtys: Integers

    def __len__(self) -> int:
        return len(self.sound)

    def at(self, row: int) -> Revision | None:
        """Return what `decode` says of one record; None means MALFORMED."""
        if not self.sound[row]:
            return None
        return Revision(
            self.txn_ids[row].as_py(),
            int(self.revisions[row]),
            self.kinds[row].as_py(),
            self.items[row].as_py(),
            self.locations[row].as_py(),
            int(self.valid_days[row]),
            int(self.valid_nanoseconds[row]),
            int(self.qtys[row]),
        )


def decode_columns(values: Sequence[bytes]) -> RevisionColumns:
    """Decode many records in order. The values together must be below 2 GiB.

    Never raises, whatever the bytes. Most of the time other threads may run.
    """
    patterns: list[_Pattern] = []
    parts = [_decoded(*run, patterns) for run in _runs(values)]
    if len(parts) == 1:
        return parts[0]
    return RevisionColumns(
        *(
            np.concatenate(column)
            if isinstance(column[0], np.ndarray)
            else pa.concat_arrays(column)
            for column in zip(*map(_columns, parts), strict=True)
        )
    )


def _columns(columns: RevisionColumns) -> tuple[Any, ...]:
    return tuple(getattr(columns, name) for name in RevisionColumns.__slots__)


def _decoded(
    values: Sequence[bytes], lengths: Integers, patterns: list[_Pattern]
) -> RevisionColumns:
    reading = _Reading(_Run(values, lengths))
    reading.read_by_patterns(patterns)
    return reading.columns()


def _runs(values: Sequence[bytes]) -> Iterator[tuple[Sequence[bytes], Integers]]:
    """Cut records, and their lengths, into runs that are worked on together."""
    if isinstance(values, Joined):
        lengths = np.diff(values.ends, prepend=0)
    else:
        lengths = np.fromiter(map(len, values), np.int64, len(values))
    begin = 0
    while True:
        sizes = np.cumsum(lengths[begin : begin + _RUN_RECORDS])
        end = begin + max(int(np.searchsorted(sizes, _RUN_BYTES, "right")), 1)
        yield values[begin:end], lengths[begin:end]
        if end >= len(values):
            return
        begin = end


class _Run:
    """Records side by side, and what can be said of their bytes without reading them as JSON."""

    def __init__(self, values: Sequence[bytes], lengths: Integers) -> None:
        self.values = values
        # What lies behind the last record is there to be read over, and never part of it.
        parts = [values.raw] if isinstance(values, Joined) else values
        self.raw = b"".join([*parts, b" " * WORD])
        self.words = words_of(self.raw)
        self.ends = np.cumsum(lengths)
        self.starts = self.ends - lengths
        characters = np.frombuffer(self.raw, np.uint8)
        quotes = np.flatnonzero(characters == ord('"'))
        counts = self._counts(quotes)
        self.usable = (counts == _QUOTES) & (lengths <= MAX_VALUE_BYTES)
        self.firsts = np.cumsum(counts) - counts
        self.quotes = quotes
        self.controls = np.zeros(len(values), np.int64)
        if (characters < _SPACE).any():
            self.controls = self._counts(np.flatnonzero(characters < _SPACE))
        if b"\\" in self.raw:
            self.usable &= self._counts(np.flatnonzero(characters == ord("\\"))) == 0
        if not _is_utf8(self.raw):
            self.usable &= self._counts(np.flatnonzero(characters > _ASCII)) == 0

    def _counts(self, places: Integers) -> Integers:
        """How many of the places lie in each record."""
        return np.diff(np.searchsorted(places, np.append(self.starts, self.ends[-1:])))


def _is_utf8(raw: bytes) -> bool:
    """Tell whether records side by side are UTF-8.

    Records of a pattern begin and end with ASCII, so that no sequence of theirs lies in two.
    """
    try:
        return raw.isascii() or bool(raw.decode())
    except UnicodeDecodeError:
        return False


class _Edge(NamedTuple):
    """A place of a record: so many bytes after its n-th quotation mark, or after its end."""

    quote: int
    shift: int


class _Pattern(NamedTuple):
    """The constant pieces of a manner of writing, and what stands between each two of them."""

    pieces: Sequence[bytes]
    variables: Sequence[str]
    edges: Sequence[tuple[_Edge, _Edge]]
    """Where each variable begins and ends."""
    controls: int
    """How many bytes of the pieces are line ends or tabs."""


_NUMBER: Final = re.compile(rb"-?[0-9]+")


def _pattern(value: bytes, controls: int) -> _Pattern:
    """Make a pattern of a record that decodes and has no backslash, and so many controls."""
    quotes = [match.start() for match in re.finditer(b'"', value)]
    ends = [*quotes, len(value)]
    pieces, variables, edges, done = [], [], [], 0
    quote = 0
    while quote < _QUOTES:
        name = value[quotes[quote] + 1 : quotes[quote + 1]].decode()
        if name in _INTEGERS:
            number = next(_NUMBER.finditer(value, quotes[quote + 1] + 1))
            begin, end = number.span()
            edge = _Edge(quote + 1, begin - quotes[quote + 1])
            edges.append((edge, _Edge(quote + 2, end - ends[quote + 2])))
            quote += 2
        elif name == "stock_key":
            quote += 2
            continue
        else:
            begin, end = quotes[quote + 2] + 1, quotes[quote + 3]
            edges.append((_Edge(quote + 2, 1), _Edge(quote + 3, 0)))
            quote += 4
        variables.append(name)
        pieces.append(value[done:begin])
        done = end
    return _Pattern([*pieces, value[done:]], variables, edges, controls)


class _Reading:
    """Columns of a run on the way: what is not yet read is not sound."""

    def __init__(self, run: _Run) -> None:
        count = len(run.values)
        self.run = run
        self.settled = np.zeros(count, np.bool_)
        """Which records are read, MALFORMED ones included."""
        self.sound = np.zeros(count, np.bool_)
        self.integers = {
            name: np.zeros(count, np.int64) for name in (*_INTEGERS, "days", "nanoseconds")
        }
        self.spans = {name: np.repeat(run.starts, 2).reshape(-1, 2) for name in _TEXTS}
        """Where the texts begin and end; of what is not sound, nothing."""

    def read_by_patterns(self, patterns: list[_Pattern]) -> None:
        """Read what patterns prove: the given ones, then others, of which the good ones are added.

        Another pattern is the first record that is still to be read, if it decodes.
        """
        for pattern in patterns:
            self._read(pattern, self._left())
        others = 0
        for _ in range(_TRIALS):
            left = self._left()
            if not len(left) or others == _PATTERNS:
                break
            first = int(left[0])
            value = self.run.values[first]
            if decode(value) is None:
                self.settled[first] = True
                continue
            others += 1
            pattern = _pattern(value, int(self.run.controls[first]))
            self._read(pattern, left)
            if len(left) - len(self._left()) >= _WORTH_KEEPING:
                patterns.append(pattern)
        del patterns[:-_PATTERNS]

    def _left(self) -> Integers:
        return np.flatnonzero(self.run.usable & ~self.settled)

    def _read(self, pattern: _Pattern, rows: Integers) -> None:
        """Read those of the rows that are written by the pattern."""
        run = self.run
        rows = rows[run.controls[rows] == pattern.controls]
        if not len(rows):
            return
        edges = _edges(run, pattern, rows)
        placed = _placed(pattern, edges)
        rows, edges = _only(placed, rows, edges)
        proven = _equal_pieces(run, pattern, edges)
        numbers = {}
        for name in _INTEGERS:
            # Before a number stands at least its member's name.
            numbers[name], right = parse_integers(run.raw, *_span(pattern, name, edges))
            proven &= right
        # From here on the record is the JSON that it should be. Its times can still be wrong.
        self.settled[rows[proven]] = True
        valid, source = (
            parse_instants(run.raw, *(each[proven] for each in _span(pattern, name, edges)))
            for name in _TIMES
        )
        timely = valid.sound & source.sound & (source.days >= MIN_DAY) & (source.days <= MAX_DAY)
        sound = np.flatnonzero(proven)[timely]
        rows = rows[sound]
        self.sound[rows] = True
        self.integers["days"][rows] = valid.days[timely]
        self.integers["nanoseconds"][rows] = valid.nanoseconds[timely]
        for name, column in numbers.items():
            self.integers[name][rows] = column[sound]
        for name in _TEXTS:
            for side, places in enumerate(_span(pattern, name, edges)):
                self.spans[name][rows, side] = places[sound]

    def columns(self) -> RevisionColumns:
        """Read what is left one by one, and return the whole run."""
        texts = {name: _texts(self.run.raw, spans) for name, spans in self.spans.items()}
        left = np.flatnonzero(~self.settled)
        if len(left):
            decoded = decode_batch([self.run.values[row] for row in left.tolist()])
            sound = [each for each in decoded if each is not None]
            rows = left[[each is not None for each in decoded]]
            self.sound[rows] = True
            for name, member in _MEMBERS.items():
                self.integers[name][rows] = [getattr(each, member) for each in sound]
            for name in _TEXTS:
                texts[name] = _replaced(texts[name], rows, [getattr(each, name) for each in sound])
        return RevisionColumns(
            sound=self.sound,
            txn_ids=texts["txn_id"],
            revisions=self.integers["revision"],
            kinds=texts["kind"],
            items=texts["item"],
            locations=texts["location"],
            valid_days=self.integers["days"],
            valid_nanoseconds=self.integers["nanoseconds"],
            qtys=self.integers["qty"],
        )


def _edges(run: _Run, pattern: _Pattern, rows: Integers) -> list[Integers]:
    """Where the pieces would begin and end in each row, in the order of the pattern."""
    ends = run.ends[rows]
    firsts = run.firsts[rows]
    between = (
        (run.quotes[edge.quote :][firsts] if edge.quote < _QUOTES else ends) + edge.shift
        for edge in chain.from_iterable(pattern.edges)
    )
    return [run.starts[rows], *between, ends]


def _placed(pattern: _Pattern, edges: list[Integers]) -> Flags:
    """Tell in which rows all pieces would have their lengths, and numbers a possible one.

    With that the edges are in order and none lies outside its record.
    """
    placed = np.ones(len(edges[0]), np.bool_)
    for piece, begin, end in zip(pattern.pieces, edges[::2], edges[1::2], strict=True):
        placed &= end - begin == len(piece)
    for name in _INTEGERS:
        begin, end = _span(pattern, name, edges)
        placed &= (end > begin) & (end - begin <= MOST_CHARACTERS)
    return placed


def _only(chosen: Flags, rows: Integers, edges: list[Integers]) -> tuple[Integers, list[Integers]]:
    if chosen.all():
        return rows, edges
    return rows[chosen], [each[chosen] for each in edges]


def _span(pattern: _Pattern, name: str, edges: list[Integers]) -> tuple[Integers, Integers]:
    at = 2 * pattern.variables.index(name) + 1
    return edges[at], edges[at + 1]


def _equal_pieces(run: _Run, pattern: _Pattern, edges: list[Integers]) -> Flags:
    """Tell which rows have the pieces byte for byte; eight bytes are compared in a step."""
    equal = np.ones(len(edges[0]), np.bool_)
    for piece, begins in zip(pattern.pieces, edges[::2], strict=True):
        for at in range(0, len(piece), WORD):
            # The last step goes back over what was compared before, if there is enough of it.
            start = max(min(at, len(piece) - WORD), 0)
            part = piece[start : start + WORD]
            found = run.words[start:][begins]
            if len(part) < WORD:
                found &= LOW_BYTES[len(part)]
            equal &= found == np.uint64(int.from_bytes(part, "little"))
    return equal


def _texts(raw: bytes, spans: Integers) -> pa.StringArray:
    """Copy texts that stand in order: every other one of those that the edges cut `raw` into."""
    edges = np.append(spans.ravel(), spans.ravel()[-1:]).astype(np.int32)
    cut = pa.StringArray.from_buffers(
        spans.size, pa.py_buffer(edges), pa.py_buffer(raw), null_count=0
    )
    return arrow.taken(cut, np.arange(0, spans.size, 2))


def _replaced(texts: pa.StringArray, rows: Integers, others: list[str]) -> pa.StringArray:
    if not others:
        return texts
    order = np.arange(len(texts))
    order[rows] = len(texts) + np.arange(len(others))
    return arrow.taken(pa.concat_arrays([texts, arrow.texts(others)]), order)
