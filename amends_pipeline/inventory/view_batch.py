"""Many envelopes applied together: what `view.apply` does when each of them moves its row on.

That is the ordinary case: versions of an output rise within the batch, and the first lies above
what is stored. It is proven on columns, and then only the last envelope of each output is looked
at. Whatever is not proven, a redelivery, a fault or a BLOCKED status with its reasons, goes to
`view.apply` as a whole. Tests hold the two equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from amends_pipeline.inventory.config import NamespaceConfig
from amends_pipeline.inventory.envelope import (
    FAMILY_OF,
    STATUS_DAY,
    EnvelopeBatch,
    Family,
    OutputId,
    Type,
)
from amends_pipeline.inventory.refold import INT64_MAX
from amends_pipeline.inventory.view import Applied, ViewRows, apply
from amends_pipeline.kernel.instants import MAX_DAY

Integers = NDArray[np.int64]

_NO_FAMILY: Final = 0
_FAMILIES: Final = np.zeros(256, dtype=np.int64)
for _type, _family in FAMILY_OF.items():
    _FAMILIES[_type] = _family


class _Columns(NamedTuple):
    """A batch as numbers. `last` are the positions of the last envelope of each output."""

    families: Integers
    keys: Integers
    types: Integers
    days: Integers
    versions: Integers
    closes: Integers
    order: Integers
    """Positions by output, then by position."""
    changes: NDArray[np.bool_]
    """Where in `order` another output begins."""

    def firsts(self) -> Integers:
        positions: Integers = self.order[self.changes]
        return positions

    def lasts(self) -> Integers:
        positions: Integers = self.order[np.append(self.changes[1:], True)]
        return positions

    def ids(self, positions: Integers) -> Iterator[OutputId]:
        columns = (column[positions].tolist() for column in (self.families, self.keys, self.days))
        return map(OutputId._make, zip(*columns, strict=True))


def _columns(batch: EnvelopeBatch) -> _Columns | None:
    """None when a number has more than 64 bits."""
    try:
        keys, types, days, versions, closes = (
            np.fromiter(column, np.int64, len(batch))
            for column in (batch.keys, batch.types, batch.days, batch.versions, batch.closes)
        )
    except OverflowError:
        return None
    families = np.where((types >= 0) & (types < len(_FAMILIES)), types, 0)
    families = _FAMILIES[families]
    order = np.lexsort((days, keys, families))
    changes = np.ones(len(batch), dtype=np.bool_)
    before, after = order[:-1], order[1:]
    changes[1:] = families[before] != families[after]
    changes[1:] |= (keys[before] != keys[after]) | (days[before] != days[after])
    return _Columns(families, keys, types, days, versions, closes, order, changes)


def output_ids(batch: EnvelopeBatch) -> set[OutputId]:
    """What the envelopes of a batch are versions of, as far as they have a type."""
    columns = _columns(batch) if batch else None
    if columns is None:
        return {each.output_id for each in batch if each.type in FAMILY_OF}
    firsts = columns.firsts()
    return set(columns.ids(firsts[columns.families[firsts] != _NO_FAMILY]))


def apply_batch(
    config: NamespaceConfig, partition: int, rows: ViewRows, batch: EnvelopeBatch
) -> Applied:
    """Do as `view.apply` does: apply envelopes in order to `rows`, what is stored of their ids."""
    columns = _columns(batch) if batch and _are_sound(batch) else None
    if (
        columns is None
        or not _are_well_formed(config, partition, columns)
        or not _move_on(rows, columns)
    ):
        return apply(config, partition, rows, batch)
    lasts = np.sort(columns.lasts())
    changed = dict(zip(columns.ids(lasts), map(batch.at, lasts.tolist()), strict=True))
    return Applied(changed, len(batch), 0, 0, None)


def _are_sound(batch: EnvelopeBatch) -> bool:
    """Whether no envelope has reasons, and every cause names a record."""
    causes = batch.causes
    txn_ids = [cause.txn_id for cause in causes]
    return (
        not batch.reasons
        and Type.BLOCKED_STATED not in batch.types
        and all(txn_ids)
        and "\x00" not in "".join(txn_ids)
        and all(0 <= cause.offset <= INT64_MAX for cause in causes)
        and all(1 <= cause.revision <= INT64_MAX for cause in causes)
    )


def _are_well_formed(config: NamespaceConfig, partition: int, columns: _Columns) -> bool:
    families, keys, types, days, versions, closes, *_ = columns
    if not (families.all() and keys.min() >= 0 and keys.max() < len(config.keys)):
        return False
    if any(config.placements[key] != partition for key in np.unique(keys).tolist()):
        return False
    status = families == int(Family.KEY_STATUS)
    stated = (types == int(Type.ALERT_RAISED)) | (types == int(Type.BALANCE_STATED))
    well_dated = np.where(
        status, days == STATUS_DAY, (days >= config.origin.day) & (days <= MAX_DAY)
    )
    return bool(versions.min() >= 1 and well_dated.all() and (stated | (closes == 0)).all())


def _move_on(rows: ViewRows, columns: _Columns) -> bool:
    """Whether versions rise within each output, from above the stored one."""
    versions = columns.versions[columns.order]
    if not (columns.changes[1:] | (versions[1:] > versions[:-1])).all():
        return False
    if not rows:
        return True
    firsts = columns.firsts()
    stored = map(rows.get, columns.ids(firsts))
    lowest = columns.versions[firsts].tolist()
    return all(
        row is None or version > row.version for version, row in zip(lowest, stored, strict=True)
    )
