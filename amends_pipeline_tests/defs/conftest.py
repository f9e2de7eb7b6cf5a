"""Units, runs and verdicts of Dagster, over a ledger in memory or on PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import psycopg
import pytest
from dagster._core.storage.event_log import in_memory as events_in_memory
from dagster._core.storage.runs import in_memory as runs_in_memory

from amends_pipeline.defs.catalog import MATERIALIZED_VIEW, SOURCE_LOG
from amends_pipeline.defs.inventory.administration import provision_namespace, remove_namespace
from amends_pipeline.defs.inventory.assets import relay, view, worker
from amends_pipeline.defs.inventory.checks import verification
from amends_pipeline.defs.jobs import REFOLD, VERIFY
from amends_pipeline.defs.partitions import register
from amends_pipeline.defs.resources import resource_over
from amends_pipeline.flows.append import Line, append
from amends_pipeline.flows.provision import provision
from amends_pipeline.inventory.config import load_configuration, parse_configuration
from amends_pipeline.inventory.envelope import Encoder, Family, OutputId
from amends_pipeline.ports import Unit
from amends_pipeline_tests.contracts.ledgers import MemoryLedger, TableLedger
from amends_pipeline_tests.tables import configuration, history

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
EXECUTE_ALL = dg.define_asset_job(
    "execute_all", selection=dg.AssetSelection.checks_for_assets(MATERIALIZED_VIEW.key)
)
SEED = Path(__file__).parents[2] / "fixtures/inventory/seed"


@dataclass(frozen=True)
class Run:
    """What became of a run."""

    result: Any

    @property
    def success(self) -> bool:
        return self.result.success

    def told(self, asset: str) -> dict[str, Any]:
        """Metadata of an asset's materialization."""
        [materialization] = [
            event.step_materialization_data.materialization
            for event in self.result.get_asset_materialization_events()
            if event.asset_key == dg.AssetKey(asset)
        ]
        return materialization.metadata

    def value(self, asset: str, key: str) -> Any:
        return self.told(asset)[key].value

    @property
    def materialized(self) -> list[str]:
        events = self.result.get_asset_materialization_events()
        return [event.asset_key.to_user_string() for event in events]

    @property
    def steps(self) -> list[str]:
        """The steps that began."""
        return [event.step_key for event in self.result.all_events if event.is_step_start]

    def check(self, name: str = "view_equals_oracle") -> dg.AssetCheckEvaluation:
        [evaluation] = [
            each for each in self.result.get_asset_check_evaluations() if each.check_name == name
        ]
        return evaluation

    def failure(self, step: str) -> Any:
        """The failure of a step: (description, metadata)."""
        data = self.result.failure_data_for_node(step)
        return data.user_failure_data.description, {
            key: value.value for key, value in data.user_failure_data.metadata.items()
        }


def rows(value: dg.TableMetadataValue) -> list[tuple]:
    """The cells of a table, row by row."""
    return [tuple(record.data.values()) for record in value.records]


