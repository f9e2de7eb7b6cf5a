"""Snapshots of a namespace stated by hand, for tests of verification."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from amends_pipeline.flows.verify import verify
from amends_pipeline.inventory.classify import Code
from amends_pipeline.inventory.config import parse_configuration
from amends_pipeline.inventory.envelope import STATUS_DAY, VISIBLE, Cause, Envelope, Type
from amends_pipeline.inventory.slice import Records, Rejection
from amends_pipeline.inventory.verify import parse_manifest
from amends_pipeline.ports import (
    ConflictRef,
    DayColumns,
    Extent,
    NamespaceInfo,
    Progress,
    Quarantined,
)
from amends_pipeline_tests.tables import STOCK_KEYS, configuration, day, history, lines

KEY_A = {"item": "DEMO-PART", "location": "DEPOT-A"}
KEY_B = {"item": "DEMO-PART", "location": "DEPOT-B"}
CAUSE = Cause(0, "X", 1)


def two_partitions(**members):
    """Key a lies on partition 0, key b on partition 1."""
    document = configuration(partitions=2, **members)
    document["keys"][1]["partition"] = 1
    return parse_configuration(document)


ONE = parse_configuration(configuration())
TWO = two_partitions()


def shown(text, config=ONE):
    """Visible rows from a table.

    a READY
    a BLOCKED by A r1, B r2
    a day 1: 50, alert
    """
    letters = {letter: config.number_of(stock_key) for letter, stock_key in STOCK_KEYS.items()}
    for line in lines(text):
        letter, rest = line.split(" ", 1)
        key = letters[letter]
        if rest.startswith("day"):
            on, close = rest.removeprefix("day ").removesuffix(", alert").split(": ")
            yield Envelope(key, Type.BALANCE_STATED, day(int(on)), 1, int(close), CAUSE, ())
            if rest.endswith("alert"):
                yield Envelope(key, Type.ALERT_RAISED, day(int(on)), 1, int(close), CAUSE, ())
        elif rest == "READY":
            yield Envelope(key, Type.READY_STATED, STATUS_DAY, 1, 0, CAUSE, ())
        else:
            reasons = tuple(
                (txn_id, int(revision.removeprefix("r")))
                for txn_id, revision in (
                    reason.split(" ") for reason in rest.removeprefix("BLOCKED by ").split(", ")
                )
            )
            yield Envelope(key, Type.BLOCKED_STATED, STATUS_DAY, 1, 0, CAUSE, reasons)


@dataclass
class Moment:
    """A snapshot stated by hand: at a complete boundary unless told otherwise."""

    records_: str = ""
    visible_: str = ""
    namespace: object = ONE
    quarantine_: list = field(default_factory=list)
    conflicts_: list = field(default_factory=list)
    set_asides_: list = field(default_factory=list)
    partition: int = 0
    """Where all records lie."""
    first: int = 0
    extent: Extent | None = None
    worker_next: int | None = None
    pending: int = 0
    output_end: int = 8
    view_next: int = 8
    stop: str | None = None
    digest: str | None = None
    incarnation: str = "i-1"
    read: list = field(default_factory=list)

    @property
    def log(self):
        return history(self.records_)

    @property
    def end(self):
        return self.first + len(self.log)

    def info(self):
        partitions = self.namespace.partitions
        firsts = [self.first if at == self.partition else 0 for at in range(partitions)]
        digest = self.digest or self.namespace.digest
        return NamespaceInfo("main", "s", partitions, digest, "i-1", tuple(firsts), follows=True)

    def config(self):
        return self.namespace

    config_as_stored = config

    def source_incarnation(self):
        return self.incarnation

    def source_extents(self):
        extents = [Extent(0, 0)] * self.namespace.partitions
        extents[self.partition] = self.extent or Extent(self.first, self.end)
        return extents

    def output_ends(self):
        ends = [0] * self.namespace.partitions
        ends[self.partition] = self.output_end
        return ends

    def progress(self):
        stages = [Progress(0, 0, 0, 0, None, {})] * self.namespace.partitions
        stages[self.partition] = Progress(
            self.end if self.worker_next is None else self.worker_next,
            20,
            20 - self.pending,
            self.view_next,
            self.stop,
            {},
        )
        return stages

    def records(self, partition, start, until):
        self.read.append((partition, start, until))
        if partition == self.partition:
            log = [
                (at, line.raw_key, line.value)
                for at, line in enumerate(self.log, self.first)
                if start <= at < until
            ]
            for at, raw_key, value in log:
                yield Records(at, at + 1, [at], [raw_key], [value])

    def set_asides(self, partition):
        return self.set_asides_ if partition == self.partition else []

    def visible(self, types=VISIBLE):
        return (each for each in shown(self.visible_, self.namespace) if each.type in types)

    def visible_days(self):
        return {
            kind: DayColumns(
                *(
                    np.array([getattr(each, name) for each in self.visible([kind])], dtype=np.int64)
                    for name in ("key", "day", "close")
                )
            )
            for kind in (Type.ALERT_RAISED, Type.BALANCE_STATED)
        }

    def quarantine(self):
        return iter(self.quarantine_)

    def conflicts(self):
        return iter(self.conflicts_)


class Store:
    """A store whose snapshots are the given moments, the last one again and again."""

    def __init__(self, *moments):
        self.moments = list(moments)
        self.opened = 0
        self.open = 0

    @contextmanager
    def snapshot(self, namespace):
        assert namespace == "main"
        self.opened += 1
        self.open += 1
        yield self.moments.pop(0) if len(self.moments) > 1 else self.moments[0]
        self.open -= 1


def verified(moment, **arguments):
    return verify(Store(moment), "main", wait_seconds=0, **arguments)


def quarantined(offset, code, value=b"{", partition=0, raw_key=None):
    return Quarantined(partition, Rejection(offset, Code(code), raw_key, value))


def manifest(document):
    return parse_manifest(json.dumps(document).encode())


def differing(report):
    """Each difference, less what is empty."""
    return [
        (
            each["kind"],
            {"item": each["item"], "location": each["location"]},
            each["day"],
            each["expected"],
            each["found"],
        )
        for each in json.loads(report.to_json())["differences"]
    ]


CORRECTED = """
    ISSUE-001 r1 NEW day 1 -50
    ISSUE-002 r1 NEW day 2 -20
    RECEIPT-003 r1 NEW day 3 50
    ISSUE-001 r2 AMEND day 1 -30
"""
CORRECTED_ROWS = """
    a READY
    a day 1: 70
    a day 2: 50, alert
    a day 3: 100
"""


EXCLUDING = Moment(
    """
    A r1 NEW day 1 1
    malformed
    A r1 NEW day 1 2
    A r2 NEW day 1 3
    """,
    "a READY\na day 1: 103",
    quarantine_=[quarantined(11, "MALFORMED")],
    conflicts_=[ConflictRef("DEMO-PART", "DEPOT-A", "A", 1)],
    first=10,
)
EXCLUSIONS = {
    "rejections": [{"partition": 0, "offset": 11, "code": "MALFORMED"}],
    "conflicts": [{"stock_key": KEY_A, "txn_id": "A", "revision": 1}],
}


BLOCKED = Moment(
    """
    A r1 NEW day 1 1
    B r1 NEW day 1 -90
    B r1 NEW day 1 -91
    b/C r1 NEW day 1 2
    """,
    """
    a BLOCKED by B r1
    a day 1: 11, alert
    b READY
    b day 1: 102
    """,
    conflicts_=[ConflictRef("DEMO-PART", "DEPOT-A", "B", 1)],
)
