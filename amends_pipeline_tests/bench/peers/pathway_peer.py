"""Pathway: the same facts kept incrementally, in memory, with nothing durable behind them.

Its `sort` gives neighbours only, so a cumulative sum takes each touched key as a sorted tuple of
its days through a function, and the engine finds out which of the resulting rows are new.
"""

from __future__ import annotations

import json
import queue
import threading
from pathlib import Path
from time import perf_counter, sleep
from typing import Any, NamedTuple

import pathway as pw

from amends_pipeline_tests.bench.obeying import Answer, serve

SECONDS_TO_WAIT = 300
SECONDS_OF_QUIET = 1.5
"""A batch may be taken in by several commits: after so long without a change it was the last."""


class Record(pw.Schema):
    """One revision, flattened."""

    item: str
    location: str
    txn_id: str
    revision: int
    kind: str
    valid_time: str
    qty: int


class Feed(pw.io.python.ConnectorSubject):
    """Hands over what it is given; None ends the stream."""

    def __init__(self) -> None:
        super().__init__(datasource_name="feed")
        self.batches: queue.Queue[list[bytes] | None] = queue.Queue()

    def run(self) -> None:
        while (batch := self.batches.get()) is not None:
            for line in batch:
                told = json.loads(line)
                key = told["stock_key"]
                self.next(
                    item=key["item"],
                    location=key["location"],
                    txn_id=told["txn_id"],
                    revision=told["revision"],
                    kind=told["kind"],
                    valid_time=told["valid_time"],
                    qty=told["qty"],
                )
            self.commit()


def facts(records: pw.Table, opening: int, threshold: int) -> pw.Table:
    """Balances and crossings of all keys that are not in conflict."""
    told = records.select(
        pw.this.item,
        pw.this.location,
        pw.this.txn_id,
        pw.this.revision,
        says=pw.make_tuple(pw.this.kind, pw.this.valid_time, pw.this.qty),
    )
    key = (pw.this.item, pw.this.location)
    revisions = told.groupby(*key, pw.this.txn_id, pw.this.revision).reduce(
        *key,
        pw.this.txn_id,
        pw.this.revision,
        low=pw.reducers.min(pw.this.says),
        high=pw.reducers.max(pw.this.says),
    )
    authorities = (
        revisions.select(
            *key,
            pw.this.txn_id,
            both=pw.make_tuple(pw.this.revision, pw.this.low, pw.this.high),
        )
        .groupby(*key, pw.this.txn_id)
        .reduce(*key, top=pw.reducers.max(pw.this.both))
    )
    entries = authorities.select(*key, entry=pw.apply_with_type(entry, ENTRY, pw.this.top))
    parts = entries.select(
        *key, day=pw.this.entry[0], qty=pw.this.entry[1], conflict=pw.this.entry[2]
    )
    days = parts.groupby(*key, pw.this.day, pw.this.conflict).reduce(
        *key, pw.this.day, pw.this.conflict, total=pw.reducers.sum(pw.this.qty)
    )
    keys = days.groupby(*key).reduce(
        *key,
        days=pw.reducers.sorted_tuple(pw.make_tuple(pw.this.day, pw.this.conflict, pw.this.total)),
    )
    rows = keys.select(
        *key,
        row=pw.apply_with_type(lambda days: closes(days, opening, threshold), ROWS, pw.this.days),
    ).flatten(pw.this.row)
    named = rows.select(*key, day=pw.this.row[0], close=pw.this.row[1], alerting=pw.this.row[2])
    return named.with_id_from(*key, pw.this.day)


ENTRY = tuple[str, int, int]
ROWS = list[tuple[str, int, int]]
NO_DAY = ""
"""Of what is cancelled: a key of which nothing is left has no rows, and is there all the same."""


def entry(top: tuple[int, tuple, tuple]) -> tuple[str, int, int]:
    """Day, quantity and whether it is in conflict, of what is in force."""
    _, low, high = top
    if low != high:
        return NO_DAY, 0, 1
    kind, valid_time, qty = low
    return (NO_DAY, 0, 0) if kind == "CANCEL" else (valid_time[:10], qty, 0)


