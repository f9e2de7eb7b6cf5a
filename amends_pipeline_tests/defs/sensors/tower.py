"""An office whose sensors are asked by hand, and the records that wait in it."""

from __future__ import annotations

from dataclasses import dataclass, field

import dagster as dg
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)

from amends_pipeline.defs.inventory import sensors
from amends_pipeline.defs.resources import resource_over
from amends_pipeline.flows.drain import Options, drain_unit
from amends_pipeline.ports import Unit
from amends_pipeline_tests.defs.conftest import Office

MAIN = Unit("main", 0)
ORIGIN = RemoteJobOrigin(
    RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("amends"), "repository"), "refold"
)
"""Dagster queues no run without one."""
A = "A r1 NEW day 1 -50"
B = "B r1 NEW day 2 -20"


@dataclass
class Tower(Office):
    """An office whose sensors are asked by hand, at a time that the test sets."""

    now: float = 0.0
    cursors: dict[str, str | None] = field(default_factory=dict)

    @property
    def cursor(self) -> str | None:
        """The one of `new_records`."""
        return self.cursors.get(sensors.new_records.name)

    @cursor.setter
    def cursor(self, text: str | None) -> None:
        self.cursors[sensors.new_records.name] = text

    def tick(self, sensor=sensors.new_records, resource=None) -> dg.SensorResult:
        context = dg.build_sensor_context(
            instance=self.instance,
            cursor=self.cursors.get(sensor.name),
            resources={"ledger": resource or resource_over(self.ledger)},
        )
        result = sensor(context)
        if isinstance(result, dg.SkipReason):
            return dg.SensorResult(skip_reason=result)
        # As the daemon does with it
        self.cursors[sensor.name] = result.cursor or self.cursors.get(sensor.name)
        for request in result.dynamic_partitions_requests or ():
            name, keys = request.partitions_def_name, list(request.partition_keys)
            if isinstance(request, dg.DeleteDynamicPartitionsRequest):
                for key in keys:
                    self.instance.delete_dynamic_partition(name, key)
            else:
                self.instance.add_dynamic_partitions(name, keys)
        return result

    def asked(self, sensor=sensors.new_records) -> list[str]:
        """The run keys of a tick."""
        return [each.run_key for each in self.tick(sensor).run_requests]

    def reason(self, sensor=sensors.new_records) -> str:
        """Why a tick asked for nothing."""
        result = self.tick(sensor)
        assert result.run_requests == []
        return result.skip_reason.skip_message

    def launch(self, sensor=sensors.new_records, *, status=None, error=None) -> list[str]:
        """Make the runs of a tick; each gets the status, or none and fails with the error."""
        made = []
        for request in self.tick(sensor).run_requests:
            tags = {**request.tags, "dagster/run_key": request.run_key}
            if request.partition_key:
                tags["dagster/partition"] = str(request.partition_key)
            run = self.instance.create_run_for_job(
                self.definitions.resolve_job_def("refold"),
                tags=tags,
                status=status or dg.DagsterRunStatus.STARTED,
                remote_job_origin=ORIGIN,
            )
            if error is not None:
                self.instance.report_run_failed(run, error)
            made.append(run.run_id)
        return made

    def drain(self, unit: Unit = MAIN) -> None:
        source = self.ledger.source(self.ledger.store.info(unit.namespace).source)
        drain_unit(self.ledger, unit, source.extents()[unit.partition].end, Options(holder="x"))
