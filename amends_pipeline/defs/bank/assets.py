"""The steps of a run of the bank ledger: export, balances and checkpoints of one ledger stream."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import dagster as dg
from pydantic import Field

from amends_pipeline.bank.codes import Rejection
from amends_pipeline.defs.bank import table
from amends_pipeline.defs.bank.checks import BANK_EXPORT_IS_COMPLETE, judge_export, no_export
from amends_pipeline.defs.bank.metadata import of_balances, of_checkpoints, of_export, of_history
from amends_pipeline.defs.bank.pictured import busiest
from amends_pipeline.defs.catalog import BANK_BALANCES, BANK_CHECKPOINTS, BANK_EXPORT, BANK_HISTORY
from amends_pipeline.defs.inventory.failure import failing_clearly
from amends_pipeline.defs.resources import BankResource
from amends_pipeline.flows.bank_answer import answer
from amends_pipeline.flows.bank_checkpoints import keep
from amends_pipeline.flows.bank_take import KEPT, Taken, origin_of, take, trusted
from amends_pipeline.kernel.errors import AmendsError, InputError, UnknownStream
from amends_pipeline.ports.bank import BankJournal, CheckpointSet, KeptSet
from amends_pipeline.store.server import redact

EVERY_JOURNALS = 1_000
"""Checkpoints are kept after so many journals, unless somebody says otherwise."""

Results = Iterator[dg.MaterializeResult[None] | dg.AssetCheckResult]


# --- export and history


class Offer(dg.Config):
    """Which export is examined."""

    folder: str | None = Field(
        default=None,
        description=(
            "Folder with groups.jsonl, accounts.json and context.json of an export that somebody"
            " offers, to be examined in place of one of the live journal."
        ),
    )


@dg.multi_asset(
    name="exporter",
    description="Export the live journal of a ledger stream, or take an offered one; examine it.",
    specs=[BANK_EXPORT, BANK_HISTORY],
    check_specs=[BANK_EXPORT_IS_COMPLETE],
    can_subset=True,
)
def exporter(context: dg.AssetExecutionContext, config: Offer, bank: BankResource) -> Results:
    """A rejected export is a red check and ends the run; what was kept before stays there."""
    checked = BANK_EXPORT_IS_COMPLETE.key in context.selected_asset_check_keys
    try:
        taken = _taken(context.partition_key, config, bank)
    except AmendsError as error:
        if checked:
            yield no_export(redact(str(error)))
        with failing_clearly():
            raise
    version = dg.DataVersion(taken.origin.version(taken.head))
    if BANK_EXPORT.key in context.selected_asset_keys:
        checked = BANK_EXPORT_IS_COMPLETE.key in context.selected_asset_check_keys
        yield dg.MaterializeResult(
            asset_key=BANK_EXPORT.key,
            metadata=of_export(taken, config.folder),
            check_results=[judge_export(taken)] if checked else [],
            data_version=version,
        )
    if isinstance(taken.found, Rejection):
        raise _rejected(taken, taken.found)
    if BANK_HISTORY.key in context.selected_asset_keys:
        yield dg.MaterializeResult(
            asset_key=BANK_HISTORY.key, metadata=of_history(taken.found), data_version=version
        )


def _taken(stream_id: str, config: Offer, bank: BankResource) -> Taken:
    offered = None if config.folder is None else Path(config.folder)
    with bank.open() as journal:
        return take(journal, stream_id, bank.folder(stream_id), offered)


def _rejected(taken: Taken, rejection: Rejection) -> dg.Failure:
    return dg.Failure(
        str(rejection),
        metadata={"code": str(rejection.code), "folder": dg.MetadataValue.path(str(taken.folder))},
        allow_retries=False,
    )


# --- balances


class Moments(dg.Config):
    """At which moments balances are asked for, both inclusive."""

    effective_cutoff: str | None = Field(
        default=None,
        description=(
            "Economic moment, such as 2025-10-20T23:59:59.999Z. By default the one at which the"
            " head was observed."
        ),
    )
    knowledge_cutoff: str | None = Field(
        default=None,
        description="Up to which receipts count. By default the moment of the head as well.",
    )


@dg.multi_asset(
    name="balances",
    description="Fold the last valid export of a ledger stream for every account.",
    specs=[BANK_BALANCES],
)
def balances(context: dg.AssetExecutionContext, config: Moments, bank: BankResource) -> Results:
    """The fold validates the export once more, in the same pass."""
    with failing_clearly():
        folder = bank.folder(context.partition_key)
        export = _kept(folder)
        origin = origin_of(export)
        answers = answer(export, config.effective_cutoff, config.knowledge_cutoff)
        asked = [config.effective_cutoff or "", config.knowledge_cutoff or ""]
        version = "/".join([origin.version(answers.head), *(asked if any(asked) else [])])
        _, accounts = trusted(export)
        account = None if origin.busiest is None else accounts[origin.busiest]
        told = busiest(export, account, answers.cutoffs)
        before = table.read(folder)
        made = table.Table(version, answers.cutoffs, answers.coverage, answers.balances)
        path = table.write(folder, made)
    yield dg.MaterializeResult(
        asset_key=BANK_BALANCES.key,
        metadata=of_balances(made, before, told, path),
        data_version=dg.DataVersion(version),
    )


def _kept(folder: Path) -> Path:
    export = folder / KEPT
    if not export.is_dir():
        expected = "an export that was found valid; materialize bank_export"
        raise InputError(f"stream {folder.name}", expected=expected, found="none")
    return export


# --- checkpoints


class Spacing(dg.Config):
    """How often checkpoints are kept."""

    every_journals: int = Field(
        default=EVERY_JOURNALS,
        ge=0,
        description=(
            "After how many more journals a set is kept. The first one is always; 0 keeps every"
            " one."
        ),
    )


@dg.multi_asset(
    name="checkpoints",
    description="Keep the balances of a ledger stream for later folds to start from.",
    specs=[BANK_CHECKPOINTS],
)
def checkpoints(context: dg.AssetExecutionContext, config: Spacing, bank: BankResource) -> Results:
    """The prefix of a set is the stream's own history: it is named, and not kept again."""
    with failing_clearly():
        stream_id = context.partition_key
        folder = bank.folder(stream_id)
        made = table.read(folder)
        if made is None:
            expected = "balances; materialize bank_balances"
            raise InputError(f"stream {stream_id}", expected=expected, found="none")
        wanted = CheckpointSet(
            int(made.coverage["visible_through_sequence"]),
            made.cutoffs.effective,
            str(made.coverage["receipt_ref"]),
            {row["account_id"]: int(row["raw_balance_minor"]) for row in made.rows},
        )
        with bank.open() as journal:
            sets = _sets(journal, stream_id)
            why_not = _not_kept(made, wanted, sets, config.every_journals)
            if not why_not:
                keep(journal, stream_id, wanted)
                sets = _sets(journal, stream_id)
    note = why_not or f"A set was kept, after sequence {wanted.through_sequence}."
    yield dg.MaterializeResult(
        asset_key=BANK_CHECKPOINTS.key,
        metadata=of_checkpoints(note, None if why_not else wanted, sets),
        data_version=dg.DataVersion(made.version),
    )


def _not_kept(
    made: table.Table, wanted: CheckpointSet, sets: Sequence[KeptSet], every_journals: int
) -> str:
    """Say why a set is not kept; nothing where it is."""
    if "/offered/" in made.version:
        return "Nothing was kept: the export is not of the live journal."
    latest = max((each.through_sequence for each in sets), default=None)
    if latest is None or wanted.through_sequence >= latest + every_journals:
        return ""
    return (
        f"Nothing was kept: there is a set after sequence {latest}, and the next one comes"
        f" {every_journals} journals later."
    )


def _sets(journal: BankJournal, stream_id: str) -> Sequence[KeptSet]:
    try:
        return journal.checkpoints(stream_id)
    except UnknownStream:  # it is kept elsewhere
        return []
