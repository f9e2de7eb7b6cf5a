"""Many integers at once, as JSON writes them, eight digits a step."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from amends_pipeline.kernel.integers import MAX_INT64
from amends_pipeline.kernel.words import HIGH_BITS, LOW_BYTES, WORD, words_of

MOST_CHARACTERS: Final = 20
"""The smallest 64-bit integer is as long."""
SPACE_BEFORE: Final = 7
"""Bytes that must stand before a number, so that no step reaches over the first byte."""

_DIGITS: Final = 19  # of the largest 64-bit integer
_ZEROS: Final = np.uint64(0x3030_3030_3030_3030)
_ABOVE_NINE: Final = np.uint64(0x7676_7676_7676_7676)  # lifts ten to 128
# Two digits become one number of each two bytes, two of those one of four, then one of eight.
_LANES: Final = [
    (np.uint64(base), np.uint64(bits), np.uint64(lanes))
    for base, bits, lanes in (
        (10, 8, 0x00FF_00FF_00FF_00FF),
        (100, 16, 0x0000_FFFF_0000_FFFF),
        (10_000, 32, 0xFFFF_FFFF),
    )
]


def parse_integers(
    raw: bytes, begins: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Read the numbers `raw[begin:end]`, and tell which are proven to be read right.

    That are plain JSON integers of 64 bits, all but -2^63. What stands in place of another is
    undefined. Each is at least one byte long, and at least `SPACE_BEFORE` bytes stand before it.
    """
    words, characters = words_of(raw), np.frombuffer(raw, np.uint8)
    negative = characters[begins] == ord("-")
    digits = ends - begins - negative
    right = (digits >= 1) & (digits <= _DIGITS)
    # Behind a sign that is the last byte of all there is nothing to look at.
    first = characters[np.minimum(begins + negative, len(raw) - 1)]
    right &= (first != ord("0")) | (digits == 1)
    total = np.zeros(len(begins), np.uint64)
    for step in range(3):
        count = np.clip(digits - step * WORD, 0, WORD)
        if not count.any():
            break
        found = words[np.maximum(ends - (step + 1) * WORD, 0)] ^ _ZEROS
        found &= ~LOW_BYTES[WORD - count]
        right &= (found | (found + _ABOVE_NINE)) & HIGH_BITS == 0
        for base, bits, lanes in _LANES:
            found = (found * base + (found >> bits)) & lanes
        total += found * np.uint64(10 ** (step * WORD))
    right &= total <= MAX_INT64
    numbers = total.view(np.int64)
    return np.where(negative, -numbers, numbers), right
