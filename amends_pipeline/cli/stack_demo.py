"""The demo namespace of `amends up`: something to look at in a UI that would else be empty.

It is a namespace of its own, `demo`, over a source of its own, `demo-feed`, in the user's ledgers,
because the stack shows these and nothing else: in another database its units would be partitions
whose runs look for them in vain. It moves nothing of the user's:

    - It is provisioned only where there is no namespace `demo`. One with another configuration is
      somebody's and is left as it is; so is one whose source somebody bound otherwise.
    - Records are appended only to a source that holds what this file puts there and no more. Who
      appends to `demo-feed` has it for himself from then on.
    - It follows, as any other namespace does, so an append to it is worked on at once.

History comes first, and corrections when readers have the history: so the latest run of each unit
shows what was and what is now. The sensor asks for the runs.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from typing import Final, NamedTuple

import dagster as dg

from amends_pipeline.defs.partitions import register
from amends_pipeline.flows.append import Line, append
from amends_pipeline.flows.provision import provision
from amends_pipeline.inventory.config import parse_configuration
from amends_pipeline.kernel.errors import (
    ConfigurationError,
    DatabaseUnavailable,
    ForeignIncarnation,
    OutcomeUnknown,
    UnknownNamespace,
)
from amends_pipeline.ports import Ledger, Unit

DEMO: Final = "demo"
SOURCE: Final = "demo-feed"
PARTITIONS: Final = 2
POLL_SECONDS: Final = 1.0

PART: Final = ("DEMO-PART", "DEPOT-A")
BOLT: Final = ("DEMO-BOLT", "DEPOT-B")


class Key(NamedTuple):
    """A stock key of the demo."""

    stock_key: tuple[str, str]
    opening: int
    threshold: int
    partition: int


class Revision(NamedTuple):
    """A record of the demo: a complete assertion about a transaction."""

    stock_key: tuple[str, str]
    txn_id: str
    revision: int
    kind: str
    day: str
    qty: int


KEYS: Final = (Key(PART, 100, 60, 0), Key(BOLT, 400, 150, 1))
HISTORY: Final = (
    Revision(PART, "ISSUE-001", 1, "NEW", "2026-01-01", -50),
    Revision(PART, "ISSUE-002", 1, "NEW", "2026-01-02", -20),
    Revision(PART, "RECEIPT-003", 1, "NEW", "2026-01-03", 50),
    Revision(BOLT, "ISSUE-101", 1, "NEW", "2026-01-01", -120),
    Revision(BOLT, "ISSUE-102", 1, "NEW", "2026-01-02", -90),
    Revision(BOLT, "ISSUE-103", 1, "NEW", "2026-01-04", -70),
)
CORRECTIONS: Final = (
    Revision(PART, "ISSUE-001", 2, "AMEND", "2026-01-01", -30),  # less was taken
    Revision(PART, "RECEIPT-003", 2, "CANCEL", "2026-01-03", 0),  # it never came
    Revision(BOLT, "ISSUE-102", 2, "AMEND", "2026-01-03", -60),  # less, and a day later
)
STAGES: Final = (HISTORY, CORRECTIONS)


def configuration() -> dict[str, object]:
    """Return the configuration of the demo as a document."""
    return {
        "schema_version": 1,
        "namespace": DEMO,
        "source": SOURCE,
        "partitions": PARTITIONS,
        "origin": "2026-01-01T00:00:00Z",
        "keys": [
            {
                "stock_key": _named(key.stock_key),
                "opening_balance": key.opening,
                "reorder_threshold": key.threshold,
                "partition": key.partition,
            }
            for key in KEYS
        ],
    }


def record(revision: Revision) -> bytes:
    """Return a revision as a source record."""
    return json.dumps(
        {
            "txn_id": revision.txn_id,
            "revision": revision.revision,
            "kind": revision.kind,
            "stock_key": _named(revision.stock_key),
            "valid_time": f"{revision.day}T12:00:00Z",
            "qty": revision.qty,
            "source_time": "2026-01-05T09:00:00Z",
        }
    ).encode()


def provisioned(ledger: Ledger) -> bool:
    """Provision the demo where there is no namespace of its name; say whether it is ours."""
    config = parse_configuration(configuration())
    try:
        return ledger.store.info(DEMO).digest == config.digest
    except UnknownNamespace:
        try:
            provision(ledger, config)
        except (ConfigurationError, ForeignIncarnation):
            return False  # the source is somebody else's
        return True


class Filling:
    """Appends the demo's records, stage after stage; the sensor has Dagster work on them."""

    def __init__(self, ledger: Ledger, instance: dg.DagsterInstance) -> None:
        """Tell Dagster of the units. Call it for a demo that is ours."""
        self._ledger = ledger
        self._stop = threading.Event()
        register(instance, ledger.store.info(DEMO))

    def stop(self) -> None:
        """Ask for the end."""
        self._stop.set()

    def run(self) -> None:
        """Append what is missing, each stage when readers have the one before. Raises AmendsError.

        It returns when all is appended, somebody else appended, or `stop` was called. A database
        that is away is waited for.
        """
        while True:
            try:
                self._fill()
            except (DatabaseUnavailable, OutcomeUnknown):  # the next try looks what is there
                if self._stop.wait(POLL_SECONDS):
                    return
            else:
                return

    def _fill(self) -> None:
        for number, stage in enumerate(STAGES):
            if self._ends() == _ends_after(number):
                while number and not self._published():
                    if self._stop.wait(POLL_SECONDS):
                        return
                lines = [Line(DEMO, at, record(each)) for at, each in enumerate(stage, 1)]
                append(self._ledger, DEMO, lines)

    def _ends(self) -> Sequence[int]:
        return [extent.end for extent in self._ledger.source(SOURCE).extents()]

    def _published(self) -> bool:
        """Whether readers have what follows from all that was appended."""
        for partition, end in enumerate(self._ends()):
            unit = Unit(DEMO, partition)
            at = self._ledger.store.progress(unit)
            behind = at.pending or at.view_next < self._ledger.outputs.end(unit)
            if at.next_offset < end or behind:
                return False
        return True


def _ends_after(stages: int) -> Sequence[int]:
    """The ends of the source, by partition, when so many stages were appended."""
    partition_of = {key.stock_key: key.partition for key in KEYS}
    appended = [partition_of[each.stock_key] for stage in STAGES[:stages] for each in stage]
    return [appended.count(partition) for partition in range(PARTITIONS)]


def _named(stock_key: tuple[str, str]) -> dict[str, str]:
    return dict(zip(("item", "location"), stock_key, strict=True))
