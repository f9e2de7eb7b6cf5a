"""Which of many values were certainly never met before: a Bloom filter, in eight bytes a value.

A worker that has met all transactions of a unit need not ask the database about a new one, and
need not keep them all in memory to know that it is new. A filter is never wrong when it says
`never`; now and then it says `perhaps` of a value that was never met, which costs a question.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

_BITS: Final = 1 << 26
"""8 MiB. Of five million values less than one in a hundred is `perhaps` by mistake."""
_PROBES: Final = 3
_LOW: Final = np.uint64(0xFFFFFFFF)
_HALF: Final = np.uint64(32)
_ODD: Final = np.uint64(0x9E3779B97F4A7C15)


def hashes(numbers: NDArray[np.int64], texts: Iterable[str]) -> Hashes:
    """A hash of each pair of a number and a text, the same throughout this process."""
    of_texts = np.fromiter(map(hash, texts), np.int64, len(numbers)).view(np.uint64)
    mixed: Hashes = (of_texts ^ (numbers.view(np.uint64) + np.uint64(1)) * _ODD) * _ODD
    return mixed ^ (mixed >> _HALF)


class Sieve:
    """Values met so far, as bits."""

    def __init__(self) -> None:
        self._bytes = np.zeros(_BITS // 8, dtype=np.uint8)

    def sift(self, hashed: Hashes) -> NDArray[np.bool_]:
        """Which of these may have been met before. All of them count as met from now on."""
        met = np.ones(len(hashed), dtype=np.bool_)
        # All are asked for before any is marked.
        probes = [self._places(hashed, probe) for probe in range(_PROBES)]
        for places, bits in probes:
            met &= (self._bytes[places] & bits) != 0
        for places, bits in probes:
            self._mark(places[~met], bits[~met])
        return met

    def _mark(self, places: NDArray[np.int64], bits: NDArray[np.uint8]) -> None:
        while len(places):
            self._bytes[places] |= bits
            # Of several bits of one byte only the last one was set.
            missed = (self._bytes[places] & bits) == 0
            places, bits = places[missed], bits[missed]

    @staticmethod
    def _places(hashed: Hashes, probe: int) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Byte and bit of each hash: two halves give as many independent places as one likes."""
        low, high = hashed & _LOW, hashed >> _HALF
        bits = (low + np.uint64(probe) * (high | np.uint64(1))) & np.uint64(_BITS - 1)
        places = (bits >> np.uint64(3)).astype(np.int64)
        return places, np.left_shift(1, (bits & np.uint64(7)).astype(np.uint8)).astype(np.uint8)
