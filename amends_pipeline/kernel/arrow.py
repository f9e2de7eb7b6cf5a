"""Arrow arrays of what numpy and Python hold.

pyarrow's own `array` asks first whether it was given something of pandas, and imports that library
to know: a fifth of a second and some forty megabytes. Here arrays are put together from their
buffers. None of them has a null.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def integers(numbers: npt.NDArray[np.int64]) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Return 64-bit integers as an Arrow array over the same memory."""
    column = np.ascontiguousarray(numbers, np.int64)
    return pa.Int64Array.from_buffers(pa.int64(), len(column), [None, pa.py_buffer(column)])


def booleans(flags: npt.NDArray[np.bool_]) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Return truth values as an Arrow array."""
    bits = pa.py_buffer(np.packbits(flags, bitorder="little"))
    return pa.BooleanArray.from_buffers(pa.bool_(), len(flags), [None, bits])


def texts(strings: Sequence[str]) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Return texts as an Arrow array; together they are below 2 GiB."""
    encoded = [each.encode() for each in strings]
    ends = np.array([*accumulate(map(len, encoded), initial=0)], np.int32)
    return pa.StringArray.from_buffers(
        len(encoded), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded)), null_count=0
    )


def taken(column: Any, rows: npt.NDArray[np.int64]) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Return the rows of an Arrow array, in the order of their numbers."""
    return column.take(integers(rows))
