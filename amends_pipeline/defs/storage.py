"""Dagster's own storage on the project's server: the user's, or the private one, started at need.

    storage:
      custom: {module: amends_pipeline.defs.storage, class: AmendsStorage, config: {}}

in dagster.yaml. Every process of Dagster then holds a lease of its own, so that `dagster dev`,
`dagster instance` and a test need no server running and no environment, and the URL with its
password travels to no other process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from dagster_postgres import DagsterPostgresStorage

from amends_pipeline.store.server import Server, connect_info

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dagster._config.config_schema import UserConfigSchema
    from dagster._serdes import ConfigurableClassData

LINGER_SECONDS = 10.0  # a run's process comes and goes; the server need not

# A Dagster instance keeps the three storages and forgets the AmendsStorage that made them.
_servers: WeakKeyDictionary[object, Server] = WeakKeyDictionary()


class AmendsStorage(DagsterPostgresStorage):
    """Runs, events and schedules on the server of `connect_info`; raises DatabaseUnavailable."""

    def __init__(self, inst_data: ConfigurableClassData | None = None) -> None:
        """Take a lease for as long as a part of the storage is in use; make Dagster's tables."""
        server = connect_info(linger=LINGER_SECONDS)
        with server.dagster_set_up():
            super().__init__(server.dagster_url, inst_data=inst_data)
        if server.lease is not None:
            server.lease.watch()
        for storage in (self.run_storage, self.event_log_storage, self.schedule_storage):
            _servers[storage] = server

    @classmethod
    def config_type(cls) -> UserConfigSchema:
        """Return the empty configuration: the environment says all there is to say."""
        return {}

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> AmendsStorage:
        """Make the storage as Dagster asks for it."""
        del config_value
        return cls(inst_data)
