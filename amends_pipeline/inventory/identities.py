"""Which assertions of a batch are about the same transaction, and how transactions are found.

Transactions are found by hashes of 64 bits, and then compared: equal hashes prove nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from amends_pipeline.inventory.assertions import (
    Assertions,
    AuthorityColumns,
    Integers,
    Texts,
    authority_columns,
)
from amends_pipeline.inventory.authority import Authority
from amends_pipeline.inventory.decision import Identity
from amends_pipeline.kernel import arrow
from amends_pipeline.kernel.sieve import Hashes, hashes


class Identities:
    """The distinct transactions of a batch, numbered in the order in which they first appear.

    `of` tells the number of each assertion, `firsts` the position where each number comes first.
    """

    def __init__(self, batch: Assertions) -> None:
        self._batch = batch
        hashed = hashes(batch.keys, batch.txn_ids.to_pylist())
        order = np.argsort(hashed)
        ordered = hashed[order]
        begins = np.ones(len(order), dtype=np.bool_)
        begins[1:] = ordered[1:] != ordered[:-1]
        again = np.flatnonzero(~begins)
        if _equal(batch, order[again - 1], order[again]):
            # Equal transactions have equal hashes, and here different ones have different hashes.
            starts = np.flatnonzero(begins)
            firsts = np.minimum.reduceat(order, starts)
            numbers = self._number(firsts)
            self.of: Integers = np.empty_like(order)
            self.of[order] = np.repeat(numbers, np.diff(starts, append=len(order)))
            self.by_hash: Integers = numbers
        else:
            self._number_by_text()
            self.by_hash = np.argsort(hashed[self.firsts])
        self.hashes: Hashes = hashed[self.firsts]
        """The hash of each. `by_hash` are their numbers in the order of these."""

    def _number(self, firsts: Integers) -> Integers:
        """Number transactions by their first positions; return the number of each."""
        order = np.argsort(firsts)
        numbers = np.empty_like(order)
        numbers[order] = np.arange(len(order))
        self.firsts: Integers = firsts[order]
        return numbers

    def _number_by_text(self) -> None:
        encoded = self._batch.txn_ids.dictionary_encode()
        texts = encoded.indices.to_numpy().astype(np.int64)
        pairs = self._batch.keys * len(encoded.dictionary) + texts
        _, firsts, of = np.unique(pairs, return_index=True, return_inverse=True)
        self.of = self._number(firsts)[of]

    def __len__(self) -> int:
        return len(self.firsts)

    @cached_property
    def keys(self) -> Integers:
        """The key number of each."""
        return self._batch.keys[self.firsts]

    def texts(self, at: Integers) -> Texts:
        """The transaction ids of these numbers."""
        return arrow.taken(self._batch.txn_ids, self.firsts[at])

    def among(self, others: Identities, wanted: Integers) -> tuple[Integers, Integers] | None:
        """Find the wanted ones among others: the numbers of those found, here and there.

        None when equal hashes leave it open.
        """
        order = others.by_hash
        if not len(order):
            return wanted[:0], order
        hashed = self.hashes[wanted]
        places = np.searchsorted(others.hashes, hashed, sorter=order)
        there = order[np.minimum(places, len(order) - 1)]
        hit = np.flatnonzero(others.hashes[there] == hashed)
        here, there = wanted[hit], there[hit]
        same = np.array_equal(self.keys[here], others.keys[there])
        if not same or not self.texts(here).equals(others.texts(there)):
            return None
        return here, there


def _equal(batch: Assertions, here: Integers, there: Integers) -> bool:
    """Whether assertions at these positions are pair by pair about the same transaction."""
    if not np.array_equal(batch.keys[here], batch.keys[there]):
        return False
    texts = (arrow.taken(batch.txn_ids, at) for at in (here, there))
    return bool(next(texts).equals(next(texts)))


class Found:
    """What stands in force of some identities of a batch: `at` are their numbers there."""

    def __init__(self, at: Integers, authorities: AuthorityColumns) -> None:
        self.at = at
        self.authorities = authorities


def found_among(asked: Sequence[Identity], known: Mapping[Identity, Authority]) -> Found:
    """Those of the identities that are known, by their positions."""
    at = [position for position, identity in enumerate(asked) if identity in known]
    authorities = {asked[position]: known[asked[position]] for position in at}
    return Found(np.array(at, dtype=np.int64), authority_columns(authorities))
