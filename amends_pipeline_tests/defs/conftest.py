"""Units, runs and verdicts of Dagster, over a ledger in memory or on PostgreSQL."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from amends_pipeline.defs.catalog import SOURCE_LOG
from amends_pipeline.defs.inventory.assets import relay, view, worker
from amends_pipeline.defs.inventory.checks import view_equals_oracle
from amends_pipeline.defs.jobs import REFOLD, VERIFY
from amends_pipeline.defs.partitions import register
from amends_pipeline.defs.resources import resource_over
from amends_pipeline.flows.append import Line, append
from amends_pipeline.flows.provision import provision
from amends_pipeline.inventory.config import load_configuration, parse_configuration
from amends_pipeline_tests.contracts.ledgers import MemoryLedger
from amends_pipeline_tests.tables import configuration, history

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
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
    config: dict[str, Any] = field(default_factory=dict)

    @property
    def definitions(self) -> dg.Definitions:
        return dg.Definitions(
            assets=[SOURCE_LOG, worker, relay, view],
            asset_checks=[view_equals_oracle],
            jobs=[REFOLD, VERIFY],
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
        config = {name: value for name, value in config.items() if value is not None}
        job = self.definitions.resolve_job_def("refold")
        result = job.execute_in_process(
            partition_key=unit,
            instance=self.instance,
            run_config={"ops": {"worker": {"config": config}}, **QUIET},
            raise_on_error=False,
        )
        return Run(result)

    def verify(self, unit: str | None = "main|p0") -> Run:
        """Run the job `verify`, for a unit or for none."""
        tags = {} if unit is None else {"dagster/partition": unit}
        job = self.definitions.resolve_job_def("verify")
        return Run(
            job.execute_in_process(
                instance=self.instance, tags=tags, run_config=QUIET, raise_on_error=False
            )
        )

    def outbox(self, unit) -> list[dict]:
        from amends_pipeline.inventory.envelope import Encoder

        encoder = Encoder(self.ledger.store.config(unit.namespace), unit.partition)
        return [json.loads(encoder.encode(each)) for _, _, each in self.ledger.store.outbox(unit)]


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture(params=["memory"])
def ledger(request):
    return MemoryLedger()


@pytest.fixture
def office(ledger, instance):
    """An office without a namespace."""
    return Office(ledger, instance)


@pytest.fixture
def main(office):
    """An office with the namespace `main`: keys a and b at 100, threshold 60, one partition."""
    office.provision(configuration())
    return office
