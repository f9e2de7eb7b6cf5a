"""Status: where a namespace stands, from one consistent look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import NamedTuple

from amends_pipeline.inventory.config import NamespaceConfig, StockKey
from amends_pipeline.inventory.envelope import Reasons, Type
from amends_pipeline.ports import Extent, Ledger, NamespaceInfo, Progress, SetAside, Snapshot


class UnitStatus(NamedTuple):
    """Where one unit stands."""

    partition: int
    source: Extent
    progress: Progress
    output_end: int
    quarantined: int
    set_asides: Sequence[SetAside]

    @property
    def lag(self) -> int:
        """Source offsets that the worker has yet to pass."""
        return max(0, self.source.end - self.progress.next_offset)

    @property
    def view_lag(self) -> int:
        """Envelopes of the output log that the view has yet to pass."""
        return max(0, self.output_end - self.progress.view_next)


class BlockedKey(NamedTuple):
    """A key that readers are told not to trust, and the conflicts that block it."""

    partition: int
    stock_key: StockKey
    reasons: Reasons


@dataclass(frozen=True, slots=True)
class NamespaceStatus:
    """Where a namespace stands."""

    info: NamespaceInfo
    source_incarnation: str
    """Of the log that is there now; another one than the namespace's is an operation error."""
    units: Sequence[UnitStatus]
    blocked: Sequence[BlockedKey]
    """By encoded key."""


def status(ledger: Ledger, namespace: str) -> NamespaceStatus:
    """Look at all units at once. Raises UnknownNamespace."""
    with ledger.store.snapshot(namespace) as snapshot:
        quarantined = Counter(rejected.partition for rejected in snapshot.quarantine())
        units = [
            UnitStatus(
                partition,
                extent,
                progress,
                output_end,
                quarantined[partition],
                snapshot.set_asides(partition),
            )
            for partition, (extent, progress, output_end) in enumerate(
                # A foreign log may have another number of partitions.
                zip(
                    chain(snapshot.source_extents(), repeat(Extent(0, 0))),
                    snapshot.progress(),
                    snapshot.output_ends(),
                    strict=False,
                )
            )
        ]
        return NamespaceStatus(
            snapshot.info(), snapshot.source_incarnation(), units, _blocked(snapshot)
        )


def _blocked(snapshot: Snapshot) -> list[BlockedKey]:
    config: NamespaceConfig = snapshot.config()
    return [
        BlockedKey(config.keys[row.key].partition, config.keys[row.key].stock_key, row.reasons)
        for row in snapshot.visible()
        if row.type == Type.BLOCKED_STATED
    ]
