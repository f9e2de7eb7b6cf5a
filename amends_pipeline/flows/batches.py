"""Batches as columns: one is decided while the next is made ready and the last one is written.

What the store said of a batch may be older than what was decided since. There are never more than
two decisions that it may not have seen: the one on its way to it, and the last one. Both are laid
over what it said, in order.
"""

from __future__ import annotations

from collections import deque
from types import TracebackType
from typing import Final, NamedTuple, Self

import numpy as np

from amends_pipeline.flows.ahead import Ahead, Gathered, Gatherer, Wanted
from amends_pipeline.inventory.assertions import Integers
from amends_pipeline.inventory.weighing import Standing
from amends_pipeline.kernel.instants import MAX_DAY

UNSEEN: Final = 2
"""Decisions that the store may not have seen when it was asked."""


class Batch(NamedTuple):
    """A batch and what stands in force of its transactions."""

    gathered: Gathered
    standing: Standing

    def earliest_days(self) -> tuple[Integers, Integers]:
        """The touched keys; for each, a day such that no contribution before it can change."""
        batch = self.gathered.whole.accepted
        days = self.standing.first_days(batch, MAX_DAY)
        order = np.argsort(batch.keys, kind="stable")
        keys = batch.keys[order]
        starts: Integers = np.flatnonzero(np.diff(keys, prepend=-1))
        first: Integers = np.minimum.reduceat(days[order], starts) if len(keys) else days
        return keys[starts], first


class Batches:
    """The batches of a run, in order."""

    def __init__(self, gatherer: Gatherer) -> None:
        self._ahead = Ahead(gatherer.gather)
        self._decided: deque[Standing] = deque(maxlen=UNSEEN)

    def __enter__(self) -> Self:
        self._ahead.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ahead.__exit__(kind, error, traceback)

    def next(self, wanted: Wanted) -> Batch | None:
        """The batch that is wanted; the one behind it is begun.

        None when it cannot be told what stands in force. Raises what source and store raise.
        """
        gathered = self._ahead.take(wanted)
        start, until = gathered.whole.until, wanted.until
        if start < until:
            self._ahead.ask(wanted._replace(start=start))
        standing = Standing(gathered.identities)
        standing.take_over(gathered.stored)
        for decided in self._decided:
            found = decided.find(gathered.identities, gathered.perhaps)
            if found is None:
                return None
            standing.take_over(found)
        return Batch(gathered, standing)

    def decided(self, batch: Batch) -> None:
        """Remember what stands after a batch, for those that were begun before it was decided."""
        self._decided.append(batch.standing)

    def forget(self) -> None:
        """Begin anew: everything that was decided is in the store now."""
        self._ahead.forget()
        self._decided.clear()
