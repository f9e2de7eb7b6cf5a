"""Units as partitions: a namespace and a partition of its source, written `main|p0`.

Both dimensions are dynamic: namespaces come and go, and a source may be of any width. A key may
therefore exist that no namespace has; the assets say so and materialise zeros.

The bank ledger has one dimension: a partition is a ledger stream by its name.
"""

from __future__ import annotations

import re

import dagster as dg

from amends_pipeline.defs.pinned import known_features
from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import InputError
from amends_pipeline.ports import NamespaceInfo, Unit

NAMESPACE = "namespace"
LEDGER_STREAM = "ledger_stream"
SOURCE_PARTITION = "source_partition"

NAMESPACES = dg.DynamicPartitionsDefinition(name=NAMESPACE)
SOURCE_PARTITIONS = dg.DynamicPartitionsDefinition(name=SOURCE_PARTITION)
STREAMS = dg.DynamicPartitionsDefinition(name=LEDGER_STREAM)
UNITS = dg.MultiPartitionsDefinition({NAMESPACE: NAMESPACES, SOURCE_PARTITION: SOURCE_PARTITIONS})

with known_features():
    BY_SOURCE_PARTITION = dg.MultiToSingleDimensionPartitionMapping(SOURCE_PARTITION)
"""How a unit depends on the source log: on the same partition of it, whatever the namespace."""

_SOURCE_PARTITION = re.compile(r"p(0|[1-9][0-9]{0,4})")


def unit_key(unit: Unit) -> dg.MultiPartitionKey:
    """Return the partition key of a unit. Its text is that of the unit."""
    return dg.MultiPartitionKey(
        {NAMESPACE: unit.namespace, SOURCE_PARTITION: source_partition_key(unit.partition)}
    )


def source_partition_key(partition: int) -> str:
    """Return the key of a partition of a source."""
    return f"p{partition}"


def unit_of(partition_key: str) -> Unit:
    """Read a partition key. Raises InputError: Dagster takes any text for a dynamic key."""
    namespace, _, source_partition = partition_key.rpartition("|")
    number = _SOURCE_PARTITION.fullmatch(source_partition)
    if not namespace or number is None:
        expected = "a namespace and a source partition, such as main|p0"
        raise InputError("partition", expected=expected, found=shown(partition_key))
    return Unit(namespace, int(number[1]))


def register(instance: dg.DagsterInstance, info: NamespaceInfo) -> None:
    """Make the units of a namespace known to Dagster. Repeating it changes nothing."""
    keys = [source_partition_key(partition) for partition in range(info.partitions)]
    instance.add_dynamic_partitions(NAMESPACE, [info.namespace])
    instance.add_dynamic_partitions(SOURCE_PARTITION, keys)


def forget(instance: dg.DagsterInstance, namespace: str) -> bool:
    """Make the units of a namespace unknown to Dagster; say whether they were known."""
    known: bool = instance.has_dynamic_partition(NAMESPACE, namespace)
    if known:
        instance.delete_dynamic_partition(NAMESPACE, namespace)
    return known


def lacking(info: NamespaceInfo, unit: Unit) -> str:
    """Say that the namespace has no such partition; nothing, when it has.

    Dagster pairs every namespace with every source partition of any namespace.
    """
    if unit.partition < info.partitions:
        return ""
    last = source_partition_key(info.partitions - 1)
    have = f"only {last}" if info.partitions == 1 else f"only p0 to {last}"
    here = source_partition_key(unit.partition)
    return f"Namespace {info.namespace} has no partition {here}, {have}: there is nothing to do."
