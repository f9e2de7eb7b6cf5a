from __future__ import annotations

import os
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import dagster as dg
from dagster._core.run_coordinator import QueuedRunCoordinator

from amends_pipeline.definitions import defs
from amends_pipeline.defs.partitions import UNITS

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


def specs() -> dict[str, dg.AssetSpec]:
    return {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}


def test_the_definitions_can_be_loaded():
    dg.Definitions.validate_loadable(defs)


def test_each_asset_follows_from_the_one_before_it():
    assert set(specs()) == set(CHAIN)
    for before, after in pairwise(CHAIN):
        assert [dep.asset_key.to_user_string() for dep in specs()[after].deps] == [before]


def test_units_have_checks_and_one_of_them_guards_the_relay():
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
    }
    of_units = {name for name, spec in checks.items() if spec.partitions_def == UNITS}
    assert of_units == {"outbox_sequence_is_whole", "view_equals_oracle"}
    assert checks["every_unit_is_verified"].partitions_def is None


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
        assert queue.max_concurrent_runs == 4
        assert queue.tag_concurrency_limits == [
            {"key": "dagster/partition", "value": {"applyLimitPerUniqueValue": True}, "limit": 1}
        ]
        assert isinstance(instance.run_coordinator, QueuedRunCoordinator)
        assert instance.run_coordinator.dequeue_interval_seconds == 1
        assert instance.run_monitoring_enabled
        assert instance.run_monitoring_max_runtime_seconds == 900
        assert not instance.telemetry_enabled
        assert not instance.nux_enabled
