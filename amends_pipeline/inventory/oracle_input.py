"""What the oracle is given, and how it becomes columns.

This belongs to the oracle: beside the decoder and the kernel it knows nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from amends_pipeline.inventory.revision_columns import RevisionColumns, decode_columns
from amends_pipeline.kernel import arrow
from amends_pipeline.kernel.errors import OperationError
from amends_pipeline.kernel.joined import size_of

_Offsets = npt.NDArray[np.int64]

# Records that go into the engine together, and their bytes: what is held of raw values is bounded.
# A statement takes some milliseconds however little it has to do.
_CHUNK = 262_144
_CHUNK_BYTES = 1 << 26


class OracleError(OperationError):
    """The oracle has no answer for this history."""


class RawBatch(NamedTuple):
    """Source records in offset order, as they were delivered."""

    offsets: Sequence[int]
    raw_keys: Sequence[bytes | None]
    """Transport keys, None where the transport has none."""
    values: Sequence[bytes]


class History(NamedTuple):
    """What the oracle is given of one partition."""

    partition: int
    batches: Iterable[RawBatch]
    set_asides: frozenset[int]
    """Offsets declared not to be part of the input."""


class Chunk:
    """Records that go into the engine together; each batch is decoded when it comes."""

    def __init__(self) -> None:
        self._batches: list[RawBatch] = []
        self._offsets: list[_Offsets] = []
        self._ends = [0]
        self._decoded: list[pa.Table] = []
        self._bytes = 0

    def __len__(self) -> int:
        return self._ends[-1]

    def add(self, batch: RawBatch, offsets: _Offsets) -> None:
        """Add a batch behind the others."""
        self._batches.append(batch)
        self._offsets.append(offsets)
        self._ends.append(len(self) + len(offsets))
        self._decoded.append(_table(decode_columns(batch.values)))
        self._bytes += size_of(batch.values)

    def is_full(self) -> bool:
        """Tell whether there is enough for a statement."""
        return len(self) >= _CHUNK or self._bytes >= _CHUNK_BYTES

    def columns(self, set_asides: frozenset[int]) -> pa.Table:
        """One column a member, in the engine's own form; no value is missing."""
        aside = np.isin(np.concatenate(self._offsets), _integers([*set_asides]))
        return (
            pa.concat_tables(self._decoded)
            .append_column("position", arrow.integers(np.arange(len(self))))
            .append_column("set_aside", arrow.booleans(aside))
        )

    def record(self, position: int) -> tuple[int, bytes | None, bytes]:
        """Offset, raw key and value of a record."""
        at = bisect_right(self._ends, position) - 1
        offsets, raw_keys, values = self._batches[at]
        position -= self._ends[at]
        return offsets[position], raw_keys[position], values[position]

    def raw_keys(self) -> dict[int, bytes]:
        """Transport keys by position, of the records that have one."""
        found: dict[int, bytes] = {}
        for start, batch in zip(self._ends, self._batches, strict=False):
            keys = batch.raw_keys
            if keys.count(None) < len(keys):
                found |= {at: key for at, key in enumerate(keys, start) if key is not None}
        return found


def _table(revisions: RevisionColumns) -> pa.Table:
    return pa.table(
        {
            "decoded": arrow.booleans(revisions.sound),
            "txn_id": revisions.txn_ids,
            "revision": arrow.integers(revisions.revisions),
            "kind": revisions.kinds,
            "item": revisions.items,
            "location": revisions.locations,
            "valid_day": arrow.integers(revisions.valid_days),
            "valid_nanosecond": arrow.integers(revisions.valid_nanoseconds),
            "qty": arrow.integers(revisions.qtys),
        }
    )


def chunks(history: History) -> Iterator[Chunk]:
    """Join batches to a size that is worth a query; refuse offsets that do not grow."""
    chunk = Chunk()
    last = -1
    for batch in history.batches:
        offsets = _integers(batch.offsets)
        steps = np.diff(offsets, prepend=last)
        if (steps <= 0).any():
            found = f"{batch.offsets[int(np.argmax(steps <= 0))]} out of order"
            where = f"oracle, partition {history.partition}"
            raise OracleError(where, expected="offsets that grow", found=found)
        last = batch.offsets[-1] if len(offsets) else last
        chunk.add(batch, offsets)
        if chunk.is_full():
            yield chunk
            chunk = Chunk()
    if len(chunk):
        yield chunk


def _integers(numbers: Sequence[int]) -> _Offsets:
    return np.fromiter(numbers, np.int64, len(numbers))
