from __future__ import annotations

import os
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import dagster as dg
from dagster._core.run_coordinator import QueuedRunCoordinator
from dagster._utils.tags import TagConcurrencyLimitsCounter

from amends_pipeline.definitions import defs
from amends_pipeline.defs.inventory.runs import tags_of
from amends_pipeline.defs.partitions import STREAMS, UNITS
from amends_pipeline.flows.automation import Request

ROOT = Path(__file__).parents[2]
CHAIN = [
    "source_log",
    "source_evidence",
    "projections",
    "committed_outbox",
    "output_log",
    "materialized_view",
    "open_reorders",
]


BANK_CHAIN = ["bank_export", "bank_history", "bank_balances", "bank_checkpoints"]


def specs() -> dict[str, dg.AssetSpec]:
    return {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}


def test_the_definitions_can_be_loaded():
    dg.Definitions.validate_loadable(defs)


def test_each_asset_follows_from_the_one_before_it():
    assert set(specs()) == {*CHAIN, *BANK_CHAIN}
    for before, after in (*pairwise(CHAIN), *pairwise(BANK_CHAIN)):
        assert [dep.asset_key.to_user_string() for dep in specs()[after].deps] == [before]


def test_units_and_streams_have_checks_and_one_of_each_guards_what_follows():
    checks = {
        spec.name: spec
        for assets in (*defs.assets, *defs.asset_checks)
        if isinstance(assets, dg.AssetsDefinition)
        for spec in assets.check_specs
    }
    blocking = {name: spec.blocking for name, spec in checks.items()}
    assert blocking == {
        "outbox_sequence_is_whole": True,
        "view_equals_oracle": False,
        "every_unit_is_verified": False,
        "bank_export_is_complete": True,
        "bank_balances_agree": False,
        "bank_trial_balance_is_zero": False,
    }
    of_units = {name for name, spec in checks.items() if spec.partitions_def == UNITS}
    assert of_units == {"outbox_sequence_is_whole", "view_equals_oracle"}
    assert checks["every_unit_is_verified"].partitions_def is None
    of_streams = {name for name, spec in checks.items() if spec.partitions_def == STREAMS}
    assert of_streams == {name for name in checks if name.startswith("bank_")}


def test_a_correction_does_not_wait_for_a_verification():
    checks = {
        key.name for key in defs.resolve_job_def("refold").asset_layer.asset_graph.asset_check_keys
    }
    assert checks == {"outbox_sequence_is_whole", "every_unit_is_verified"}


def test_people_choose_the_unit_that_is_verified():
    assert defs.resolve_job_def("verify").partitions_def == UNITS


def test_backfills_run_in_one_process_for_each_unit():
    assert defs.executor is dg.in_process_executor


def test_the_configuration_of_the_resource_has_no_place_for_a_password():
    assert set(defs.resources["ledger"].to_config_schema().as_field().config_type.fields) == {
        "database",
        "home",
    }


def test_loading_the_definitions_warns_of_nothing_and_starts_nothing(tmp_path):
    subprocess.run(
        [sys.executable, "-W", "error", "-c", "import amends_pipeline.definitions"],
        check=True,
        cwd=tmp_path,
        env={**os.environ, "AMENDS_HOME": str(tmp_path / "home")},
    )
    assert list(tmp_path.iterdir()) == []


def test_dagster_accepts_the_workspace(tmp_path):
    told = subprocess.run(
        [
            Path(sys.executable).with_name("dagster"),
            *("definitions", "validate", "-w", "workspace.yaml"),
        ],
        check=False,
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"},
        capture_output=True,
        text=True,
    )
    assert told.returncode == 0, told.stdout + told.stderr


def test_one_run_works_on_a_unit_at_a_time_and_none_is_lost_to_a_killed_stack(tmp_path):
    shutil.copy(ROOT / "dagster.yaml", tmp_path)
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        queue = instance.get_concurrency_config().run_queue_config
        assert queue.max_concurrent_runs == 5
        assert queue.tag_concurrency_limits[0] == {
            "key": "dagster/partition",
            "value": {"applyLimitPerUniqueValue": True},
            "limit": 1,
        }
        assert isinstance(instance.run_coordinator, QueuedRunCoordinator)
        assert instance.run_coordinator.dequeue_interval_seconds == 1
        assert instance.run_monitoring_enabled
        assert instance.run_monitoring_max_runtime_seconds == 900
        assert not instance.telemetry_enabled
        assert not instance.nux_enabled


def test_what_takes_a_while_leaves_a_place_for_a_small_run(tmp_path):
    shutil.copy(ROOT / "dagster.yaml", tmp_path)
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        queue = instance.get_concurrency_config().run_queue_config

    def run(unit, **tags):
        return dg.DagsterRun("refold", tags={"dagster/partition": unit, **tags})

    def fitting(*runs):
        """How many of the runs begin side by side, when no other run is in progress."""
        counter = TagConcurrencyLimitsCounter(queue.tag_concurrency_limits, [])
        begun = 0
        for each in runs:
            if begun < queue.max_concurrent_runs and not counter.is_blocked(each):
                counter.update_counters_with_launched_item(each)
                begun += 1
        return begun

    long = tags_of(Request("a|p0", "x", 0, "x", bulk=True))
    bulk = [run(f"a|p{number}", **long) for number in range(9)]
    backfill = [run(f"b|p{number}", **{"dagster/backfill": "x"}) for number in range(9)]
    small = [run(f"c|p{number}") for number in range(9)]
    assert (fitting(*bulk), fitting(*backfill)) == (2, 2)
    assert fitting(*bulk, *backfill) == 4
    assert fitting(*bulk, *backfill, *small) == fitting(*small) == 5
    assert fitting(*[run("c|p0")] * 3) == 1
