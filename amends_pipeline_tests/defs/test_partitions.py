from __future__ import annotations

import dagster as dg
import pytest

from amends_pipeline.defs.partitions import (
    BY_SOURCE_PARTITION,
    SOURCE_PARTITIONS,
    UNITS,
    lacking,
    register,
    unit_key,
    unit_of,
)
from amends_pipeline.kernel.errors import InputError
from amends_pipeline.ports import NamespaceInfo, Unit


def info(namespace: str, partitions: int) -> NamespaceInfo:
    first = (0,) * partitions
    return NamespaceInfo(namespace, "feed", partitions, "digest", "id", first, follows=True)


@pytest.mark.parametrize(
    ("unit", "key"),
    [
        (Unit("main", 0), "main|p0"),
        (Unit("rebuild-2", 9999), "rebuild-2|p9999"),
    ],
)
def test_a_unit_is_written_as_its_partition_key(unit, key):
    assert str(unit_key(unit)) == str(unit) == key
    assert unit_of(key) == unit_of(unit_key(unit)) == unit


@pytest.mark.parametrize(
    "key", ["", "main", "main|", "|p0", "main|p", "main|p01", "main|0", "main|p-1", "main|p٣", "p0"]
)
def test_what_people_may_add_as_a_partition_and_is_no_unit_is_refused(key):
    with pytest.raises(InputError, match=r"such as main\|p0"):
        unit_of(key)


def test_registered_namespaces_are_paired_with_every_source_partition(instance):
    register(instance, info("wide", 2))
    register(instance, info("narrow", 1))
    register(instance, info("wide", 2))
    keys = UNITS.get_partition_keys(dynamic_partitions_store=instance)
    assert sorted(map(str, keys)) == ["narrow|p0", "narrow|p1", "wide|p0", "wide|p1"]


def test_a_unit_depends_on_its_own_partition_of_the_source(instance):
    register(instance, info("main", 3))
    subset = UNITS.subset_with_partition_keys([unit_key(Unit("main", 2))])
    with dg.partition_loading_context(dynamic_partitions_store=instance):
        mapped = BY_SOURCE_PARTITION.get_upstream_mapped_partitions_result_for_partitions(
            subset, UNITS, SOURCE_PARTITIONS
        )
    assert list(mapped.partitions_subset.get_partition_keys()) == ["p2"]


@pytest.mark.parametrize(
    ("partitions", "partition", "words"),
    [
        (1, 0, ""),
        (2, 1, ""),
        (1, 1, "Namespace main has no partition p1, only p0: there is nothing to do."),
        (3, 7, "Namespace main has no partition p7, only p0 to p2: there is nothing to do."),
    ],
)
def test_a_unit_that_its_namespace_does_not_have_is_told(partitions, partition, words):
    assert lacking(info("main", partitions), Unit("main", partition)) == words
