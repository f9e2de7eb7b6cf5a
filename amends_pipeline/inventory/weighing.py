"""Many assertions weighed at once: what `authority.rule` says of one after the other.

The first assertion of each transaction of a batch is weighed against what stood before the batch,
all of them together; then the second of each that has a second, and so on. A batch that speaks of
one transaction very often is left to `decide`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from amends_pipeline.inventory.assertions import (
    CANCEL_NUMBER,
    Assertions,
    AuthorityColumns,
    Flags,
    Integers,
    ObservationColumns,
    joined,
)
from amends_pipeline.inventory.authority import Authority
from amends_pipeline.inventory.frame import Movements
from amends_pipeline.inventory.identities import Found, Identities

MOST_ROUNDS: Final = 32


class Standing:
    """What is in force of each identity of a batch. Revision 0: nothing, it was never seen."""

    def __init__(self, identities: Identities) -> None:
        count = len(identities)
        self.offsets = np.zeros(count, dtype=np.int64)
        self.revisions = np.zeros(count, dtype=np.int64)
        self.kinds = np.zeros(count, dtype=np.int64)
        self.days = np.zeros(count, dtype=np.int64)
        self.nanoseconds = np.zeros(count, dtype=np.int64)
        self.qtys = np.zeros(count, dtype=np.int64)
        self.conflicted = np.zeros(count, dtype=np.bool_)
        self.identities = identities
        self._found: list[Found] = []

    def put(self, at: Integers, rows: Assertions, conflicted: Flags) -> None:
        """Let these rows stand for the identities of these numbers."""
        self.offsets[at] = rows.offsets
        self.revisions[at] = rows.revisions
        self.kinds[at] = rows.kinds
        self.days[at] = rows.days
        self.nanoseconds[at] = rows.nanoseconds
        self.qtys[at] = rows.qtys
        self.conflicted[at] = conflicted

    def take_over(self, found: Found) -> None:
        """Let what was found elsewhere stand."""
        self._found.append(found)
        self.put(found.at, found.authorities.rows, found.authorities.conflicted)

    def find(self, identities: Identities, wanted: Integers) -> Found | None:
        """What stands here of another batch's wanted identities.

        None when equal hashes leave it open.
        """
        pairs = identities.among(self.identities, wanted)
        if pairs is None:
            return None
        here, there = pairs
        stood = np.ones(len(there), dtype=np.bool_)
        rows = self.rows(there)
        return Found(here, AuthorityColumns(rows, self.conflicted[there], stood))

    def before(self) -> Standing:
        """What stood when everything was taken over and nothing was weighed."""
        again = Standing(self.identities)
        for found in self._found:
            again.take_over(found)
        return again

    def authorities(self, at: Sequence[int]) -> Iterator[Authority | None]:
        """What stands in force of the identities of these numbers, as values."""
        numbers = np.array(at, dtype=np.int64)
        columns = (self.revisions, self.offsets, self.conflicted)
        known = zip(*(column[numbers].tolist() for column in columns), strict=True)
        for candidate, (revision, *rest) in zip(
            self.rows(numbers).candidates(), known, strict=True
        ):
            yield Authority(candidate, *rest) if revision else None

    def rows(self, at: Integers) -> Assertions:
        """What stands in force of the identities of these numbers."""
        return Assertions(
            self.identities.keys[at],
            self.identities.texts(at),
            self.offsets[at],
            self.revisions[at],
            self.kinds[at],
            self.days[at],
            self.nanoseconds[at],
            self.qtys[at],
        )

    def contributing(self, at: Integers) -> Flags:
        """Which of these identities have an active contribution to their day."""
        seen: Flags = self.revisions[at] > 0
        seen &= ~self.conflicted[at] & (self.kinds[at] != CANCEL_NUMBER)
        return seen

    def first_days(self, batch: Assertions, never: int) -> Integers:
        """For each assertion, a day such that it changes no contribution before it.

        `never` stands for none.
        """
        days = np.where(batch.kinds == CANCEL_NUMBER, never, batch.days)
        whole = np.arange(len(self.identities))
        stood = np.where(self.contributing(whole), self.days, never)
        first: Integers = np.minimum(days, stood[self.identities.of])
        return first


@dataclass(frozen=True, slots=True)
class Weighed:
    """What a batch does to authority, evidence and day totals."""

    authorities: AuthorityColumns
    observations: ObservationColumns
    moves: Movements
    """Of the keys that are not odd."""
    odd: frozenset[int]
    """Keys that are blocked, or of which a transaction was or is in conflict."""


def weigh(batch: Assertions, standing: Standing, blocked: Collection[int]) -> Weighed | None:
    """Weigh a batch against what stands; `standing` moves on to what stands afterwards.

    `blocked` are keys that are odd from the beginning. None when one transaction is spoken of too
    often.
    """
    identities = standing.identities
    seen = standing.revisions > 0
    touched = np.zeros(len(identities), dtype=np.bool_)
    parts: list[_Observed] = []
    moved: list[_Moved] = []
    odd = set(blocked)
    for at in _rounds(identities, len(batch)):
        if len(parts) == MOST_ROUNDS:
            return None
        numbers = identities.of[at]
        verdict = _Verdict(batch, standing, at, numbers)
        parts.append(verdict.observed())
        moved.append(verdict.moved())
        odd |= verdict.odd()
        touched[numbers[verdict.changes]] = True
        verdict.install()
    changed = np.flatnonzero(touched)
    return Weighed(
        AuthorityColumns(standing.rows(changed), standing.conflicted[changed], seen[changed]),
        _observations(parts),
        _moves(batch, moved, odd),
        frozenset(odd),
    )


def _rounds(identities: Identities, count: int) -> Iterator[Integers]:
    """Positions of the first assertion of each identity, of the second ones, and so on."""
    yield identities.firsts
    again = np.ones(count, dtype=np.bool_)
    again[identities.firsts] = False
    left = np.flatnonzero(again)
    while len(left):
        numbers = identities.of[left]
        _, first = np.unique(numbers, return_index=True)
        yield left[first]
        left = np.delete(left, first)


@dataclass(frozen=True, slots=True)
class _Observed:
    """Evidence by the position of the assertion that brought it."""

    at: Integers
    rows: Assertions


@dataclass(frozen=True, slots=True)
class _Moved:
    """Movements by the position of the assertion that caused them."""

    at: Integers
    days: Integers
    sums: Integers
    counts: Integers


class _Verdict:
    """One assertion each of distinct identities, and what stood before it."""

    def __init__(
        self, batch: Assertions, standing: Standing, at: Integers, numbers: Integers
    ) -> None:
        self._batch, self._standing, self._at, self._numbers = batch, standing, at, numbers
        revisions, stood = batch.revisions[at], standing.revisions[numbers]
        same = (
            (batch.kinds[at] == standing.kinds[numbers])
            & (batch.days[at] == standing.days[numbers])
            & (batch.nanoseconds[at] == standing.nanoseconds[numbers])
            & (batch.qtys[at] == standing.qtys[numbers])
        )
        self._known: Flags = stood > 0
        self._takes_over: Flags = revisions > stood
        self._contradicts: Flags = (revisions == stood) & ~same
        self.changes: Flags = self._takes_over | self._contradicts

    def observed(self) -> _Observed:
        """What gave way, or the assertion itself when it does not take over."""
        gave_way = np.flatnonzero(self._takes_over & self._known)
        itself = np.flatnonzero(~self._takes_over)
        rows = (
            self._standing.rows(self._numbers[gave_way]),
            self._batch.take(self._at[itself]),
        )
        return _Observed(self._at[np.concatenate((gave_way, itself))], joined(rows))

    def moved(self) -> _Moved:
        """What taking over does to day totals, where nothing is in conflict."""
        numbers, at = self._numbers[self._takes_over], self._at[self._takes_over]
        batch, standing = self._batch, self._standing
        removes = standing.contributing(numbers)
        adds = batch.kinds[at] != CANCEL_NUMBER
        days, was_days = batch.days[at], standing.days[numbers]
        qtys, were = batch.qtys[at], standing.qtys[numbers]
        within = removes & adds & (days == was_days)
        leaves, enters = removes & ~within, adds & ~within
        return _Moved(
            np.concatenate((at[leaves], at[within], at[enters])),
            np.concatenate((was_days[leaves], days[within], days[enters])),
            np.concatenate((-were[leaves], qtys[within] - were[within], qtys[enters])),
            np.repeat([-1, 0, 1], [leaves.sum(), within.sum(), enters.sum()]),
        )

    def odd(self) -> set[int]:
        """Keys of which a transaction comes into conflict, or out of one."""
        odd = self.changes & (self._contradicts | self._standing.conflicted[self._numbers])
        return set(self._batch.keys[self._at[odd]].tolist())

    def install(self) -> None:
        """Let what is in force from now on stand."""
        self._standing.conflicted[self._numbers[self._contradicts]] = True
        at = self._at[self._takes_over]
        numbers, rows = self._numbers[self._takes_over], _numbers_of(self._batch, at)
        self._standing.put(numbers, rows, np.zeros(len(at), dtype=np.bool_))


def _numbers_of(batch: Assertions, at: Integers) -> Assertions:
    """The rows at these positions without their texts."""
    return Assertions(
        batch.keys[:0],
        batch.txn_ids[:0],
        batch.offsets[at],
        batch.revisions[at],
        batch.kinds[at],
        batch.days[at],
        batch.nanoseconds[at],
        batch.qtys[at],
    )


def _observations(parts: Iterable[_Observed]) -> ObservationColumns:
    """All of them in the order of the assertions that brought them."""
    parts = list(parts)
    at = np.concatenate([each.at for each in parts])
    rows = joined([each.rows for each in parts])
    return ObservationColumns(rows.take(np.argsort(at, kind="stable")))


def _moves(batch: Assertions, parts: Iterable[_Moved], odd: set[int]) -> Movements:
    """All of them in the order of the assertions that caused them, without those of odd keys."""
    parts = list(parts)
    at = np.concatenate([each.at for each in parts])
    keys = batch.keys[at]
    kept = np.arange(len(at))
    if odd:
        kept = np.flatnonzero(~np.isin(keys, np.array(sorted(odd))))
    counts = np.concatenate([each.counts for each in parts])
    # What leaves a day comes before what enters another one; no two are alike otherwise.
    order = kept[np.argsort((2 * at + (counts > 0))[kept])]
    columns = (
        keys,
        at,
        *(
            np.concatenate([getattr(each, name) for each in parts])
            for name in ("days", "sums", "counts")
        ),
    )
    return Movements(*(column[order] for column in columns))
