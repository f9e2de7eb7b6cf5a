"""A slice of records becomes one Decision: the whole step, in order, as a value.

Nothing here reads or writes. What a decision needs is handed in (`Known`), what it does is
returned (`Decision`), and installing it makes the next `Known`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from amends_pipeline.inventory.authority import (
    Accepted,
    Authority,
    Observation,
    first,
    rule,
)
from amends_pipeline.inventory.envelope import STATUS_DAY, Cause, EnvelopeBatch, Type
from amends_pipeline.inventory.envelope_columns import Envelopes
from amends_pipeline.inventory.keyfold import Folded, KeyFold
from amends_pipeline.inventory.known_keys import KnownKeys
from amends_pipeline.inventory.refold import KeyChange, Status
from amends_pipeline.inventory.slice import Rejection, Slice
from amends_pipeline.inventory.trial import Excess, first_excess
from amends_pipeline.kernel.errors import CounterExhausted
from amends_pipeline.kernel.integers import MAX_INT64

Identity = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Decision:
    """Everything that one slice commits, together.

    The source frontier moves from `start` to `until`; `envelopes` take the outbox sequences from
    `base_sequence` on. `excess` says that the slice was cut before an offending record.
    """

    start: int
    until: int
    base_sequence: int
    keys: Mapping[int, KeyChange]
    authorities: Mapping[Identity, Authority]
    observations: Sequence[Observation]
    rejections: list[Rejection]
    envelopes: Envelopes
    accepted: int
    excess: Excess | None = None
    slices: int = 1
    """How many slices were decided together here, as `batch.py` does."""

    @property
    def next_sequence(self) -> int:
        """The first outbox sequence after this decision."""
        return self.base_sequence + len(self.envelopes)


@dataclass(slots=True)
class Known:
    """The committed state that decisions of one partition start from, as far as it is loaded.

    `authorities` misses an identity only when it was never seen; `keys` must hold every key that a
    slice touches, from its earliest changed day on.
    """

    keys: KnownKeys = field(default_factory=KnownKeys)
    authorities: dict[Identity, Authority] = field(default_factory=dict)

    def install(self, decision: Decision) -> None:
        """Move on to the state after `decision`."""
        self.authorities.update(decision.authorities.items())
        self.install_keys(decision)

    def install_keys(self, decision: Decision) -> None:
        """Move on to the keys' state after `decision`."""
        self.keys.install(decision.keys)


def decide(known: Known, slice_: Slice, base_sequence: int) -> Decision:
    """Decide a slice.

    When a close would not fit 64 bits, the slice is cut before the offending record and `excess`
    names it. Raises NeedsWholeKey when a key unblocks that is not loaded whole, CounterExhausted
    when a version or a sequence would pass 64 bits.
    """
    folds, authorities, observations = _observe(known, slice_.accepted)
    doubtful = {key for key, fold in folds.items() if fold.reach > MAX_INT64}
    if doubtful:
        excess = first_excess(known.keys, known.authorities, slice_.accepted, doubtful)
        if excess is not None:
            part = decide(known, slice_.before(excess.record.offset), base_sequence)
            return replace(part, excess=excess)
    folded = [folds[key].finish() for key in sorted(folds)]
    envelopes, states = _publish(folded, slice_.accepted)
    _check_counters(base_sequence, envelopes)
    return Decision(
        slice_.start,
        slice_.until,
        base_sequence,
        states,
        authorities,
        observations,
        slice_.rejections,
        envelopes,
        len(slice_.accepted),
    )


def _observe(
    known: Known, accepted: Iterable[Accepted]
) -> tuple[dict[int, KeyFold], dict[Identity, Authority], list[Observation]]:
    folds: dict[int, KeyFold] = {}
    authorities: dict[Identity, Authority] = {}
    observations: list[Observation] = []
    for at, record in enumerate(accepted):
        identity = (record.key, record.txn_id)
        old = authorities.get(identity) or known.authorities.get(identity)
        if old is None:
            new = first(record)
        else:
            new, observed = rule(old, record)
            observations.append(observed)
        if new is not old:
            authorities[identity] = new
        fold = folds.get(record.key)
        if fold is None:
            fold = folds[record.key] = KeyFold(known.keys[record.key])
        fold.observe(at, record, old, new)
    return folds, authorities, observations


def _publish(
    folded: list[Folded], accepted: list[Accepted]
) -> tuple[EnvelopeBatch, dict[int, KeyChange]]:
    batch = EnvelopeBatch()
    positions: dict[int, int] = {}

    def causes(records: list[int]) -> Iterable[int]:
        """Positions of the causing records among the causes, which take them in as they come."""
        for at in dict.fromkeys(records):
            if at not in positions:
                record = accepted[at]
                positions[at] = len(batch.causes)
                batch.causes.append(Cause(record.offset, record.txn_id, record.candidate.revision))
        return map(positions.__getitem__, records)

    states: dict[int, KeyChange] = {}
    for key_folded in folded:
        state, published = key_folded.state, key_folded.published
        batch.keys += [state.key] * len(published.days)
        batch.types += published.types
        batch.days += published.days
        batch.versions += published.versions
        batch.closes += published.closes
        batch.cause_index += causes(key_folded.causes.of_each(published.days))
        if key_folded.status_cause is not None:
            blocked = state.status is Status.BLOCKED
            if blocked:
                batch.reasons[len(batch.types)] = state.reasons
            batch.keys.append(state.key)
            batch.types.append(Type.BLOCKED_STATED if blocked else Type.READY_STATED)
            batch.days.append(STATUS_DAY)
            batch.versions.append(state.status_version)
            batch.closes.append(0)
            batch.cause_index += causes([key_folded.status_cause])
        states[state.key] = KeyChange(state, key_folded.changed, key_folded.headed)
    return batch, states


def _check_counters(base_sequence: int, envelopes: EnvelopeBatch) -> None:
    highest = max(envelopes.versions, default=0)
    if highest > MAX_INT64 or base_sequence + len(envelopes) > MAX_INT64:
        raise CounterExhausted(
            "output versions and outbox sequence",
            expected="at most 64 bits signed",
            found=f"version {highest}, sequence {base_sequence + len(envelopes)}",
        )