@dataclass
class Office:
    """A ledger, a Dagster instance, and the definitions between them."""

    ledger: Any
    instance: dg.DagsterInstance

    @property
    def definitions(self) -> dg.Definitions:
        return dg.Definitions(
            assets=[SOURCE_LOG, worker, relay, view],
            asset_checks=[verification],
            jobs=[REFOLD, VERIFY, provision_namespace, remove_namespace, EXECUTE_ALL],
            resources={"ledger": resource_over(self.ledger)},
            executor=dg.in_process_executor,
        )

    def provision(self, document=None, path=None) -> None:
        config = load_configuration(path) if path else parse_configuration(document)
        provision(self.ledger, config)
        register(self.instance, self.ledger.store.info(config.namespace))

    def append(self, text: str, namespace: str = "main") -> None:
        """Append the records of a table."""
        lines = [Line("table", at, line.value) for at, line in enumerate(history(text))]
        append(self.ledger, namespace, lines)

    def append_file(self, path: Path, namespace: str = "main") -> None:
        lines = path.read_bytes().splitlines()
        append(self.ledger, namespace, [Line(path.name, at, each) for at, each in enumerate(lines)])

    def refold(self, unit: str = "main|p0", **config) -> Run:
        """Run the job `refold` for a unit; `config` is the worker's."""
        return self._worked(self.definitions.resolve_job_def("refold"), unit, config)

    def backfill(self, unit: str = "main|p0", **config) -> Run:
        """Materialize a unit with all checks, as a backfill does."""
        return self._worked(self.definitions.resolve_implicit_global_asset_job_def(), unit, config)

    def _worked(self, job: dg.JobDefinition, unit: str, config: dict[str, Any]) -> Run:
        config = {name: value for name, value in config.items() if value is not None}
        return self.executed(job, {"worker": {"config": config}}, partition_key=unit)

    def verify(self, unit: str | None = "main|p0", tags: dict[str, str] | None = None) -> Run:
        """Run the job `verify`, for a unit or for none."""
        job = self.definitions.resolve_job_def("verify")
        return self.executed(job, {}, partition_key=unit, tags=tags)

    def execute_all(self) -> Run:
        """Run both checks of the view without a partition, as a button of the UI does."""
        return self.executed(self.definitions.resolve_job_def("execute_all"), {})

    def administer(self, job: str, **config: Any) -> Run:
        """Run one of the jobs that make and remove namespaces."""
        definition = self.definitions.resolve_job_def(job)
        [op] = definition.graph.node_dict
        return self.executed(definition, {op: {"config": config}})

    def executed(self, job: dg.JobDefinition, ops: dict[str, Any], **arguments: Any) -> Run:
        result = job.execute_in_process(
            instance=self.instance,
            run_config={"ops": ops, **QUIET},
            raise_on_error=False,
            **arguments,
        )
        return Run(result)

    def shown(self, check: str) -> list[Any]:
        """Executions of a check of the view, as the UI lists them, the latest first."""
        return self.instance.event_log_storage.get_asset_check_execution_history(
            check_key=dg.AssetCheckKey(MATERIALIZED_VIEW.key, check), limit=100
        )

    # What goes wrong in a store

    def plant(self, statement: str, *parameters: int, memory: Callable[[Any], None]) -> None:
        """Spoil what is stored: by SQL, or in the tables of a ledger in memory."""
        if isinstance(self.ledger, MemoryLedger):
            memory(self.ledger.tables)
            return
        with psycopg.connect(self.ledger.url) as connection:
            assert connection.execute(statement, parameters).rowcount > 0

    def lose_first_segment(self, unit: Unit) -> None:
        """Lose the first segment of an outbox."""

        def memory(tables) -> None:
            del tables.unit(unit).outbox[0]

        self.plant("DELETE FROM amends.outbox_segment WHERE base = 0", memory=memory)

    def add_to_balance(self, unit: Unit, day: int, amount: int) -> None:
        """Change a balance of key 0 in the view, behind everybody's back."""

        def memory(tables) -> None:
            output = OutputId(Family.BALANCE, 0, day)
            row = tables.unit(unit).view[output]
            tables.unit(unit).view[output] = row._replace(close=row.close + amount)

        statement = (
            "UPDATE amends.view_row SET close = close + %s"
            " WHERE family = 2 AND key = 0 AND day = %s"
        )
        self.plant(statement, amount, day, memory=memory)

    # What is there

    def outbox(self, unit) -> list[dict]:
        encoder = Encoder(self.ledger.store.config(unit.namespace), unit.partition)
        return [json.loads(encoder.encode(each)) for _, _, each in self.ledger.store.outbox(unit)]


@pytest.fixture
def instance():
    """Dagster in memory. It is never migrated, so nobody loads its migrations to stamp it."""
    with pytest.MonkeyPatch.context() as patch:
        for storage in (events_in_memory, runs_in_memory):
            patch.setattr(storage, "stamp_alembic_rev", lambda *_: None)
        made = dg.DagsterInstance.ephemeral()
    with made as instance:
        yield instance


@pytest.fixture
def ledger(request):
    """In memory, unless the test asks for `postgres` by its parameter."""
    if getattr(request, "param", "memory") == "memory":
        yield MemoryLedger()
        return
    with ExitStack() as opened:
        tables = TableLedger(request.getfixturevalue("tables_url"), opened)
        yield tables
    tables.empty()


on_both = pytest.mark.parametrize("ledger", ["memory", "postgres"], indirect=True)
"""For tests of what a run does to the ledger, whatever it is made of."""


@pytest.fixture
def office(ledger, instance):
    """An office without a namespace."""
    return Office(ledger, instance)


@pytest.fixture
def main(office):
    """An office with the namespace `main`: keys a and b at 100, threshold 60, one partition."""
    office.provision(configuration())
    return office
