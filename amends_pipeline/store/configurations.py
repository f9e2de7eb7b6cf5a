"""Configurations as they are stored, and those that this process has read already.

A configuration never changes while its namespace lives, so it is read once in the life of a
process. Whether somebody changed the tables all the same is told by a print of them, which takes
a small part of the time that reading them takes.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Any, Final

from amends_pipeline.inventory.config import KeyConfig, NamespaceConfig, StockKey
from amends_pipeline.kernel.errors import DatabaseUnavailable
from amends_pipeline.kernel.instants import Instant, in_range
from amends_pipeline.ports import NamespaceInfo
from amends_pipeline.store.postgres import Connection

SELECT_MEANING: Final = """
SELECT n.schema_version, n.origin_day, n.origin_nanosecond, s.name, s.partitions
FROM amends.namespace n JOIN amends.source s ON s.id = n.source_id WHERE n.id = %s
"""
SELECT_KEYS: Final = """
SELECT item, location, opening, threshold, partition
FROM amends.stock_key WHERE namespace_id = %s ORDER BY number
"""
# No row is there twice, so equal hashes do not cancel out.
SELECT_PRINT: Final = """
SELECT count(*), coalesce(min(k.number), 0), coalesce(max(k.number), -1),
    coalesce(bit_xor(hash_record_extended(
        ROW (k.number, k.partition, k.opening, k.threshold, k.item, k.location), 0)), 0)
FROM amends.stock_key k WHERE k.namespace_id = %s
"""

KEPT_CONFIGURATIONS: Final = 8

Print = tuple[int, list[Any], int, int]
"""What the tables say of a configuration, in short: equal prints, equal configurations."""


class _Configurations:
    """Configurations by digest, shared by all stores of a process. A digest says all of one."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: OrderedDict[str, tuple[NamespaceConfig, Print | None]] = OrderedDict()

    def get(self, digest: str) -> NamespaceConfig | None:
        """The configuration of a digest, if it is kept."""
        with self._lock:
            kept = self._kept.get(digest)
            if kept is None:
                return None
            self._kept.move_to_end(digest)
            return kept[0]

    def stored(self, digest: str, printed: Print) -> NamespaceConfig | None:
        """The configuration of a digest, if it is kept and was read where the print is of."""
        with self._lock:
            config, before = self._kept.get(digest, (None, None))
            return config if before == printed else None

    def put(self, config: NamespaceConfig, printed: Print | None = None) -> None:
        """Keep a configuration, and the print of the tables that it was read from."""
        with self._lock:
            self._kept[config.digest] = config, printed
            self._kept.move_to_end(config.digest)
            if len(self._kept) > KEPT_CONFIGURATIONS:
                self._kept.popitem(last=False)


configurations = _Configurations()


def as_stored(connection: Connection, namespace_id: int, info: NamespaceInfo) -> NamespaceConfig:
    """The configuration that the tables hold now, be it the one that was provisioned or not.

    All statements must see one moment. Raises DatabaseUnavailable when it has no origin, or keys
    whose numbers, by which readers find their rows, are not those of their places.
    """
    meaning = connection.execute(SELECT_MEANING, (namespace_id,), binary=True).fetchall()
    origin = next((Instant(*row[1:3]) for row in meaning), None)
    if origin is None or not in_range(origin):
        raise DatabaseUnavailable(
            f"configuration of namespace {info.namespace}",
            expected=f"digest {info.digest}, as provisioned",
            found="no origin" if origin is None else f"an origin on day number {origin.day}",
        )
    ((count, first, last, hashed),) = connection.execute(SELECT_PRINT, (namespace_id,), binary=True)
    if first != 0 or last != count - 1:
        raise DatabaseUnavailable(
            f"configuration of namespace {info.namespace}",
            expected=f"{count} keys numbered from 0 to {count - 1}",
            found=f"numbers from {first} to {last}",
        )
    printed = (namespace_id, meaning, count, hashed)
    kept = configurations.stored(info.digest, printed)
    if kept is not None:
        return kept
    ((schema_version, _, _, source, partitions),) = meaning
    config = NamespaceConfig(
        schema_version,
        info.namespace,
        source,
        partitions,
        origin,
        _keys(connection, namespace_id),
    )
    if config.digest == info.digest:
        configurations.put(config, printed)
    return config


def believed(config: NamespaceConfig, info: NamespaceInfo) -> NamespaceConfig:
    """The configuration, if it is the one that was provisioned. Raises DatabaseUnavailable."""
    if config.digest != info.digest:
        raise DatabaseUnavailable(
            f"configuration of namespace {info.namespace}",
            expected=f"digest {info.digest}, as provisioned",
            found=config.digest,
        )
    return config


def _keys(connection: Connection, namespace_id: int) -> tuple[KeyConfig, ...]:
    # A million keys stand at few locations: equal names are kept once.
    kept: dict[str, str] = {}
    return tuple(
        KeyConfig(
            StockKey(item, kept.setdefault(location, location)), opening, threshold, partition
        )
        for item, location, opening, threshold, partition in connection.execute(
            SELECT_KEYS, (namespace_id,), binary=True
        )
    )
