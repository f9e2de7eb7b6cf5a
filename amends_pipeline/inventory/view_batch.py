"""Many envelopes applied together: what `view.apply` does when each of them moves its row on.

That is the ordinary case: versions of an output rise within the batch, and the first lies above
what is stored. The former is proven here, on columns, the latter by the store as it writes
(`LedgerStore.advance_view`), so that nothing has to be looked up before. Whatever is not proven, a
redelivery or a fault, goes to `view.apply` as a whole. Tests hold the two equal.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from amends_pipeline.inventory.config import NamespaceConfig
from amends_pipeline.inventory.envelope import (
    FAMILY_OF,
    STATUS_DAY,
    Cause,
    Envelope,
    Family,
    OutputId,
    Reasons,
    Type,
)
from amends_pipeline.inventory.envelope_columns import EnvelopeColumns, Envelopes, Integers
from amends_pipeline.inventory.view import ViewRows, malformation
from amends_pipeline.kernel.instants import MAX_DAY

_FAMILY: Final = {int(kind): family for kind, family in FAMILY_OF.items()}
_FAMILIES: Final = np.array([_FAMILY.get(kind, 0) for kind in range(max(Type) + 1)], dtype=np.int64)

_DAY_BITS: Final = 22
"""From the day that stands for none to the last one there are fewer than 2^22."""
_KEY_BITS: Final = 32


class Moves(NamedTuple):
    """The last envelope of each output of a batch, in the order of the output ids, as columns."""

    families: Integers
    keys: Integers
    days: Integers
    types: Integers
    versions: Integers
    closes: Integers
    above: Integers
    """The lowest version in the batch. What is stored of the output must have a lower one."""
    cause_index: Integers
    cause_offsets: Integers
    cause_txn_ids: list[str]
    cause_revisions: Integers
    """Causes are shared: `cause_index` is a position in the three columns of them."""
    reasons: dict[int, Reasons]
    """Reasons of BLOCKED statuses by position."""

    def rows(self) -> dict[OutputId, Envelope]:
        """The rows as values."""
        causes = map(
            Cause, self.cause_offsets.tolist(), self.cause_txn_ids, self.cause_revisions.tolist()
        )
        of = list(causes)
        columns = (
            self.families,
            self.keys,
            self.days,
            self.types,
            self.versions,
            self.closes,
            self.cause_index,
        )
        lines = zip(*(column.tolist() for column in columns), strict=True)
        return {
            OutputId(family, key, day): Envelope(
                key, kind, day, version, close, of[cause], self.reasons.get(i, ())
            )
            for i, (family, key, day, kind, version, close, cause) in enumerate(lines)
        }

    def pass_over(self, stored: ViewRows) -> bool:
        """Whether each row is above what is stored of it, so that all envelopes move it on."""
        return all(
            output not in stored or stored[output].version < above
            for output, above in zip(self.rows(), self.above.tolist(), strict=True)
        )


def output_ids(batch: Envelopes) -> set[OutputId]:
    """What the envelopes of a batch are versions of, as far as they have a type."""
    listed = batch.listed()
    return {
        OutputId(_FAMILY[kind], key, day)
        for kind, key, day in zip(listed.types, listed.keys, listed.days, strict=True)
        if kind in _FAMILY
    }


def moves_of(config: NamespaceConfig, partition: int, batch: Envelopes) -> Moves | None:
    """What `view.apply` stores of a batch, if nothing that is stored is in the way.

    None when an envelope is malformed or does not move on from the one before it.
    """
    columns = EnvelopeColumns.of(batch) if batch else None
    causes = None if columns is None else _causes(columns.causes)
    if columns is None or causes is None or not _are_well_formed(config, partition, columns):
        return None
    families = _FAMILIES[columns.types]
    ids = (families << _KEY_BITS | columns.keys) << _DAY_BITS | (columns.days - STATUS_DAY)
    # By output, then by position.
    order = np.argsort(ids, kind="stable")
    ids, versions = ids[order], columns.versions[order]
    begins = np.ones(len(ids), dtype=np.bool_)
    begins[1:] = ids[1:] != ids[:-1]
    if not (begins[1:] | (versions[1:] > versions[:-1])).all():
        return None
    last = order[np.append(begins[1:], True)]
    return Moves(
        families[last],
        columns.keys[last],
        columns.days[last],
        columns.types[last],
        columns.versions[last],
        columns.closes[last],
        versions[begins],
        columns.cause_index[last],
        *causes,
        _reasons(columns, last),
    )


def _causes(causes: list[Cause]) -> tuple[Integers, list[str], Integers] | None:
    """The columns of causes, if every one names a record."""
    offsets, txn_ids, revisions = zip(*causes, strict=True)
    try:
        numbers = np.array(offsets, dtype=np.int64), np.array(revisions, dtype=np.int64)
    except OverflowError:
        return None
    if numbers[0].min() < 0 or numbers[1].min() < 1:
        return None
    if not all(txn_ids) or "\x00" in "".join(txn_ids):
        return None
    return numbers[0], list(txn_ids), numbers[1]


def _are_well_formed(config: NamespaceConfig, partition: int, columns: EnvelopeColumns) -> bool:
    """Whether nothing is wrong with an envelope by itself, causes apart."""
    keys, types, days = columns.keys, columns.types, columns.days
    if types.min() < 1 or types.max() >= len(_FAMILIES):
        return False
    if keys.min() < 0 or keys.max() >= min(len(config.keys), 1 << _KEY_BITS):
        return False
    if any(config.placements[key] != partition for key in np.unique(keys).tolist()):
        return False
    status = _FAMILIES[types] == int(Family.KEY_STATUS)
    stated = (types == int(Type.ALERT_RAISED)) | (types == int(Type.BALANCE_STATED))
    well_dated = np.where(
        status, days == STATUS_DAY, (days >= config.origin.day) & (days <= MAX_DAY)
    )
    if not (columns.versions.min() >= 1 and well_dated.all()):
        return False
    if not (stated | (columns.closes == 0)).all():
        return False
    blocked = np.flatnonzero(types == int(Type.BLOCKED_STATED)).tolist()
    return set(blocked) == set(columns.reasons) and all(
        malformation(config, partition, columns.at(i)) is None for i in blocked
    )


def _reasons(columns: EnvelopeColumns, last: NDArray[np.int64]) -> dict[int, Reasons]:
    """The reasons of the envelopes at the positions `last`, by position among those."""
    if not columns.reasons:
        return {}
    blocked = np.flatnonzero(columns.types[last] == int(Type.BLOCKED_STATED))
    return {
        to: columns.reasons[at]
        for to, at in zip(blocked.tolist(), last[blocked].tolist(), strict=True)
    }
