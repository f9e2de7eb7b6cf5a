"""Namespaces and the source that they share: what was provisioned, and never changes after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from amends_pipeline.inventory.config import NamespaceConfig
from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import (
    ConfigurationError,
    DatabaseUnavailable,
    Fenced,
    InputError,
    OperationError,
    UnknownNamespace,
)
from amends_pipeline.ports import NamespaceInfo, SourceBinding, Unit
from amends_pipeline.store import bindings
from amends_pipeline.store.bulk import INT4, INT8, TEXT, Table
from amends_pipeline.store.configurations import as_stored, believed, configurations
from amends_pipeline.store.postgres import (
    LOCK_CLASS,
    PROVISIONING,
    Connection,
    Database,
)

# One provisioning at a time, so that two cannot bind a source to different routes.
LOCK: Final = "SELECT pg_advisory_xact_lock(%s::int4, %s::int4)"

SELECT_INFO: Final = """
SELECT n.id, n.name, s.name, s.partitions, n.digest, n.incarnation, n.first_offsets, n.follows
FROM amends.namespace n JOIN amends.source s ON s.id = n.source_id
"""
SELECT_INFO_OF: Final = SELECT_INFO + "WHERE n.name = %s"
# One statement, and so one moment: between two the namespace might be removed.
SELECT_HOME: Final = f"""
SELECT h.*, ARRAY(SELECT partition FROM amends.unit WHERE namespace_id = h.id ORDER BY partition),
    ARRAY(SELECT id FROM amends.unit WHERE namespace_id = h.id ORDER BY partition)
FROM ({SELECT_INFO_OF}) h
"""  # noqa: S608 - a statement of ours
SELECT_ALL_INFO: Final = SELECT_INFO + "ORDER BY n.name"

INSERT_NAMESPACE: Final = """
INSERT INTO amends.namespace (name, source_id, digest, schema_version, origin_day,
    origin_nanosecond, incarnation, first_offsets, follows)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s::int8[], %s) RETURNING id
