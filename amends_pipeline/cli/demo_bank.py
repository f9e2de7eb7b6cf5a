"""The bank's story, stage by stage: post to the live journal, then Dagster runs of the real assets.

Commands and accounts are those of the canonical history; recordings and receipts are of the moment.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import dagster as dg
import msgspec

import amends_pipeline
from amends_pipeline.bank.codes import Rejection
from amends_pipeline.bank.fold import fold_balance
from amends_pipeline.bank.heads import Stream
from amends_pipeline.bank.posting import Booking
from amends_pipeline.bank.values import QUERY_VERSION, Group, plain
from amends_pipeline.cli.demo_stages import QUIET, failed
from amends_pipeline.defs.bank.assets import balances, checkpoints, exporter
from amends_pipeline.defs.bank.checks import BANK_EXPORT_IS_COMPLETE, bank_verification
from amends_pipeline.defs.catalog import BANK_BALANCES
from amends_pipeline.defs.jobs import FOLD_BANK
from amends_pipeline.defs.partitions import LEDGER_STREAM
from amends_pipeline.defs.resources import bank_over
from amends_pipeline.flows.bank_checkpoints import Wanted, registry
from amends_pipeline.flows.bank_correct import correct
from amends_pipeline.flows.bank_export import reading
from amends_pipeline.flows.bank_open import open_stream
from amends_pipeline.flows.bank_post import post
from amends_pipeline.flows.bank_take import KEPT
from amends_pipeline.kernel.errors import InputError, OperationError
from amends_pipeline.ports.bank import BankJournal

HISTORY: Final = Path("fixtures", "bank", "canonical")
"""Where the commands are, below the source checkout."""
FILES: Final = ("accounts.json", "context.json", "groups.json")
ACCOUNT: Final = "ADA"
"""Whose balance the story is about."""
OCTOBER_20: Final = "2025-10-20T23:59:59.999Z"


class Check(NamedTuple):
    """What a check of a run said."""

    name: str
    passed: bool
    says: str


class Run(NamedTuple):
    """What a Dagster run made, or refused."""

    run_id: str
    effective_cutoff: str
    knowledge_cutoff: str
    visible_through: str
    balances: Mapping[str, str]
    """Normal balances in minor units, by account; none of a rejected export."""
    statement: Sequence[Mapping[str, str]]
    """What moved the busiest account."""
    checks: Sequence[Check]
    fault: Mapping[str, str] | None
    """Of a rejected export: code, group, sequence, where, expected, found."""


class Resumed(NamedTuple):
    """A fold that started from a checkpoint."""

    checkpoint_id: str
    opening: str
    """Normal balance of the checkpoint."""
    supplied_groups: int
    balance: str
    effective_cutoff: str


@dataclass(frozen=True, slots=True)
class Stage:
    """What one stage did."""

    title: str
    posted: Sequence[Group]
    was: Mapping[str, str]
    """Balances before it."""
    runs: Sequence[Run]
    """The last one is of the whole history, as far as the head."""
    resumed: Resumed | None = None
    offered: Sequence[str] = field(default_factory=list)
    """What is wrong with the exports that are offered, one for each run."""

    @property
    def now(self) -> Mapping[str, str]:
        """Balances after it."""
        return self.runs[-1].balances

    @property
    def as_it_should_be(self) -> bool:
        """Whether every check passed, or every offered export was refused.

        And whether a fold from a checkpoint says what the one from the first group says.
        """
        passed = [check.passed for run in self.runs for check in run.checks]
        if self.offered:
            return not any(passed) and all(run.fault is not None for run in self.runs)
        balance = self.resumed.balance if self.resumed else self.runs[0].balances[ACCOUNT]
        return all(passed) and balance == self.runs[0].balances[ACCOUNT]


def history_folder() -> Path:
    """Return the folder of the history. Raises InputError where there is no source checkout."""
    folder = Path(amends_pipeline.__file__).parents[1] / HISTORY
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        raise InputError(
            f"{HISTORY}",
            expected="the files of the demo, which are part of the source checkout",
            found=f"no {', '.join(missing)}; run `amends demo` from a checkout",
        )
    return folder


def played(journal: BankJournal, folder: Path) -> Iterator[Stage]:
    """Open the stream in an empty journal, then play stage after stage.

    Raises OperationError when a run fails that should not, or a command is refused.
    """
    # Nothing of it reaches DAGSTER_HOME or AMENDS_HOME: the demo leaves the user's runs alone.
    with (
        TemporaryDirectory(prefix="amends-demo-") as home,
        dg.DagsterInstance.ephemeral(settings={"telemetry": {"enabled": False}}) as instance,
    ):
        yield from _Story(journal, folder, Path(home), instance).stages()


class _Story:
    """The stream, and what is needed to play it."""

    def __init__(
        self, journal: BankJournal, folder: Path, home: Path, instance: dg.DagsterInstance
    ) -> None:
        accounts, context, self._groups = (
            json.loads((folder / name).read_bytes()) for name in FILES
        )
        head = context["head"]
        self._stream = Stream(head["stream_id"], head["ledger_id"], head["entity_id"])
        self._journal, self._instance, self._home = journal, instance, home
        resource = bank_over(journal, home)
        self._folder = resource.folder(self._stream.stream_id)
        self._job = dg.Definitions(
            assets=[exporter, balances, checkpoints],
            asset_checks=[bank_verification],
            jobs=[FOLD_BANK],
            resources={"bank": resource},
            executor=dg.in_process_executor,
        ).resolve_job_def(FOLD_BANK.name)
        opened = open_stream(journal, self._stream, accounts)
        if isinstance(opened, Rejection):
            raise _refused(opened)
        instance.add_dynamic_partitions(LEDGER_STREAM, [self._stream.stream_id])

    def stages(self) -> Iterator[Stage]:
        funding, payment, correction, fee = self._groups
        posted = [self._post(funding), self._post(payment)]
        cutoff = {"effective_cutoff": OCTOBER_20}
        first = self._run(balances=cutoff, checkpoints={"every_journals": 0})
        yield Stage("Ada's account is funded, and she pays Ben", posted, {}, [first])

        corrected = self._correct(correction)
        receipt = corrected.available_at
        runs = [
            self._run(balances={"knowledge_cutoff": _millisecond_before(receipt)}),
            self._again(balances={"knowledge_cutoff": receipt}),
            self._again(),
        ]
        title = "The payment is corrected: it was to Cora, and of 24.00"
        yield Stage(title, [corrected], first.balances, runs)

        charged = self._post(fee)
        was = runs[-1].balances
        resumed = self._resumed()
        runs = [self._run(balances=cutoff), self._again()]
        title = "A fee is charged on 23 October, which the end of 20 October does not see"
        yield Stage(title, [charged], was, runs, resumed)

        damages = {"one group is missing": _drop_a_group, "an amount is forged": _forge_an_amount}
        was = runs[-1].balances
        runs = [self._offered(damage) for damage in damages.values()]
        yield Stage("Two exports are offered that are not whole", (), was, runs, None, [*damages])

    # Posting

    def _post(self, group: Mapping[str, Any]) -> Group:
        return _made(post(self._journal, self._stream.stream_id, group["journals"][0]["command"]))

    def _correct(self, group: Mapping[str, Any]) -> Group:
        reversal, replacement = (journal["command"] for journal in group["journals"])
        booked = correct(
            self._journal,
            self._stream.stream_id,
            group["correction"],
            replacement,
            reversal_business_operation_id=reversal["business_operation_id"],
        )
        return _made(booked)

    # Runs

    def _run(self, **config: Mapping[str, object]) -> Run:
        """Run the whole job; `config` is by name of the step."""
        return self._told(self._executed(config))

    def _again(self, **config: Mapping[str, object]) -> Run:
        """Make the balances anew from the export that is there."""
        return self._told(self._executed(config, [BANK_BALANCES.key]))

    def _executed(
        self,
        config: Mapping[str, Mapping[str, object]],
        assets: Sequence[dg.AssetKey] | None = None,
    ) -> dg.ExecuteInProcessResult:
        ops = {step: {"config": dict(given)} for step, given in config.items()}
        return self._job.execute_in_process(
            partition_key=self._stream.stream_id,
            instance=self._instance,
            run_config={"ops": ops, **QUIET},
            asset_selection=assets,
            raise_on_error=False,
        )

    def _told(self, result: dg.ExecuteInProcessResult) -> Run:
        if not result.success:
            raise failed(result)
        [told] = [
            event.step_materialization_data.materialization.metadata
            for event in result.get_asset_materialization_events()
            if event.asset_key == BANK_BALANCES.key
        ]
        rows = _rows(told["balances"])
        return Run(
            result.run_id,
            str(told["effective_cutoff"].value),
            str(told["knowledge_cutoff"].value),
            str(told["visible_through_sequence"].value),
            {row["account_id"]: row["normal_balance_minor"] for row in rows},
            _rows(told["statement"]),
            _checks(result),
            None,
        )

    def _offered(self, damage: Callable[[list[bytes]], None]) -> Run:
        """Offer a damaged copy of the last export that was valid."""
        with TemporaryDirectory(dir=self._home) as offered:
            for path in (self._folder / KEPT).iterdir():
                (Path(offered) / path.name).write_bytes(path.read_bytes())
            groups = Path(offered) / "groups.jsonl"
            lines = groups.read_bytes().splitlines(keepends=True)
            damage(lines)
            groups.write_bytes(b"".join(lines))
            result = self._executed({"exporter": {"folder": offered}})
        for evaluation in result.get_asset_check_evaluations():
            if evaluation.check_name == BANK_EXPORT_IS_COMPLETE.name:
                faults = _rows(evaluation.metadata["fault"])
                fault = faults[0] if faults else None
                return Run(result.run_id, "", "", "", {}, (), _checks(result), fault)
        raise failed(result)

    def _resumed(self) -> Resumed:
        """Fold what came after the checkpoint of the first stage, and nothing before it."""
        stream_id = self._stream.stream_id
        first = self._journal.checkpoints(stream_id)[0]
        kept = self._journal.checkpoint_set(stream_id, first)
        with reading(self._journal, stream_id) as export:
            [entry] = registry([Wanted(kept, [ACCOUNT])])(export.snapshot)
            through = int(entry.checkpoint.through_sequence)
            suffix = [
                plain(group) for group in export.groups if int(group.journals[0].sequence) > through
            ]
            query = {
                "schema_version": QUERY_VERSION,
                "ledger_id": export.head.ledger_id,
                "entity_id": export.head.entity_id,
                "account_id": ACCOUNT,
                "currency": entry.checkpoint.currency,
                "effective_cutoff": kept.effective_cutoff,
                "knowledge_cutoff": export.head.observed_at,
                "checkpoint": plain(entry.checkpoint),
            }
            accounts = [plain(account) for account in export.accounts]
            context = {"head": plain(export.head), "checkpoint_registry": [plain(entry)]}
        answer = fold_balance(query, suffix, accounts, context)
        if answer["status"] != "ok":
            raise OperationError("fold from a checkpoint", expected="ok", found=answer["code"])
        return Resumed(
            entry.checkpoint.checkpoint_id,
            str(-int(entry.checkpoint.raw_balance_minor)),
            len(suffix),
            answer["balance"]["normal_balance_minor"],
            kept.effective_cutoff,
        )


def _made(booked: Booking | Rejection) -> Group:
    if isinstance(booked, Rejection):
        raise _refused(booked)
    return booked.group


def _refused(rejection: Rejection) -> OperationError:
    return OperationError("demo of the bank", expected="a command", found=str(rejection))


def _rows(value: dg.MetadataValue[Any]) -> list[Mapping[str, str]]:
    if not isinstance(value, dg.TableMetadataValue):
        return []
    return [{name: str(cell) for name, cell in record.data.items()} for record in value.records]


def _checks(result: dg.ExecuteInProcessResult) -> list[Check]:
    return [
        Check(each.check_name, each.passed, each.description or "")
        for each in result.get_asset_check_evaluations()
    ]


def _millisecond_before(timestamp: str) -> str:
    moved = datetime.fromisoformat(timestamp) - timedelta(milliseconds=1)
    return f"{moved.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


def _drop_a_group(lines: list[bytes]) -> None:
    del lines[1]


def _forge_an_amount(lines: list[bytes]) -> None:
    """Change both legs of the last journal, so that in itself nothing is wrong with it."""
    group = msgspec.json.decode(lines[-1])
    for leg in group["journals"][0]["command"]["legs"]:
        leg["amount_minor"] = "50"
    lines[-1] = msgspec.json.encode(group) + b"\n"
