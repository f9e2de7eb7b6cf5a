"""What all namespaces over a source agree on: its partitions, and which key lies on which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from amends_pipeline.inventory.config import NamespaceConfig, default_partition
from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import ConfigurationError, ForeignIncarnation
from amends_pipeline.ports import SourceBinding
from amends_pipeline.store.bulk import INT4, TEXT, Table
from amends_pipeline.store.postgres import Connection, Transaction

SELECT_BINDING: Final = "SELECT id, incarnation, partitions FROM amends.source WHERE name = %s"
SELECT_ROUTES: Final = (
    "SELECT item, location, partition FROM amends.source_route WHERE source_id = %s"
)
INSERT_SOURCE: Final = """
INSERT INTO amends.source (name, incarnation, partitions) VALUES (%s, %s, %s) RETURNING id
"""
ROUTES: Final = Table(
    "amends.source_route",
    {"source_id": INT4, "partition": INT4, "item": TEXT, "location": TEXT},
)


def find(connection: Connection, source: str) -> tuple[int, SourceBinding] | None:
    """Surrogate key and binding of a source; None while no namespace was provisioned over it."""
    row = connection.execute(SELECT_BINDING, (source,), binary=True).fetchone()
    if row is None:
        return None
    source_id, incarnation, partitions = row
    routes = {
        (item, location): partition
        for item, location, partition in connection.execute(
            SELECT_ROUTES, (source_id,), binary=True
        )
    }
    return source_id, SourceBinding(source, incarnation, partitions, routes)


def bind(transaction: Transaction, config: NamespaceConfig, incarnation: str) -> int:
    """Bind the source with its first namespace; afterwards hold every namespace to that."""
    found = find(transaction.connection, config.source)
    if found is not None:
        source_id, binding = found
        _check(binding, config, incarnation)
        return source_id
    source_id = transaction.made(INSERT_SOURCE, config.source, incarnation, config.partitions)
    routed = [
        key
        for key in config.keys
        if key.partition != default_partition(key.stock_key, config.partitions)
    ]
    columns: list[Sequence[object]] = [
        [source_id] * len(routed),
        [key.partition for key in routed],
        [key.stock_key.item for key in routed],
        [key.stock_key.location for key in routed],
    ]
    ROUTES.copy(transaction.connection, columns)
    return source_id


def _check(binding: SourceBinding, config: NamespaceConfig, incarnation: str) -> None:
    """Raise ForeignIncarnation or ConfigurationError unless `config` agrees with a binding."""
    where = f"source {config.source}"
    if incarnation != binding.incarnation:
        expected = f"incarnation {binding.incarnation}"
        raise ForeignIncarnation(where, expected=expected, found=incarnation)
    if config.partitions != binding.partitions:
        expected = f"{binding.partitions} partitions, as its other namespaces have"
        raise ConfigurationError(where, expected=expected, found=str(config.partitions))
    routes: Mapping[tuple[str, str], int] = binding.routes
    for key in config.keys:
        route = routes.get(key.stock_key)
        if route is None:
            route = default_partition(key.stock_key, binding.partitions)
        if key.partition != route:
            raise ConfigurationError(
                f"{where}, key {shown(key.stock_key.encoded)}",
                expected=f"partition {route}, where its other namespaces have it",
                found=f"partition {key.partition}",
            )
