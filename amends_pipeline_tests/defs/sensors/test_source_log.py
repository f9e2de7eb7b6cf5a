"""`new_records`: partitions of new namespaces, and how far the source log has come."""

from __future__ import annotations

import dagster as dg
import pytest

from amends_pipeline_tests.defs.sensors.tower import A, B
from amends_pipeline_tests.tables import configuration


def test_new_namespaces_become_partitions_in_the_tick_that_asks_for_their_runs(main):
    for name in ("namespace", "source_partition"):
        for key in main.instance.get_dynamic_partitions(name):
            main.instance.delete_dynamic_partition(name, key)
    result = main.tick()
    assert [
        (each.partitions_def_name, list(each.partition_keys))
        for each in result.dynamic_partitions_requests
    ] == [("namespace", ["main"]), ("source_partition", ["p0"])]
    assert len(result.run_requests) == 1
    assert main.tick().dynamic_partitions_requests == []


def test_a_namespace_that_does_not_follow_is_a_partition_all_the_same(main):
    main.provision(configuration(namespace="rebuild"))
    main.ledger.operations.follow("rebuild", follows=False)
    main.instance.delete_dynamic_partition("namespace", "rebuild")
    main.tick()
    assert set(main.instance.get_dynamic_partitions("namespace")) == {"main", "rebuild"}


def test_units_beyond_a_namespace_s_partitions_are_asked_for_by_nobody(tower):
    tower.provision(configuration())
    tower.provision(configuration(namespace="wide", source="wide-feed", partitions=3))
    tower.append(A)
    tower.append(A, "wide")
    assert tower.asked() == ["main|p0@0->1#0", "wide|p0@0->1#0"]
    assert tower.instance.get_dynamic_partitions("source_partition") == ["p0", "p1", "p2"]


@pytest.mark.parametrize("ledger", ["postgres"], indirect=True)
def test_a_name_that_no_partition_can_have_is_told_and_made_none(main):
    main.ledger.sql("UPDATE amends.namespace SET name = 'a|b'")
    result = main.tick()
    assert result.skip_reason.skip_message == '"a|b": no partition can have this name.'
    assert main.instance.get_dynamic_partitions("namespace") == []


def test_a_namespace_that_was_removed_is_no_partition_any_more(main):
    main.provision(configuration(namespace="rebuild"))
    main.ledger.operations.follow("rebuild", follows=False)
    main.tick()
    assert "rebuild" in main.instance.get_dynamic_partitions("namespace")
    main.ledger.operations.remove("rebuild")
    main.tick()
    assert main.instance.get_dynamic_partitions("namespace") == ["main"]


def test_the_end_of_each_source_partition_is_reported_when_it_has_moved(main):
    [event] = main.tick().asset_events
    assert isinstance(event, dg.AssetMaterialization)
    assert (event.asset_key, event.partition) == (dg.AssetKey("source_log"), "p0")
    assert {name: each.value for name, each in event.metadata.items()} == {
        "source": "depot-feed-1",
        "source_start_offset": 0,
        "source_end_offset": 1,
        "appended_offsets": 1,
    }
    assert event.tags == {"dagster/data_version": "depot-feed-1@1"}
    assert main.tick().asset_events == []
    main.append(f"{B}\nmalformed")
    [event] = main.tick().asset_events
    assert event.metadata["appended_offsets"].value == 2


def test_two_namespaces_over_one_source_report_it_once(main):
    main.provision(configuration(namespace="other"))
    assert len(main.tick().asset_events) == 1


def test_a_lost_cursor_reports_an_end_once_more_and_nothing_else(main):
    main.tick()
    main.cursor = "edited"
    result = main.tick()
    assert len(result.asset_events) == 1
    assert [each.run_key for each in result.run_requests] == ["main|p0@0->1#0"]
