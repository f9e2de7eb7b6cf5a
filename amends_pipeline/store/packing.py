"""Rows of a binary COPY put together from numpy columns and one column of texts.

Rows whose text has the same length have the same size: they are one numpy array of records, whose
bytes go to the server as they are. No row is an object on the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from amends_pipeline.store import arrays

MOST_LENGTHS: Final = 64
"""Lengths of texts that are told apart at once; of many more, each would have few rows."""

_NULL: Final = -1


class Texts(NamedTuple):
    """Texts in UTF-8; several of them may stand at the same place."""

    data: NDArray[np.uint8]
    begins: NDArray[np.int64]
    lengths: NDArray[np.int64]
    """Bytes of each."""

    @staticmethod
    def of(column: Any) -> Texts:  # noqa: ANN401 - pyarrow has no types
        """The texts of a pyarrow StringArray without nulls."""
        _, bounds, data = column.buffers()
        # Offsets of 32 bits in this kind of array.
        places = np.frombuffer(bounds, np.int32)[column.offset :][: len(column) + 1]
        raw = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, dtype=np.uint8)
        bounds = places.astype(np.int64)
        return Texts(raw, bounds[:-1], np.diff(bounds))

    @staticmethod
    def of_strings(texts: Sequence[str]) -> Texts:
        """The given texts."""
        raw = "".join(texts).encode()
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        if len(raw) != lengths.sum():
            # Some character takes more than a byte.
            lengths = np.fromiter((len(each.encode()) for each in texts), np.int64, len(texts))
        return Texts(np.frombuffer(raw, np.uint8), np.cumsum(lengths) - lengths, lengths)

    def part(self, start: int, stop: int) -> Texts:
        """The texts of these positions."""
        return self.take(slice(start, stop))

    def take(self, at: NDArray[np.int64] | slice) -> Texts:
        """The texts at these positions, each as often as it is named."""
        return Texts(self.data, self.begins[at], self.lengths[at])

    def rectangle(self, at: NDArray[np.int64], length: int) -> NDArray[np.uint8]:
        """The bytes of the texts at these positions, all of which have this length."""
        begins = self.begins[at]
        if len(at) and bool((np.diff(begins) == length).all()):
            # They stand one behind the other.
            whole = self.data[begins[0] : begins[0] + len(at) * length]
            return whole.reshape(len(at), length)
        gathered: NDArray[np.uint8] = self.data[begins[:, None] + np.arange(length)]
        return gathered


def rows(
    kinds: Sequence[str], numbers: Sequence[NDArray[Any]], texts: Texts, nulls: int
) -> Iterator[bytes]:
    """The bytes of rows: numbers of these numpy types, a text, and so many nulls behind it.

    Rows come in their order as long as texts have the same length, else length by length.
    """
    lengths = texts.lengths
    distinct = np.unique(lengths)
    if len(distinct) > MOST_LENGTHS:
        half = len(lengths) // 2
        for low, high in ((0, half), (half, len(lengths))):
            part = [column[low:high] for column in numbers]
            yield from rows(kinds, part, texts.part(low, high), nulls)
        return
    for length in distinct.tolist():
        at = np.flatnonzero(lengths == length)
        columns = numbers if len(distinct) == 1 else [column[at] for column in numbers]
        yield _records(kinds, columns, texts.rectangle(at, length), nulls)


def _records(
    kinds: Sequence[str], numbers: Sequence[NDArray[Any]], text: NDArray[np.uint8], nulls: int
) -> bytes:
    count, length = text.shape
    members: list[Any] = [("width", ">i2")]
    for at, kind in enumerate(kinds):
        members += [(f"length{at}", ">i4"), (f"value{at}", kind)]
    members += [("bytes", ">i4"), ("text", np.uint8, (length,))]
    members += [(f"null{at}", ">i4") for at in range(nulls)]
    packed = np.empty(count, dtype=members)
    packed["width"] = len(kinds) + 1 + nulls
    for at, (kind, column) in enumerate(zip(kinds, numbers, strict=True)):
        size = packed[f"length{at}"] = np.dtype(kind).itemsize
        if not arrays.fits(column, size):
            raise arrays.too_large(column, size)
        packed[f"value{at}"] = column
    packed["bytes"] = length
    packed["text"] = text
    for at in range(nulls):
        packed[f"null{at}"] = _NULL
    return packed.tobytes()
