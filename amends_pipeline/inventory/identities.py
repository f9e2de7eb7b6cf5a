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
        encoded = batch.txn_ids.dictionary_encode()
        # Numbered by first appearance.
        self.of: Integers = encoded.indices.to_numpy().astype(np.int64)
        self.firsts = _firsts(self.of, len(encoded.dictionary))
        if not np.array_equal(batch.keys[self.firsts][self.of], batch.keys):
            # One text names transactions of several keys.
            pairs = batch.keys * len(encoded.dictionary) + self.of
            _, found, numbers = np.unique(pairs, return_index=True, return_inverse=True)
            order = np.argsort(found)
            ranks = np.empty_like(order)
            ranks[order] = np.arange(len(order))
            self.of, self.firsts = ranks[numbers], found[order]

    def __len__(self) -> int:
        return len(self.firsts)

    @cached_property
    def keys(self) -> Integers:
        """The key number of each."""
        return self._batch.keys[self.firsts]

    @cached_property
    def txn_ids(self) -> Texts:
        """The transaction id of each."""
        if len(self) == len(self._batch):
            return self._batch.txn_ids
        return arrow.taken(self._batch.txn_ids, self.firsts)

    def texts(self, at: Integers) -> Texts:
        """The transaction ids of these numbers."""
        return arrow.taken(self._batch.txn_ids, self.firsts[at])

    @cached_property
    def hashes(self) -> Hashes:
        """The hash of each."""
        return hashes(self.keys, self.txn_ids.to_pylist())

    @cached_property
    def by_hash(self) -> Integers:
        """The numbers in the order of their hashes."""
        return np.argsort(self.hashes)

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


def _firsts(numbers: Integers, count: int) -> Integers:
    firsts = np.empty(count, dtype=np.int64)
    # Of several assignments to one place the last one stays.
    firsts[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
    return firsts


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