"""
FIRST_IS_CURRENT: Final = """
INSERT INTO amends.current_namespace (namespace_id, source_id) VALUES (%s, %s)
ON CONFLICT (source_id) DO NOTHING
"""
INSERT_UNITS: Final = """
WITH made AS (
    INSERT INTO amends.unit (namespace_id, partition)
    SELECT %s, p - 1 FROM generate_series(1, %s) p RETURNING id, partition
), worker AS (
    INSERT INTO amends.worker_progress (unit_id, next_offset)
    SELECT m.id, (%s::int8[])[m.partition + 1] FROM made m
), relay AS (
    INSERT INTO amends.relay_progress (unit_id) SELECT id FROM made
), log AS (
    INSERT INTO amends.output_end (unit_id) SELECT id FROM made
)
INSERT INTO amends.view_progress (unit_id) SELECT id FROM made
"""
KEYS: Final = Table(
    "amends.stock_key",
    {
        "namespace_id": INT4,
        "number": INT4,
        "partition": INT4,
        "opening": INT8,
        "threshold": INT8,
        "item": TEXT,
        "location": TEXT,
    },
)


class Home(NamedTuple):
    """A namespace in the database: the surrogate keys of it and of its units, by partition."""

    id: int
    info: NamespaceInfo
    units: tuple[int, ...]


class Namespaces:
    """Reads and writes namespaces.

    What it remembers of a namespace holds as long as the namespace does. `fresh` looks again, which
    whoever begins to work on a namespace does: it may have been removed, and made anew.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._homes: dict[str, Home] = {}
        self._bindings: dict[str, SourceBinding] = {}

    # Reading

    def home(self, namespace: str) -> Home:
        """Where a namespace is kept, as far as this process knows. Raises UnknownNamespace."""
        return self._homes.get(namespace) or self.fresh(namespace)

    def fresh(self, namespace: str) -> Home:
        """Where a namespace is kept now. Raises UnknownNamespace."""
        self.forget(namespace)
        if "\x00" in namespace or not namespace.isascii():
            raise UnknownNamespace(namespace)  # no such text can be stored, or is a name
        with self._database.read() as connection:
            home = self._homes[namespace] = _home(connection, namespace)
        return home

    def forget(self, namespace: str) -> None:
        """Look again at the next use."""
        self._homes.pop(namespace, None)

    def unit_id(self, unit: Unit) -> int:
        """The surrogate key of a unit. Raises UnknownNamespace, InputError."""
        units = self.home(unit.namespace).units
        if not 0 <= unit.partition < len(units):
            expected = f"a partition from 0 to {len(units) - 1}"
            where = f"namespace {unit.namespace}"
            raise InputError(where, expected=expected, found=str(unit.partition))
        return units[unit.partition]

    def missing(self, where: str, unit: Unit, unit_id: int) -> OperationError:
        """The error for a row of a unit that is not there. Raises UnknownNamespace, InputError.

        where: the row in words. unit_id: what the unit's surrogate key was when it was looked for.
        """
        self.forget(unit.namespace)
        if self.unit_id(unit) == unit_id:
            return DatabaseUnavailable(where, expected="its row", found="none")
        expected, found = "the namespace as it was", "another one of that name"
        return Fenced(where, expected=expected, found=found)

    def info(self, namespace: str) -> NamespaceInfo:
        """What is known of a namespace now. Raises UnknownNamespace."""
        return self.fresh(namespace).info

    def all(self) -> list[NamespaceInfo]:
        """All namespaces by name."""
        with self._database.read() as connection:
            return [_info(row) for row in connection.execute(SELECT_ALL_INFO, binary=True)]

    def config(self, namespace: str) -> NamespaceConfig:
        """The configuration, read once in the life of a process. Raises UnknownNamespace."""
        return self._config(self.fresh(namespace))

    def config_of(self, unit: Unit) -> NamespaceConfig:
        """The configuration for work on a unit that was begun. Raises UnknownNamespace."""
        return self._config(self.home(unit.namespace))

    def _config(self, home: Home) -> NamespaceConfig:
        config = configurations.get(home.info.digest)
        if config is None:
            try:
                with self._database.snapshot() as connection:
                    config = as_stored(connection, home.id, home.info)
            except DatabaseUnavailable:
                # Nothing is wrong with what is stored when it was removed meanwhile.
                if self.fresh(home.info.namespace).id != home.id:
                    raise UnknownNamespace(home.info.namespace) from None
                raise
            believed(config, home.info)
        return config

    def binding(self, source: str) -> SourceBinding | None:
        """What the namespaces over a source agree on; None when there is none."""
        binding = self._bindings.get(source)
        if binding is None:
            with self._database.read() as connection:
                found = bindings.find(connection, source)
            if found is None:
                return None
            binding = self._bindings[source] = found[1]
        return binding

    # Writing

    def provision(
        self,
        config: NamespaceConfig,
        incarnation: str,
        first_offsets: Sequence[int],
        *,
        follows: bool,
    ) -> bool:
        """Create a namespace. False when it is there with the same digest.

        Raises ConfigurationError, ForeignIncarnation.
        """
        with self._database.write(LOCK, (LOCK_CLASS, PROVISIONING)) as transaction:
            row = transaction.execute(SELECT_INFO_OF, (config.namespace,)).fetchone()
            if row is not None:
                _check_same(config, _info(row))
                return False
            if len(first_offsets) != config.partitions:
                raise ConfigurationError(
                    f"namespace {config.namespace}",
                    expected=f"first offsets of {config.partitions} partitions",
                    found=str(len(first_offsets)),
                )
            source_id = bindings.bind(transaction, config, incarnation)
            offsets = list(first_offsets)
            namespace_id = transaction.made(
                INSERT_NAMESPACE,
                config.namespace,
                source_id,
                config.digest,
                config.schema_version,
                *config.origin,
                incarnation,
                offsets,
                follows,
            )
            transaction.execute(INSERT_UNITS, (namespace_id, config.partitions, offsets))
            if follows:
                transaction.execute(FIRST_IS_CURRENT, (namespace_id, source_id))
            columns = _key_columns(namespace_id, config)
            KEYS.copy(transaction.connection, columns)
        configurations.put(config)
        return True


def _key_columns(namespace_id: int, config: NamespaceConfig) -> list[Sequence[object]]:
    keys = config.keys
    return [
        [namespace_id] * len(keys),
        range(len(keys)),
        [key.partition for key in keys],
        [key.opening_balance for key in keys],
        [key.reorder_threshold for key in keys],
        [key.stock_key.item for key in keys],
        [key.stock_key.location for key in keys],
    ]


def _check_same(config: NamespaceConfig, there: NamespaceInfo) -> None:
    if there.digest != config.digest:
        raise ConfigurationError(
            f"namespace {config.namespace}",
            expected=f"the configuration {there.digest} that it was created with",
            found=config.digest,
        )


def _home(connection: Connection, namespace: str) -> Home:
    found = connection.execute(SELECT_HOME, (namespace,), binary=True).fetchone()
    if found is None:
        raise UnknownNamespace(namespace)
    *row, partitions, units = found
    info = _info(row)
    if partitions != list(range(info.partitions)):
        raise DatabaseUnavailable(
            f"stored units of namespace {info.namespace}",
            expected=f"those of partitions 0 to {info.partitions - 1}",
            found=f"those of partitions {shown(partitions)}",
        )
    return Home(row[0], info, tuple(units))


def _info(row: Sequence[Any]) -> NamespaceInfo:
    _, name, source, partitions, digest, incarnation, first_offsets, follows = row
    return NamespaceInfo(
        name, source, partitions, digest, incarnation, tuple(first_offsets), follows
    )
