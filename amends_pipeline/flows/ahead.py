"""The next batch is made ready while this one is decided: read, decoded, and what stood looked up.

Nothing here depends on what the batch before it decides. What that changes is laid over what was
looked up (`batches.py`), so that it does not matter when the store was asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

import numpy as np

from amends_pipeline.inventory.assertions import Integers
from amends_pipeline.inventory.config import NamespaceConfig
from amends_pipeline.inventory.identities import Found, Identities
from amends_pipeline.inventory.slice import Records
from amends_pipeline.inventory.slice_columns import (
    SliceColumns,
    one_behind_the_other,
    read_columns,
)
from amends_pipeline.kernel.sieve import Sieve
from amends_pipeline.ports import LedgerStore, SourceLog, Unit

READ_RECORDS: Final = 20_000
"""Records read at a time: some are read while those before them are decoded."""


class Wanted(NamedTuple):
    """At most `limit` records from offset `start` on, before `until`."""

    start: int
    until: int
    limit: int


@dataclass(frozen=True, slots=True)
class Gathered:
    """A batch that is ready to be decided."""

    whole: SliceColumns
    offsets: Integers
    """Of all records, the rejected ones too."""
    identities: Identities
    perhaps: Integers
    """Numbers of the identities of which something may have stood before."""
    stored: Found
    """What the store said of those."""

    def ends(self, count: int) -> list[int]:
        """Where to cut so that each part holds `count` records and all offsets are covered."""
        return [*self.offsets[count::count].tolist(), self.whole.until]


class Gatherer:
    """Makes batches of one unit ready. `sieve` has met every identity that was ever gathered."""

    def __init__(  # noqa: PLR0913, PLR0917 - where from, whose, and what to leave out
        self,
        store: LedgerStore,
        source: SourceLog,
        unit: Unit,
        config: NamespaceConfig,
        set_aside: frozenset[int],
        sieve: Sieve | None,
    ) -> None:
        self._store = store
        self._source = source
        self._unit = unit
        self._config = config
        self._aside = set_aside
        self._sieve = sieve

    def gather(self, wanted: Wanted) -> Gathered:
        """Read, decode and look up. Raises what source and store raise."""
        offsets: list[Integers] = []
        parts: list[SliceColumns] = []
        for records in self._read(wanted):
            offsets.append(np.array(records.offsets, dtype=np.int64))
            parts.append(read_columns(self._config, self._unit.partition, records, self._aside))
        whole = one_behind_the_other(parts)
        identities = Identities(whole.accepted)
        perhaps = np.arange(len(identities))
        if self._sieve is not None:
            perhaps = np.flatnonzero(self._sieve.sift(identities.hashes))
        return Gathered(
            whole, np.concatenate(offsets), identities, perhaps, self._look_up(identities, perhaps)
        )

    def _look_up(self, identities: Identities, numbers: Integers) -> Found:
        """Ask the store what is in force of these identities."""
        # Key by key, so that neighbours in an index are looked at together.
        numbers = numbers[np.argsort(identities.keys[numbers], kind="stable")]
        keys, txn_ids = identities.keys[numbers], identities.texts(numbers)
        found = self._store.in_force(self._unit, keys, txn_ids)
        return Found(numbers[found.at], found.authorities)

    def _read(self, wanted: Wanted) -> Iterator[Records]:
        """Read in parts, one of them while the caller works on the one before it."""
        start, until, limit = wanted

        def part(start: int, left: int) -> Records:
            count = min(left, READ_RECORDS)
            return self._source.read(self._unit.partition, start, until, count)

        with ThreadPoolExecutor(1, "read") as thread:
            waiting: Future[Records] | None = thread.submit(part, start, limit)
            while waiting is not None:
                records = waiting.result()
                limit -= len(records.offsets)
                more = limit > 0 and records.until < until
                waiting = thread.submit(part, records.until, limit) if more else None
                yield records


class Ahead:
    """Has one batch made ready in a thread of its own. Leaving the block waits for it."""

    def __init__(self, gather: Callable[[Wanted], Gathered]) -> None:
        self._gather = gather
        self._thread: ThreadPoolExecutor | None = None
        self._waiting: tuple[Wanted, Future[Gathered]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.forget()
        finally:
            # Whoever waits may be interrupted.
            if self._thread is not None:
                self._thread.shutdown()

    def ask(self, wanted: Wanted) -> None:
        """Begin to make a batch ready."""
        self.forget()
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "ahead")
        self._waiting = wanted, self._thread.submit(self._gather, wanted)

    def take(self, wanted: Wanted) -> Gathered:
        """The batch that was asked for, or this one made ready now. Raises what that raises.

        One that was asked for with another limit will do.
        """
        if self._waiting is not None and self._waiting[0][:2] == wanted[:2]:
            _, future = self._waiting
            self._waiting = None
            return future.result()
        self.forget()
        return self._gather(wanted)

    def forget(self) -> None:
        """Let go of what was asked for; nobody minds how it ended."""
        if self._waiting is None:
            return
        _, future = self._waiting
        self._waiting = None
        if not future.cancel():
            with suppress(Exception):
                future.result()
