"""Ingest: from source records to committed decisions, up to a given source end.

Load what the next slices need, decide them, save the decisions, again and again. What was loaded
is kept while epoch and frontier hold, and forgotten on any refusal or unknown reply.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np

from amends_pipeline.flows.commits import Commits
from amends_pipeline.inventory.config import NamespaceConfig
from amends_pipeline.inventory.decision import Decision, Known, decide
from amends_pipeline.inventory.keyfold import NeedsWholeKey
from amends_pipeline.inventory.refold import EVERY_DAY, Status
from amends_pipeline.inventory.slice import (
    Slice,
    earliest_days,
    identities,
    read_slice,
)
from amends_pipeline.inventory.trial import Excess
from amends_pipeline.kernel.errors import (
    AmendsError,
    CloseOverflow,
    FrontierMoved,
    SourceTruncated,
)
from amends_pipeline.kernel.sieve import Sieve, hashes
from amends_pipeline.ports import LedgerStore, SourceLog, Token

if TYPE_CHECKING:
    from amends_pipeline.flows.batches import Batches

SLICE_RECORDS = 5_000
"""Records decided together unless the caller says otherwise."""
COMMIT_RECORDS = 20_000
"""Records whose decisions share a commit, at least one decision. What a key needs once per commit,
reading and writing its days, costs the less a record the more records share it; and the sooner a
commit is on its way, the more is done beside it."""
COMMIT_ENVELOPES = 500_000
"""Envelopes of a commit, about, where records cause that many: they stand in memory until then."""
BATCH_RECORDS = 128
"""From about that many records on, deciding them together as columns is quicker."""
CACHED_KEYS = 200_000
CACHED_DAYS = 3_000_000
"""Days of all keys kept, of some 50 bytes each as columns, and 150 as values."""
CACHED_IDENTITIES = 400_000
"""Authorities kept, of some 340 bytes each, before all are forgotten and read again as needed."""

OnCommit = Callable[[Sequence[Decision]], None]


@dataclass(slots=True)
class Worker:
    """One owner of a unit, with what it knows of the unit's state.

    `cut` bounds a decision and a commit; it never changes what becomes visible.
    """

    store: LedgerStore
    source: SourceLog
    token: Token
    config: NamespaceConfig
    slice_records: int = SLICE_RECORDS
    commit_records: int = COMMIT_RECORDS
    on_commit: OnCommit = lambda _: None
    _known: Known = field(default_factory=Known)
    """What is decided, which may be ahead of what is committed by one commit. Its authorities are
    those that slices were decided with; batches of columns keep their own."""
    _next: int = 0
    _sequence: int = 0
    _needed_at: int = -1
    """The frontier when a key was needed whole that had been read in part."""
    _met: Sieve | None = None
    """Every identity that was ever decided, if that is known."""
    _aside: frozenset[int] | None = None
    _commits: Commits[Sequence[Decision]] = field(init=False)
    _run: ExitStack = field(init=False)
    _batches: Batches | None = None
    _by_columns: bool = False
    """Whether the last decision was one of columns."""
    _pace: tuple[int, int] | None = None
    """Records of the last batch of this run, and how many envelopes they caused."""

    def run(self, until: int) -> int:
        """Process every record before `until`. Returns the frontier, which is `until`.

        Raises CloseOverflow at a record that no close survives, with everything before it
        committed; SourceTruncated, Fenced, FrontierMoved, OutcomeUnknown as they come.
        """
        self._observe(until)
        look, self._pace = 0, None
        try:
            with (
                Commits(partial(self.store.commit, self.token), self.on_commit) as self._commits,
                ExitStack() as self._run,
            ):
                while self._next < until:
                    look = self._batch(until, look)
        except BaseException:
            # Decisions may be known that were never committed.
            self._known, self._met = Known(), None
            raise
        finally:
            self._batches, self._by_columns = None, False
        return self._next

    def _observe(self, until: int) -> None:
        """Begin from what is committed; forget what was known when that is somewhere else."""
        progress = self.store.progress(self.token.unit)
        unit = self.token.unit
        if progress.next_offset != self._next:
            self._known, self._met = Known(), None
        if progress.next_sequence == 0:
            first_offset = self.store.info(unit.namespace).first_offsets[unit.partition]
            # When nothing was ever decided, what is decided from here on is all there is.
            self._known = Known()
            self._met = Sieve() if progress.next_offset == first_offset else None
        self._next, self._sequence = progress.next_offset, progress.next_sequence
        extent = self.source.extents()[unit.partition]
        if not (extent.start <= self._next <= extent.end and until <= extent.end):
            raise SourceTruncated(
                f"source {self.source.source}, partition {unit.partition}",
                expected=f"records from offset {self._next} to {max(until, self._next)}",
                found=f"{extent.start} to {extent.end}",
            )

    def _batch(self, until: int, look: int) -> int:
        """Decide one batch and have it committed.

        Returns how many records the next one must read at least.
        """
        # Whole slices only, so that where a commit ends says nothing about where a slice does.
        whole_slices = max(self._most_records(), look) // self.slice_records
        limit = max(1, whole_slices) * self.slice_records
        if self._aside is None:
            # Once for an epoch: whoever sets a record aside takes the next one, and ends ours.
            set_asides = self.store.set_asides(self.token.unit)
            self._aside = frozenset(entry.offset for entry in set_asides)
        if until - self._next >= BATCH_RECORDS and not look and self._together(until, limit):
            return 0
        return self._one_by_one(until, look, limit)

    def _most_records(self) -> int:
        """How many records the next commit may hold, if they cause as much as the last ones."""
        if self._pace is None:
            # Few at first, so that what they cause is known, and something is committed, soon.
            return self.commit_records // 4
        records, envelopes = self._pace
        if envelopes * self.commit_records <= records * COMMIT_ENVELOPES:
            return self.commit_records
        return max(BATCH_RECORDS, records * COMMIT_ENVELOPES // envelopes)

    def _one_by_one(self, until: int, look: int, limit: int) -> int:
        """Decide slice by slice. Returns how many records the next batch must read at least."""
        unit = self.token.unit
        if self._batches is not None and self._by_columns:
            # Slices are decided by what the store has.
            self._commits.wait()
            self._batches.forget()
            self._by_columns = False
        records = self.source.read(unit.partition, self._next, until, limit)
        whole = read_slice(self.config, unit.partition, records, self._aside or frozenset())
        self._make_room()
        self._load_authorities(whole)
        self._load_keys(self._lacking(whole))
        last = records.until >= until
        decisions: list[Decision] = []
        try:
            cut = whole.cut(records.ends(self.slice_records))
            open_excess = self._decide(cut, decisions, last=last)
        except NeedsWholeKey as needs:
            # Decisions before it may have moved the key: commit them first, then read it again.
            self._commit(decisions)
            self._commits.wait()
            self._known.keys.update(self.store.keys(unit, {needs.key: EVERY_DAY}))
            self._needed_at = self._next
            return look
        self._commit(decisions, last=last)
        if open_excess is None:
            return 0
        if not open_excess.undecided or last:
            self._commits.wait()
            raise self._overflow(open_excess)
        return 2 * limit

    def _together(self, until: int, limit: int) -> bool:
        """Decide all slices of a batch as one, if that can be done."""
        # Columns bring a library along that a single correction need not wait for.
        from amends_pipeline.flows.ahead import Wanted  # noqa: PLC0415 - as said above
        from amends_pipeline.inventory.batch import decide_batch  # noqa: PLC0415 - as said above

        if self._batches is None:
            self._batches = self._begin_batches()
        if not self._by_columns:
            # What slices were decided with is out of date behind a batch.
            self._commits.wait()
            self._known.authorities.clear()
            self._by_columns = True
        batch = self._batches.next(Wanted(self._next, until, limit))
        if batch is None:
            return False
        whole = batch.gathered.whole
        self._make_room()
        self._load_keys(self._known.keys.lacking(*batch.earliest_days()))
        ends = batch.gathered.ends(self.slice_records)
        try:
            decision = decide_batch(
                self._known.keys, whole, batch.standing, ends, self._sequence, self._begin
            )
        except NeedsWholeKey:
            decision = None
        if decision is None:
            self._commits.abandon()
            return False
        self._batches.decided(batch)
        self._known.install_keys(decision)
        self._sequence = decision.next_sequence
        self._pace = max(decision.accepted, 1), len(decision.envelopes)
        self._commits.finish([decision], wait=whole.until >= until)
        self._next = decision.until
        return True

    def _begin(self, evidence: Decision) -> None:
        """Have the evidence of a decision written while the rest of it is being made."""

        def save(decided: Callable[[], Sequence[Decision]]) -> None:
            self.store.commit_begun(self.token, evidence, lambda: decided()[0])

        self._commits.begin(save)

    def _begin_batches(self) -> Batches:
        from amends_pipeline.flows.ahead import Gatherer  # noqa: PLC0415 - as in `_together`
        from amends_pipeline.flows.batches import Batches  # noqa: PLC0415 - as in `_together`

        unit, aside = self.token.unit, self._aside or frozenset()
        gatherer = Gatherer(self.store, self.source, unit, self.config, aside, self._met)
        return self._run.enter_context(Batches(gatherer))

    def _decide(
        self, slices: Sequence[Slice], decisions: list[Decision], *, last: bool
    ) -> Excess | None:
        """Decide slice after slice into `decisions`; stop at an excess and return it.

        An excess that records after these may undo leaves its slice undecided, unless these are
        the last ones.
        """
        remaining = list(reversed(slices))
        while remaining:
            slice_ = remaining.pop()
            decision = decide(self._known, slice_, self._sequence)
            while decision.excess and decision.excess.undecided and remaining:
                slice_ = slice_.joined(remaining.pop())
                decision = decide(self._known, slice_, self._sequence)
            if decision.excess and decision.excess.undecided and not last:
                return decision.excess
            if decision.excess is None or decision.until > decision.start:
                self._known.install(decision)
                self._sequence = decision.next_sequence
                decisions.append(decision)
            if decision.excess is not None:
                return decision.excess
        return None

    def _load_authorities(self, slice_: Slice) -> None:
        known = self._known.authorities
        missing = [each for each in identities(slice_) if each not in known]
        if missing and self._met is not None:
            keys, txn_ids = zip(*missing, strict=True)
            met = self._met.sift(hashes(np.array(keys, dtype=np.int64), txn_ids))
            missing = list(compress(missing, met.tolist()))
        if missing:
            known.update(self.store.authorities(self.token.unit, missing))

    def _lacking(self, slice_: Slice) -> dict[int, int]:
        """Keys that are not known from the day on that may change, each with that day."""
        keys = self._known.keys
        if all(record.key in keys and keys[record.key].whole for record in slice_.accepted):
            return {}
        return {
            key: day
            for key, day in earliest_days(slice_, self._known.authorities).items()
            if key not in keys or keys[key].loaded_from > day
        }

    def _load_keys(self, wanted: Mapping[int, int]) -> None:
        """Have these keys in memory, each from the given day on."""
        unit, keys = self.token.unit, self._known.keys
        if any(key in keys for key in wanted):
            # What is about to be committed of these keys must be read with the rest.
            self._commits.wait()
        if wanted:
            keys.put(self.store.keys(unit, wanted))
        # A blocked key may unblock, and then its every day counts.
        blocked = {
            state.key: EVERY_DAY
            for state in keys.apart(wanted)
            if state.status is Status.BLOCKED and not state.whole
        }
        if blocked:
            keys.put(self.store.keys(unit, blocked))

    def _make_room(self) -> None:
        """Forget what a worker may not keep. What is on its way must arrive before it is read."""
        known = self._known
        if self._next == self._needed_at:
            # What was read again, because it was needed whole, would be forgotten again.
            return
        if len(known.authorities) > CACHED_IDENTITIES:
            self._commits.wait()
            known.authorities.clear()
        if known.keys.days > CACHED_DAYS or len(known.keys) > CACHED_KEYS:
            self._commits.wait()
            known.keys.clear()

    def _commit(self, decisions: Sequence[Decision], *, last: bool = True) -> None:
        """Have decisions committed: now, or while the next ones are made."""
        if not decisions:
            return
        self._commits.add(decisions, wait=last)
        self._next = decisions[-1].until

    def _overflow(self, excess: Excess) -> AmendsError:
        stock_key = self.config.keys[excess.record.key].stock_key
        if excess.record.offset != self._next:
            return FrontierMoved(
                str(self.token.unit),
                expected=f"the frontier at the offending offset {excess.record.offset}",
                found=str(self._next),
            )
        return CloseOverflow(self.token.unit.partition, excess.record.offset, stock_key, excess.day)
