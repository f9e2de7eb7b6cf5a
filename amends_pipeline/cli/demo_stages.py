"""The worked correction, stage by stage: append, then one Dagster run of the real assets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import dagster as dg

import amends_pipeline
from amends_pipeline.defs.catalog import SOURCE_LOG
from amends_pipeline.defs.inventory.assets import relay, view, worker
from amends_pipeline.defs.inventory.checks import VIEW_EQUALS_ORACLE, verification
from amends_pipeline.defs.partitions import register, unit_key
from amends_pipeline.defs.resources import resource_over
from amends_pipeline.flows.append import Line, append
from amends_pipeline.flows.provision import provision
from amends_pipeline.inventory.config import NamespaceConfig
from amends_pipeline.inventory.envelope import STATUS_DAY, Encoder, Envelope, Type
from amends_pipeline.kernel import strict_json
from amends_pipeline.kernel.errors import InputError, OperationError
from amends_pipeline.kernel.instants import day_text
from amends_pipeline.ports import Ledger, Unit
from amends_pipeline.store.server import redact

SEED = Path("fixtures", "inventory", "seed")
"""Where the records are, below the source checkout."""
STAGES = (
    ("Three days of history", "before.jsonl"),
    ("The first day's issue is amended from 50 to 30 units", "correction.jsonl"),
    ("The last day's receipt is cancelled", "cancel-last-day.jsonl"),
)
PARTITION = 0
QUIET: Mapping[str, Any] = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


class Day(NamedTuple):
    """What readers see of a day: a close, None where there is none, and whether it is an alert."""

    close: int | None
    alert: bool


class DayChange(NamedTuple):
    """A day before and after a stage."""

    item: str
    location: str
    day: str
    was: Day
    now: Day


class Verdict(NamedTuple):
    """What the check of a run said."""

    status: str
    accepted: bool
    says: str


@dataclass(frozen=True, slots=True)
class Stage:
    """What one stage did."""

    title: str
    file: str
    records: int
    run_id: str
    days: Sequence[DayChange]
    envelopes: Sequence[Mapping[str, Any]]
    """What was committed in this stage, in the order of the outbox, as on the wire."""
    first_sequence: int
    source_end: int
    worker_next: int
    output_end: int
    view_next: int
    verdict: Verdict


def seed_folder() -> Path:
    """Return the folder of the records. Raises InputError where there is no source checkout."""
    folder = Path(amends_pipeline.__file__).parents[1] / SEED
    missing = [name for name in ("config.json", *_files()) if not (folder / name).is_file()]
    if missing:
        raise InputError(
            f"{SEED}",
            expected="the files of the demo, which are part of the source checkout",
            found=f"no {', '.join(missing)}; run `amends demo` from a checkout",
        )
    return folder


def played(ledger: Ledger, config: NamespaceConfig, folder: Path) -> Iterator[Stage]:
    """Provision the namespace in an empty ledger, then play stage after stage.

    Raises OperationError when a run fails.
    """
    unit = Unit(config.namespace, PARTITION)
    provision(ledger, config)
    definitions = dg.Definitions(
        assets=[SOURCE_LOG, worker, relay, view],
        asset_checks=[verification],
        resources={"ledger": resource_over(ledger)},
        executor=dg.in_process_executor,
    )
    # All assets with their checks, as a backfill runs them.
    job = definitions.resolve_implicit_global_asset_job_def()
    # Nothing of it reaches DAGSTER_HOME: the demo leaves the user's runs alone.
    with dg.DagsterInstance.ephemeral(settings={"telemetry": {"enabled": False}}) as instance:
        register(instance, ledger.store.info(config.namespace))
        for title, file in STAGES:
            lines = _lines(folder / file)
            before, sequence = _days(ledger, config), ledger.store.progress(unit).next_sequence
            append(ledger, config.namespace, lines)
            result = job.execute_in_process(
                partition_key=unit_key(unit),
                instance=instance,
                run_config={"ops": {"worker": {"config": {"slice_records": 1}}}, **QUIET},
                raise_on_error=False,
            )
            if not result.success:
                raise failed(result)
            progress = ledger.store.progress(unit)
            yield Stage(
                title,
                file,
                len(lines),
                result.run_id,
                _changes(before, _days(ledger, config)),
                _committed(ledger, config, unit, sequence),
                sequence,
                ledger.source(config.source).extents()[PARTITION].end,
                progress.next_offset,
                ledger.outputs.end(unit),
                progress.view_next,
                _verdict(result),
            )


def _files() -> list[str]:
    return [file for _, file in STAGES]


def _lines(path: Path) -> list[Line]:
    return [
        Line(path.name, number, value)
        for number, value in enumerate(path.read_bytes().splitlines(), 1)
    ]


_Place = tuple[str, str, str]


def _days(ledger: Ledger, config: NamespaceConfig) -> dict[_Place, Day]:
    """What readers see now, by item, location and day."""
    days: dict[_Place, Day] = {}
    with ledger.store.snapshot(config.namespace) as snapshot:
        for row in snapshot.visible():
            if row.day != STATUS_DAY:
                place = (*config.keys[row.key].stock_key, day_text(row.day))
                days[place] = _with(days.get(place, Day(None, alert=False)), row)
    return days


def _with(day: Day, row: Envelope) -> Day:
    return (
        day._replace(alert=True) if row.type == Type.ALERT_RAISED else day._replace(close=row.close)
    )


def _changes(before: Mapping[_Place, Day], after: Mapping[_Place, Day]) -> list[DayChange]:
    nothing = Day(None, alert=False)
    return [
        DayChange(*place, before.get(place, nothing), after.get(place, nothing))
        for place in sorted(before.keys() | after.keys())
    ]


def _committed(
    ledger: Ledger, config: NamespaceConfig, unit: Unit, sequence: int
) -> list[Mapping[str, Any]]:
    encoder = Encoder(config, unit.partition)
    documents = [
        strict_json.loads(encoder.encode(envelope))
        for at, _, envelope in ledger.store.outbox(unit)
        if at >= sequence
    ]
    return [document for document in documents if isinstance(document, dict)]


def _verdict(result: dg.ExecuteInProcessResult) -> Verdict:
    for evaluation in result.get_asset_check_evaluations():
        if evaluation.check_name == VIEW_EQUALS_ORACLE.name:
            status = str(evaluation.metadata["status"].value)
            return Verdict(status, evaluation.passed, evaluation.description or "")
    raise OperationError(
        f"Dagster run {result.run_id}",
        expected=f"a verdict of {VIEW_EQUALS_ORACLE.name}",
        found="none",
    )


def failed(result: dg.ExecuteInProcessResult) -> OperationError:
    """Tell why a run failed, in the words of the step that did."""
    found = "one that failed"
    for event in result.filter_events(lambda event: event.is_step_failure):
        data = event.step_failure_data
        told = data.user_failure_data
        if told is not None and told.description:
            found = told.description
        elif data.error is not None:
            found = data.error.message.strip()
        break
    return OperationError(
        f"Dagster run {result.run_id}", expected="a run that succeeds", found=redact(found)
    )
