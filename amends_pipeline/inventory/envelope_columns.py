"""Many envelopes as numpy columns, where `EnvelopeBatch` has lists.

They carry what was published from one table to the next without an object a number. Whoever looks
at an envelope gets the same value from either.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Self

import numpy as np
from numpy.typing import NDArray

from amends_pipeline.inventory.envelope import Cause, Envelope, EnvelopeBatch, Reasons, joined

Integers = NDArray[np.int64]


@dataclass(slots=True, eq=False)
class EnvelopeColumns:
    """Envelopes in order, as columns of equal length; causes are shared and indexed.

    All numbers fit 64 bits. `reasons` holds the reasons of BLOCKED statuses by position.
    """

    keys: Integers
    types: Integers
    days: Integers
    versions: Integers
    closes: Integers
    cause_index: Integers
    causes: list[Cause]
    reasons: dict[int, Reasons]

    @classmethod
    def of(cls, batch: Envelopes) -> EnvelopeColumns | None:
        """The same envelopes as columns; None when a number has more than 64 bits."""
        if isinstance(batch, EnvelopeColumns):
            return batch
        try:
            return cls(
                np.array(batch.keys, dtype=np.int64),
                np.array(batch.types, dtype=np.int64),
                np.array(batch.days, dtype=np.int64),
                np.array(batch.versions, dtype=np.int64),
                np.array(batch.closes, dtype=np.int64),
                np.array(batch.cause_index, dtype=np.int64),
                batch.causes,
                batch.reasons,
            )
        except OverflowError:
            return None

    def __len__(self) -> int:
        return len(self.types)

    def __iter__(self) -> Iterator[Envelope]:
        return iter(self.listed())

    def __eq__(self, other: object) -> bool:
        """Whether the envelopes are the same, however they are kept."""
        if not isinstance(other, (EnvelopeBatch, EnvelopeColumns)):
            return NotImplemented
        return list(self) == list(other)

    __hash__ = None  # type: ignore[assignment] # they can be changed

    def listed(self) -> EnvelopeBatch:
        """The same envelopes as lists of Python's integers."""
        return EnvelopeBatch(
            self.keys.tolist(),
            self.types.tolist(),
            self.days.tolist(),
            self.versions.tolist(),
            self.closes.tolist(),
            self.cause_index.tolist(),
            self.causes,
            self.reasons,
        )

    def at(self, i: int) -> Envelope:
        """The envelope at position `i`."""
        return Envelope(
            int(self.keys[i]),
            int(self.types[i]),
            int(self.days[i]),
            int(self.versions[i]),
            int(self.closes[i]),
            self.causes[self.cause_index[i]],
            self.reasons.get(i, ()),
        )

    def slice(self, start: int, stop: int) -> Self:
        """Positions `start` to `stop` as columns of their own, with the causes that they need."""
        index = self.cause_index[start:stop]
        needed = np.zeros(len(self.causes), dtype=np.bool_)
        needed[index] = True
        renumbered = np.cumsum(needed) - 1
        return type(self)(
            self.keys[start:stop],
            self.types[start:stop],
            self.days[start:stop],
            self.versions[start:stop],
            self.closes[start:stop],
            renumbered[index],
            [self.causes[i] for i in np.flatnonzero(needed).tolist()],
            {i - start: each for i, each in self.reasons.items() if start <= i < stop},
        )


Envelopes = EnvelopeBatch | EnvelopeColumns


def together(batches: Sequence[Envelopes]) -> Envelopes:
    """The envelopes of `batches`, in order, as one batch: columns if any of them are columns."""
    if len(batches) == 1:
        return batches[0]
    parts: list[EnvelopeColumns] = []
    if any(isinstance(batch, EnvelopeColumns) for batch in batches):
        parts = [part for part in map(EnvelopeColumns.of, batches) if part is not None]
    if not parts or len(parts) < len(batches):
        return joined([batch.listed() for batch in batches])
    starts = accumulate(map(len, parts), initial=0)
    firsts = accumulate((len(part.causes) for part in parts), initial=0)
    return EnvelopeColumns(
        np.concatenate([part.keys for part in parts]),
        np.concatenate([part.types for part in parts]),
        np.concatenate([part.days for part in parts]),
        np.concatenate([part.versions for part in parts]),
        np.concatenate([part.closes for part in parts]),
        np.concatenate(
            [part.cause_index + first for part, first in zip(parts, firsts, strict=False)]
        ),
        [cause for part in parts for cause in part.causes],
        {
            start + i: reasons
            for part, start in zip(parts, starts, strict=False)
            for i, reasons in part.reasons.items()
        },
    )
