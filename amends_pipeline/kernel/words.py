"""Bytes eight at a time: from each place of a byte string on, as 64-bit integers."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]

WORD: Final = 8
"""Bytes of a word."""
HIGH_BITS: Final = np.uint64(0x8080_8080_8080_8080)
"""Of each byte the bit that is worth 128."""
LOW_BYTES: Final[Words] = np.array(
    [(1 << 8 * count) - 1 for count in range(WORD + 1)], dtype=np.uint64
)
"""By count: the bits of so many first bytes."""


def words_of(raw: bytes) -> Words:
    """Return the eight bytes from each place of `raw` on, the first byte as the lowest.

    Nothing is copied. An index must lie at least eight bytes before the end.
    """
    return np.ndarray((max(len(raw) - WORD + 1, 0),), "<u8", raw, strides=(1,))
