"""What is checked: an export before anything comes of it, balances against oracle and zero."""

import traceback
from collections.abc import Callable, Iterator
from typing import Any

import dagster as dg

from amends_pipeline.bank.codes import Rejection
from amends_pipeline.bank.verify import Folded
from amends_pipeline.defs.bank import table, verdict
from amends_pipeline.defs.catalog import BANK_BALANCES, BANK_EXPORT
from amends_pipeline.defs.inventory.verification import of_run, yielded
from amends_pipeline.defs.partitions import STREAMS
from amends_pipeline.defs.pinned import known_features
from amends_pipeline.defs.resources import BankResource
from amends_pipeline.flows.bank_answer import verify
from amends_pipeline.flows.bank_take import KEPT, Taken, origin_of, trusted
from amends_pipeline.kernel.errors import AmendsError
from amends_pipeline.store.server import redact

with known_features():
    BANK_EXPORT_IS_COMPLETE = dg.AssetCheckSpec(
        "bank_export_is_complete",
        asset=BANK_EXPORT.key,
        description=(
            "The export is valid from its first sequence through its head, and continues every head"
            " that is remembered. The code of the first fault is the result. No balance comes of an"
            " export that is rejected."
        ),
        blocking=True,
        partitions_def=STREAMS,
    )
    BANK_BALANCES_AGREE = dg.AssetCheckSpec(
        "bank_balances_agree",
        asset=BANK_BALANCES.key,
        description=(
            "Every balance in the file agrees with what DuckDB adds up from the raw export alone,"
            " at the same cutoffs. Statuses: PASS, DRIFT, INCOMPLETE, ERROR."
        ),
        blocking=False,
        partitions_def=STREAMS,
    )
    BANK_TRIAL_BALANCE_IS_ZERO = dg.AssetCheckSpec(
        "bank_trial_balance_is_zero",
        asset=BANK_BALANCES.key,
        description=(
            "The raw balances in the file add up to zero in every currency, and so do the debits"
            " and credits that DuckDB finds in the raw export."
        ),
        blocking=False,
        partitions_def=STREAMS,
    )


def judge_export(taken: Taken) -> dg.AssetCheckResult:
    """Show the examination of an export."""
    found = taken.found
    if isinstance(found, Rejection):
        return _of_export(verdict.rejected(found, taken))
    return _of_export(verdict.complete(found, taken))


def no_export(error: str) -> dg.AssetCheckResult:
    """Show why there is no export to examine."""
    return _of_export(verdict.no_export(error))


def _of_export(result: dg.AssetCheckResult) -> dg.AssetCheckResult:
    spec = BANK_EXPORT_IS_COMPLETE
    return result._replace(check_name=spec.name, asset_key=spec.asset_key)


@dg.multi_asset_check(
    name="bank_verification",
    specs=[BANK_BALANCES_AGREE, BANK_TRIAL_BALANCE_IS_ZERO],
    can_subset=True,
)
def bank_verification(context: dg.AssetCheckExecutionContext, bank: BankResource) -> Iterator[Any]:
    """Both look at one report. Whatever happens becomes a verdict: what raises shows nothing."""
    selected = context.selected_asset_check_keys
    looked = _looked(context, bank)
    for spec, shown in (
        (BANK_BALANCES_AGREE, verdict.agreement),
        (BANK_TRIAL_BALANCE_IS_ZERO, verdict.trial_balance),
    ):
        if spec.key not in selected:
            continue
        yield from yielded(context, spec, of_run(context.run, shown(looked)))


def _looked(
    context: dg.AssetCheckExecutionContext, bank: BankResource
) -> verdict.Judged | verdict.Unjudged:
    if not context.has_partition_key:  # as "Execute all" in the UI starts it
        return verdict.without_stream()
    return _never_raising(lambda: _judged(str(context.partition_key), bank), context.log)


def _judged(stream_id: str, bank: BankResource) -> verdict.Judged | verdict.Unjudged:
    folder = bank.folder(stream_id)
    export = folder / KEPT
    made = table.read(folder)
    if made is None or not export.is_dir():
        return verdict.nothing_there(stream_id)
    head, _ = trusted(export)
    version = origin_of(export).version(head)
    if not f"{made.version}/".startswith(f"{version}/"):
        return verdict.of_another_export(made.version, version)
    answers = [_folded(made, currency) for currency in made.currencies]
    return verdict.Judged(made, verify(export, answers, made.cutoffs))


def _folded(made: table.Table, currency: str) -> Folded:
    rows = [dict(row) for row in made.rows if row["currency"] == currency]
    result: dict[str, object] = {
        "status": "ok",
        "code": "",
        "coverage": made.coverage,
        "balances": rows,
    }
    return Folded(currency, result)


def _never_raising(
    work: Callable[[], verdict.Judged | verdict.Unjudged], log: dg.DagsterLogManager
) -> verdict.Judged | verdict.Unjudged:
    try:
        return work()
    except AmendsError as error:
        return verdict.failed(redact(str(error)))
    except Exception as error:  # noqa: BLE001 - a check that raises shows nothing
        log.error("%s", redact(traceback.format_exc()))  # noqa: TRY400 - without passwords
        return verdict.failed(f"{type(error).__name__}: {redact(str(error))}")
