"""Assertions side by side: columns of many, where `authority.py` has one value each.

They carry a batch from the decoder to the store without an object a record. Each kind of columns
reads as the sequence or mapping of values that it stands for, so that whoever does not mind the
cost of an object may look at it that way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from amends_pipeline.inventory.authority import (
    CANCEL,
    KINDS,
    Accepted,
    Authority,
    Candidate,
    Observation,
)
from amends_pipeline.inventory.decision import Identity
from amends_pipeline.kernel import arrow

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Texts: TypeAlias = Any
"""A pyarrow StringArray without nulls; pyarrow has no types to say so."""

CANCEL_NUMBER: Final = KINDS.index(CANCEL)


def lengths(texts: Texts) -> Integers:
    """The length of each text in UTF-8, in bytes."""
    bounds = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :][: len(texts) + 1]
    return np.diff(bounds).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Assertions:
    """Columns of equal length, one row an assertion."""

    keys: Integers
    """Key numbers of the configuration."""
    txn_ids: Texts
    offsets: Integers
    revisions: Integers
    kinds: Integers
    """Positions in `KINDS`."""
    days: Integers
    """UTC days of the valid instants, since 1970-01-01."""
    nanoseconds: Integers
    qtys: Integers

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, at: Integers) -> Assertions:
        """The rows at these positions, in that order."""
        return Assertions(
            self.keys[at],
            arrow.taken(self.txn_ids, at),
            self.offsets[at],
            self.revisions[at],
            self.kinds[at],
            self.days[at],
            self.nanoseconds[at],
            self.qtys[at],
        )

    def candidates(self) -> Iterator[Candidate]:
        """What each row asserts."""
        columns = (self.revisions, self.kinds, self.days, self.nanoseconds, self.qtys)
        for revision, kind, *when in zip(*map(np.ndarray.tolist, columns), strict=True):
            yield Candidate(revision, KINDS[kind], *when)

    def identities(self) -> Iterator[Identity]:
        """The transaction of each row."""
        return zip(self.keys.tolist(), self.txn_ids.to_pylist(), strict=True)

    def accepted(self) -> Iterator[Accepted]:
        """Each row as a record that passed classification."""
        rows = zip(self.identities(), self.offsets.tolist(), self.candidates(), strict=True)
        for (key, txn_id), offset, candidate in rows:
            yield Accepted(key, txn_id, offset, candidate)


def joined(parts: Sequence[Assertions]) -> Assertions:
    """The rows of all parts, one behind the other."""
    if len(parts) == 1:
        return parts[0]
    return Assertions(
        np.concatenate([each.keys for each in parts]),
        pa.concat_arrays([each.txn_ids for each in parts]),
        np.concatenate([each.offsets for each in parts]),
        np.concatenate([each.revisions for each in parts]),
        np.concatenate([each.kinds for each in parts]),
        np.concatenate([each.days for each in parts]),
        np.concatenate([each.nanoseconds for each in parts]),
        np.concatenate([each.qtys for each in parts]),
    )


def assertions(rows: Sequence[Accepted]) -> Assertions:
    """Columns of these values."""
    candidates = [row.candidate for row in rows]
    numbers = (
        [row.key for row in rows],
        [row.offset for row in rows],
        [each.revision for each in candidates],
        [KINDS.index(each.kind) for each in candidates],
        [each.day for each in candidates],
        [each.nanosecond for each in candidates],
        [each.qty for each in candidates],
    )
    keys, *others = (np.array(column, dtype=np.int64) for column in numbers)
    return Assertions(keys, arrow.texts([row.txn_id for row in rows]), *others)


@dataclass(frozen=True, slots=True)
class ObservationColumns(Sequence[Observation]):
    """Evidence that is not in force."""

    rows: Assertions

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Observation]:
        for each in self.rows.accepted():
            yield Observation(each.key, each.txn_id, each.offset, each.candidate)

    @overload
    def __getitem__(self, at: int) -> Observation: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Observation]: ...

    def __getitem__(self, at: int | slice) -> Observation | Sequence[Observation]:
        chosen = np.arange(len(self))[at]
        if isinstance(at, slice):
            return ObservationColumns(self.rows.take(chosen))
        (one,) = ObservationColumns(self.rows.take(np.array([chosen])))
        return one


@dataclass(frozen=True)
class AuthorityColumns(Mapping[Identity, Authority]):
    """Authorities of distinct identities; of a conflicted one, the row is what was seen first."""

    rows: Assertions
    conflicted: Flags
    stood: Flags
    """Whether something of the identity stood in force before, which this takes the place of."""

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Identity]:
        return self.rows.identities()

    def __getitem__(self, identity: Identity) -> Authority:
        return self._values[identity]

    @cached_property
    def _values(self) -> dict[Identity, Authority]:
        return dict(self.items())

    def items(self) -> Any:  # noqa: ANN401 - pairs, once
        """Each identity with its authority."""
        candidates = self.rows.candidates()
        rows = zip(candidates, self.rows.offsets.tolist(), self.conflicted.tolist(), strict=True)
        return zip(self.rows.identities(), (Authority(*row) for row in rows), strict=True)

    def take(self, at: Integers) -> AuthorityColumns:
        """The rows at these positions, in that order."""
        return AuthorityColumns(self.rows.take(at), self.conflicted[at], self.stood[at])


def authority_columns(authorities: Mapping[Identity, Authority]) -> AuthorityColumns:
    """Columns of what stands in force of some identities."""
    rows = [
        Accepted(key, txn_id, authority.offset, authority.candidate)
        for (key, txn_id), authority in authorities.items()
    ]
    conflicted = np.array([each.conflicted for each in authorities.values()], dtype=np.bool_)
    return AuthorityColumns(assertions(rows), conflicted, np.ones(len(rows), dtype=np.bool_))