def closes(
    days: tuple[tuple[str, int, int], ...], opening: int, threshold: int
) -> tuple[tuple[str, int, int], ...]:
    """Day, close, crossing; nothing for a key in conflict."""
    if any(conflict for _, conflict, _ in days):
        return ()
    close, made = opening, []
    for day, _, total in days:
        if day != NO_DAY:
            before, close = close, close + total
            made.append((day, close, int(before >= threshold > close)))
    return tuple(made)


class Sums(NamedTuple):
    """What the rows add up to."""

    balances: int = 0
    closes: int = 0
    alerts: int = 0

    def plus(self, sign: int, close: int, alerting: int) -> Sums:
        return Sums(self.balances + sign, self.closes + sign * close, self.alerts + sign * alerting)


class Peer:
    """The dataflow, and what came out of it."""

    def __init__(self) -> None:
        self.feed = Feed()
        self._rows: dict[tuple[str, str, str], tuple[int, int]] = {}
        self._sums = Sums()
        self._changes = 0
        self._settled = threading.Condition()
        self._ended: tuple[int, Sums] = (0, Sums())
        """Changes and sums at the end of the last time."""
        self._ended_at = 0.0
        """When something last changed."""

    def start(self, opening: int, threshold: int) -> Answer:
        """Build the dataflow and let it run."""
        records = pw.io.python.read(self.feed, schema=Record, autocommit_duration_ms=20)
        pw.io.subscribe(
            facts(records, opening, threshold), on_change=self._change, on_time_end=self._end
        )
        threading.Thread(
            target=pw.run,
            kwargs={"monitoring_level": pw.MonitoringLevel.NONE},
            daemon=True,
        ).start()
        return {}

    def _change(self, key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:  # noqa: ARG002, FBT001 - Pathway's own
        self._changes += 1
        name = (row["item"], row["location"], row["day"])
        found = (row["close"], row["alerting"])
        before = self._rows.get(name)
        # Of one time, what is new may come before the removal of what was.
        if is_addition or before == found:
            if before is not None:
                self._sums = self._sums.plus(-1, *before)
                del self._rows[name]
            if is_addition:
                self._sums = self._sums.plus(1, *found)
                self._rows[name] = found

    def _end(self, time: int) -> None:  # noqa: ARG002 - Pathway's own
        with self._settled:
            if self._changes != self._ended[0]:
                self._ended_at = perf_counter()
            self._ended = self._changes, self._sums
            self._settled.notify_all()

    def _handed_over(self, batch: list[bytes], until: Sums | None = None) -> float:
        """Seconds until the changes that follow were handed to us, or until they add up so."""
        before, _ = self._ended
        start = perf_counter()
        self.feed.batches.put(batch)
        with self._settled:
            if not self._settled.wait_for(
                lambda: self._ended[1] == until if until else self._ended[0] > before,
                SECONDS_TO_WAIT,
            ):
                raise TimeoutError(f"expected {until or 'changes'}, found {self._ended}")
        return perf_counter() - start

    def load(self, path: str, balances: int, closes: int, alerts: int) -> Answer:
        """Hand over a whole log, to the moment when the rows add up to what they should."""
        lines = Path(path).read_bytes().splitlines()
        seconds = self._handed_over(lines, Sums(balances, closes, alerts))
        return {"seconds": seconds, "records": len(lines)}

    def correct(self, lines: list[str]) -> Answer:
        """One correction after the other, each to the rows that follow from it."""
        seconds = [self._handed_over([line.encode()]) for line in lines]
        return {"seconds": seconds, **self._sums._asdict()}

    def correct_together(self, lines: list[str]) -> Answer:
        """Corrections at once, to the last row that follows from them."""
        before, start = self._changes, perf_counter()
        self._handed_over([line.encode() for line in lines])
        while perf_counter() - self._ended_at < SECONDS_OF_QUIET:
            sleep(SECONDS_OF_QUIET / 10)
        seconds = self._ended_at - start
        return {"seconds": seconds, "changes": self._changes - before, **self._sums._asdict()}


if __name__ == "__main__":
    peer = Peer()
    serve(
        {
            "start": peer.start,
            "load": peer.load,
            "correct": peer.correct,
            "correct_together": peer.correct_together,
            "version": lambda: {"version": pw.__version__},
        }
    )
