"""Where, record by record, a READY key's close stops fitting 64 bits.

Slices are cut by count, so an excess must be found at the same record however the log is cut. A
cheap bound tells when no such look is needed (`decision.py`); this is the look.

An intraday total may exceed the range on its way: while the records that follow in the log touch
nothing but the same key and day, the day is judged once they are through. Any record of another
key, another day or a conflict ends that allowance.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from amends_pipeline.inventory.authority import Accepted, Authority, first, rule
from amends_pipeline.inventory.keyfold import KeyFold
from amends_pipeline.inventory.refold import EVERY_DAY, KeyState, Status, out_of_range


class Excess(NamedTuple):
    """The offending record and the day whose close does not fit."""

    record: Accepted
    day: int
    undecided: bool
    """The records ended while the day might still come back into range."""


class _Open(NamedTuple):
    record: Accepted
    overflowing_day: int
    within: set[int]


def first_excess(
    states: Mapping[int, KeyState],
    authorities: Mapping[tuple[int, str], Authority],
    accepted: list[Accepted],
    doubtful: set[int],
) -> Excess | None:
    """The first record after which the close of a READY key in `doubtful` does not fit."""
    folds = {key: KeyFold(states[key]) for key in doubtful}
    known: dict[tuple[int, str], Authority] = {}
    allowed: _Open | None = None
    for at, record in enumerate(accepted):
        if allowed is not None and record.key != allowed.record.key:
            return Excess(allowed.record, allowed.overflowing_day, undecided=False)
        if record.key not in folds:
            continue
        identity = (record.key, record.txn_id)
        old = known.get(identity) or authorities.get(identity)
        new = first(record) if old is None else rule(old, record).authority
        known[identity] = new
        fold = folds[record.key]
        changed = fold.observe(at, record, old, new)
        if allowed is not None and (fold.status is Status.BLOCKED or changed - allowed.within):
            return Excess(allowed.record, allowed.overflowing_day, undecided=False)
        allowed = _judge(fold, record, changed, allowed)
        if allowed is not None and (len(allowed.within) > 1 or EVERY_DAY in allowed.within):
            return Excess(allowed.record, allowed.overflowing_day, undecided=False)
    if allowed is None:
        return None
    return Excess(allowed.record, allowed.overflowing_day, undecided=True)


def _judge(
    fold: KeyFold, record: Accepted, changed: set[int], allowed: _Open | None
) -> _Open | None:
    if fold.status is not Status.READY or not changed:
        return allowed
    days, closes = fold.closes()
    position = out_of_range(closes)
    if position is None:
        return None
    return allowed or _Open(record, days[position], changed)
