"""Many byte strings that stand side by side in one, each cut out only when it is looked at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import eq
from typing import TYPE_CHECKING, Final, overload

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Joined(Sequence[bytes]):
    """A sequence like a list of `raw[0:ends[0]]`, `raw[ends[0]:ends[1]]` and so on.

    It is equal to any sequence of the same byte strings.
    """

    __hash__ = None  # type: ignore[assignment]  # equal to lists, which have none
    __slots__ = ("ends", "raw")

    def __init__(self, raw: bytes, ends: NDArray[np.int64]) -> None:
        """Take the bytes, all of them, and where each byte string ends."""
        self.raw: Final = raw
        self.ends: Final = ends

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[bytes]: ...
    def __getitem__(self, at: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(at, slice):
            start, stop, step = at.indices(len(self))
            if step != 1:
                return [self[each] for each in range(start, stop, step)]
            begin, ends = self._start(start), self.ends[start:stop]
            return Joined(self.raw[begin : ends[-1] if len(ends) else begin], ends - begin)
        at = range(len(self))[at]
        return self.raw[self._start(at) : self.ends[at]]

    def __iter__(self) -> Iterator[bytes]:
        raw = self.raw
        return (raw[start:end] for start, end in pairwise((0, *self.ends.tolist())))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(map(eq, self, other))

    def _start(self, at: int) -> int:
        return int(self.ends[at - 1]) if at else 0


def size_of(values: Sequence[bytes]) -> int:
    """How many bytes the byte strings have together."""
    return len(values.raw) if isinstance(values, Joined) else sum(map(len, values))
