"""A ledger stream, its exports and Dagster between them, in memory or on PostgreSQL."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from amends_pipeline.assembly import open_ledger
from amends_pipeline.defs.bank.assets import balances, checkpoints, exporter
from amends_pipeline.defs.bank.checks import bank_verification
from amends_pipeline.defs.bank.sensors import moved_heads
from amends_pipeline.defs.catalog import BANK_BALANCES
from amends_pipeline.defs.jobs import EXAMINE_EXPORT, FOLD_BANK
from amends_pipeline.defs.resources import BankResource, bank_over
from amends_pipeline.flows.bank_correct import correct
from amends_pipeline.flows.bank_open import open_stream
from amends_pipeline.flows.bank_post import post
from amends_pipeline.store.memory_bank import BankTables, MemoryBank
from amends_pipeline_tests.contracts.bank_bench import ACCOUNTS, STREAM, command, link
from amends_pipeline_tests.defs.conftest import QUIET, Run
from amends_pipeline_tests.store.postgres_ledger import empty

HERE = STREAM.stream_id
EXECUTE_ALL = dg.define_asset_job(
    "execute_all", selection=dg.AssetSelection.checks_for_assets(BANK_BALANCES.key)
)


class Clock:
    """A server's clock that moves one second whenever somebody looks."""

    def __init__(self):
        self._seconds = 0

    def __call__(self):
        self._seconds += 1
        hours, rest = divmod(self._seconds, 3600)
        return f"2025-11-01T{hours:02}:{rest // 60:02}:{rest % 60:02}.000Z"


@dataclass
class Office:
    """A live journal, a Dagster instance, and the definitions between them."""

    journal: Any
    instance: dg.DagsterInstance
    home: Path
    cursor: str | None = None

    @property
    def resource(self) -> BankResource:
        return bank_over(self.journal, self.home)

    @property
    def definitions(self) -> dg.Definitions:
        return dg.Definitions(
            assets=[exporter, balances, checkpoints],
            asset_checks=[bank_verification],
            jobs=[FOLD_BANK, EXAMINE_EXPORT, EXECUTE_ALL],
            sensors=[moved_heads],
            resources={"bank": self.resource},
            executor=dg.in_process_executor,
        )

    # What people do

    def open(self, accounts=ACCOUNTS, stream=STREAM) -> None:
        open_stream(self.journal, stream, accounts)
        self.instance.add_dynamic_partitions("ledger_stream", [stream.stream_id])

    def post(self, name: str, legs: str, **changes) -> None:
        """Post `J-name`; legs as in the bench: "DEBITED CREDITED AMOUNT"."""
        booked = post(self.journal, HERE, command(name, legs, **changes))
        assert hasattr(booked, "group"), booked

    def correct(self, name: str, original: str, legs: str, **changes) -> None:
        booked = correct(
            self.journal,
            HERE,
            link(name, original),
            command(name, legs, **changes),
            reversal_business_operation_id=f"B-{name}-undo",
        )
        assert hasattr(booked, "group"), booked

    def tell_the_story(self) -> None:
        """Funding, a payment to the wrong payee, its correction, a fee."""
        self.post("fund", "CASH ADA 100000")
        self.post("pay", "ADA BEN 2500")
        self.correct("redo", "pay", "ADA CORA 2400")
        late = "2025-10-23T08:00:00.000Z"
        self.post("fee", "ADA FEES 250", effective_at=late, source_available_at=late)

    # Runs

    def examine(self, export: Offered) -> Run:
        """Run the job `examine_export`."""
        return self.fold(job="examine_export", exporter=export.config)

    def fold(self, assets=None, stream: str = HERE, job: str = "fold_bank", **config) -> Run:
        """Run the job `fold_bank`, or some of its assets; `config` is by name of the step."""
        ops = {step: {"config": each} for step, each in config.items()}
        result = self.definitions.resolve_job_def(job).execute_in_process(
            partition_key=stream,
            instance=self.instance,
            run_config={"ops": ops, **QUIET},
            asset_selection=assets and [dg.AssetKey(name) for name in assets],
            raise_on_error=False,
        )
        return Run(result)

    def execute_all(self) -> Run:
        """Run the checks without a partition, as a button of the UI does."""
        result = self.definitions.resolve_job_def("execute_all").execute_in_process(
            instance=self.instance, run_config=QUIET, raise_on_error=False
        )
        return Run(result)

    # Files

    @property
    def folder(self) -> Path:
        return self.home / "bank" / HERE

    def offer(self, name: str = "offered") -> Offered:
        """A copy of the last valid export, to be damaged and offered."""
        return Offered(self.folder / "export", self.home / name)


class Offered:
    """An export in a folder: lines of groups, accounts and context."""

    def __init__(self, source: Path, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.lines = (source / "groups.jsonl").read_bytes().splitlines(keepends=True)
        self.accounts = json.loads((source / "accounts.json").read_text())
        self.context = json.loads((source / "context.json").read_text())

    def group(self, number: int) -> Any:
        return json.loads(self.lines[number])

    def put(self, number: int, group: Any) -> None:
        self.lines[number] = json.dumps(group).encode() + b"\n"

    @property
    def config(self) -> dict[str, str]:
        """Write the files; return the configuration of the exporter that takes them."""
        (self.folder / "groups.jsonl").write_bytes(b"".join(self.lines))
        (self.folder / "accounts.json").write_text(json.dumps(self.accounts))
        (self.folder / "context.json").write_text(json.dumps(self.context))
        return {"folder": str(self.folder)}


@pytest.fixture
def journal(request):
    """In memory, with a clock of its own, unless the test asks for `postgres`."""
    if getattr(request, "param", "memory") == "memory":
        yield MemoryBank(BankTables(Clock()))
        return
    url = request.getfixturevalue("tables_url")
    with open_ledger(url) as ledger:
        yield ledger.bank
    empty(url, "amends_bank")


on_both = pytest.mark.parametrize("journal", ["memory", "postgres"], indirect=True)
"""For tests of what a run does to the journal, whatever it is made of."""


@pytest.fixture
def nowhere(journal, instance, tmp_path):
    """An office without a ledger stream."""
    return Office(journal, instance, tmp_path)


@pytest.fixture
def office(nowhere):
    """An office with an empty stream, five accounts in USD, three others."""
    nowhere.open()
    return nowhere
