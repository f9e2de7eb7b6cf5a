"""A landing folder with real files over a ledger, and what can be seen of both."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

from amends_pipeline.flows import landing
from amends_pipeline.flows.landing import Fate, Seen, land, look_into
from amends_pipeline.flows.provision import provision
from amends_pipeline.inventory.config import parse_configuration
from amends_pipeline_tests.tables import configuration, history

SOURCE = "depot-feed-1"
LATER = 3_000_000_000
"""Nanoseconds after which a file has settled."""
HEADER = "txn_id,revision,kind,item,location,valid_time,qty,source_time\n"
ROW = "A,1,NEW,DEMO-PART,DEPOT-A,2026-01-01T12:00:00Z,-50,2026-02-01T00:00:00Z\n"
LINES = "".join(f"{line.value.decode()}\n" for line in history("A r1 NEW day 1 -50\nmalformed"))


def digest(text: str | bytes) -> str:
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()


class Harbour:
    """A landing folder, a ledger, and a clock three seconds ahead."""

    def __init__(self, ledger, root: Path):
        self.ledger = ledger
        self.root = root
        self.folder = root / SOURCE
        self.folder.mkdir(parents=True)
        provision(ledger, parse_configuration(configuration()))

    def put(self, name: str, text: str | bytes = LINES) -> Path:
        path = self.folder / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def land(self, **options) -> dict[str, Fate]:
        return {each.name: each.fate for each in self.outcomes(**options)}

    def outcomes(self, **options) -> list[landing.Outcome]:
        return list(land(self.ledger, self.root, SOURCE, clock=self.clock, **options))

    @staticmethod
    def clock() -> int:
        return time.time_ns() + LATER

    def seen(self) -> Seen:
        return look_into(self.folder, self.clock())

    @property
    def values(self) -> list[bytes]:
        log = self.ledger.source(SOURCE)
        return list(log.read(0, 0, log.extents()[0].end, 100_000).values)

    @property
    def landed(self) -> list[tuple]:
        return [
            (each.name, each.records, each.digest, each.error)
            for each in self.ledger.operations.landed(SOURCE)
        ]

    def files(self) -> list[str]:
        """Every file below the folder."""
        return sorted(
            str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file()
        )
