"""What a run changed for readers: days and statuses as they were before it and are now.

Envelopes say what is now; what was is what the view holds before they are applied. The look is
bounded: outputs past the bound are counted and no more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from amends_pipeline.inventory.envelope import (
    FAMILY_OF,
    STATUS_DAY,
    Cause,
    Envelope,
    Family,
    OutputId,
    Type,
)
from amends_pipeline.inventory.envelope_columns import Envelopes
from amends_pipeline.ports import LedgerStore, Unit

LOOKED_AT_OUTPUTS = 5_000
"""New outputs, and as many old ones, of which it is kept what became of them."""

_FAMILY = {int(kind): int(family) for kind, family in FAMILY_OF.items()}
_BESIDE = {Family.ALERT: Family.BALANCE, Family.BALANCE: Family.ALERT}


class Fact(NamedTuple):
    """What readers see of a day, or of a key's status."""

    close: int | None = None
    """None where no balance is visible."""
    alert: bool = False
    blocked_by: tuple[tuple[str, int], ...] | None = None
    """Of a status: its reasons, none for READY. None for a day, and for a key without status."""


NOTHING = Fact()
READY = Fact(blocked_by=())


class Change(NamedTuple):
    """A day or a status of a key that readers see otherwise than before."""

    key: int
    day: int
    """STATUS_DAY for the status."""
    was: Fact
    now: Fact
    cause: Cause

    @property
    def of_status(self) -> bool:
        """Whether the key's status changed, not one of its days."""
        return self.day == STATUS_DAY

    @property
    def size(self) -> int:
        """How far the close moved. A day that appears or goes counts with its whole close."""
        return abs((self.now.close or 0) - (self.was.close or 0))


def largest_first(change: Change) -> tuple[object, ...]:
    """Order: statuses, then days that readers knew, then new days; the largest change first."""
    rank = 0 if change.of_status else 1 if change.was != NOTHING else 2
    return rank, -change.size, change.key, change.day


@dataclass(slots=True)
class Changes:
    """Envelopes on their way to the view, remembered by what they are versions of."""

    limit: int = LOOKED_AT_OUTPUTS
    types: Counter[int] = field(default_factory=Counter)
    """How many envelopes of each type were added."""
    left_out: int = 0
    """Envelopes of outputs past the limit."""
    _latest: dict[tuple[int, int, int], Envelope] = field(default_factory=dict)
    _taken: Counter[bool] = field(default_factory=Counter)

    def add(self, envelopes: Envelopes) -> None:
        """Take note of envelopes, in order."""
        batch = envelopes.listed()
        self.types.update(batch.types)
        latest = self._latest
        for at, (kind, key, day, version) in enumerate(
            zip(batch.types, batch.keys, batch.days, batch.versions, strict=True)
        ):
            output = (_FAMILY[kind], key, day)
            known = latest.get(output)
            if known is None:
                # Many new days must not crowd out the corrections of old ones.
                new = version == 1
                if self._taken[new] >= self.limit:
                    self.left_out += 1
                    continue
                self._taken[new] += 1
            elif version <= known.version:
                continue
            latest[output] = batch.at(at)

    def unseen(self, envelopes: int) -> int:
        """Of so many envelopes, how many were not looked at."""
        return max(0, envelopes - (self.types.total() - self.left_out))

    def against(self, store: LedgerStore, unit: Unit) -> Sequence[Change]:
        """Compare with the view's rows as they stand, largest change first."""
        latest = {OutputId(*output): envelope for output, envelope in self._latest.items()}
        beside = {
            output._replace(family=_BESIDE[Family(output.family)])
            for output in latest
            if output.family in _BESIDE
        }
        stored = store.view_rows(unit, latest.keys() | beside)
        return sorted(_compared(latest, stored), key=largest_first)


def _compared(
    latest: Mapping[OutputId, Envelope], stored: Mapping[OutputId, Envelope]
) -> Iterator[Change]:
    causes: dict[tuple[int, int], Cause] = {}
    newer = {}
    for output, envelope in latest.items():
        row = stored.get(output)
        if row is None or envelope.version > row.version:
            newer[output] = envelope
            place = (output.key, output.day)
            causes[place] = max(causes.get(place, envelope.cause), envelope.cause)
    for (key, day), cause in causes.items():
        before = _at(stored, key, day)
        was, now = _fact(before), _fact(before | _at(newer, key, day))
        first_ready = was == NOTHING and now == READY
        if was != now and not first_ready:
            yield Change(key, day, was, now, cause)


def _at(rows: Mapping[OutputId, Envelope], key: int, day: int) -> dict[Family, Envelope]:
    outputs = {family: OutputId(family, key, day) for family in Family}
    return {family: rows[output] for family, output in outputs.items() if output in rows}


def _fact(rows: Mapping[Family, Envelope]) -> Fact:
    """What readers see where these rows stand."""
    kinds = {row.type: row for row in rows.values()}
    balance = kinds.get(Type.BALANCE_STATED)
    blocked = kinds.get(Type.BLOCKED_STATED)
    ready = () if Type.READY_STATED in kinds else None
    return Fact(
        None if balance is None else balance.close,
        Type.ALERT_RAISED in kinds,
        ready if blocked is None else blocked.reasons,
    )
