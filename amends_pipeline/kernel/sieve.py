"""Which of many values were certainly never met before: a Bloom filter, in eight bytes a value.

A worker that has met all transactions of a unit need not ask the database about a new one, and
need not keep them all in memory to know that it is new. A filter is never wrong when it says
`never`; now and then it says `perhaps` of a value that was never met, which costs a question.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from itertools import compress
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

Value = TypeVar("Value", bound=Hashable)

_BITS: Final = 1 << 26
"""8 MiB. Of five million values less than one in a hundred is `perhaps` by mistake."""
_PROBES: Final = 3


class Sieve:
    """Values met so far, as bits."""

    def __init__(self) -> None:
        self._bytes = np.zeros(_BITS // 8, dtype=np.uint8)

    def sift(self, values: Collection[Value]) -> list[Value]:
        """Those that may have been met before. All of them count as met from now on."""
        hashes = np.fromiter(map(hash, values), np.int64, len(values)).view(np.uint64)
        met = np.ones(len(values), dtype=np.bool_)
        # All are asked for before any is marked.
        probes = [self._places(hashes, probe) for probe in range(_PROBES)]
        for places, bits in probes:
            met &= (self._bytes[places] & bits) != 0
        for places, bits in probes:
            np.bitwise_or.at(self._bytes, places, bits)
        return list(compress(values, met.tolist()))

    @staticmethod
    def _places(
        hashes: NDArray[np.uint64], probe: int
    ) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Byte and bit of each hash: two halves give as many independent places as one likes."""
        low, high = hashes & np.uint64(0xFFFFFFFF), hashes >> np.uint64(32)
        bits = (low + np.uint64(probe) * (high | np.uint64(1))) % np.uint64(_BITS)
        places = (bits >> np.uint64(3)).astype(np.int64)
        return places, np.left_shift(1, (bits & np.uint64(7)).astype(np.uint8)).astype(np.uint8)
