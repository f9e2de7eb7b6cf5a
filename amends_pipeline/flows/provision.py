"""Provision: a configuration becomes a namespace over a source."""

from __future__ import annotations

from typing import NamedTuple

from amends_pipeline.inventory.config import NamespaceConfig
from amends_pipeline.ports import Ledger


class Provisioned(NamedTuple):
    """What provisioning found or made."""

    namespace: str
    created: bool
    """False when the same configuration was there already."""
    digest: str
    incarnation: str


def provision(ledger: Ledger, config: NamespaceConfig, *, follows: bool = True) -> Provisioned:
    """Create the namespace of `config`, and the log of its source when there is none yet.

    The namespace starts at the first offset that the source retains. Raises ConfigurationError when
    another configuration lives under the name or the source's partitions or routes disagree.
    """
    for there in ledger.store.namespaces():
        if there.namespace == config.namespace:
            # Refused or a no-op: either way no source may come into being.
            ledger.store.provision(config, there.incarnation, there.first_offsets, follows=follows)
            return Provisioned(
                config.namespace, created=False, digest=config.digest, incarnation=there.incarnation
            )
    source = ledger.source(config.source)
    source.create(config.partitions)
    incarnation = source.incarnation()
    first_offsets = [extent.start for extent in source.extents()]
    created = ledger.store.provision(config, incarnation, first_offsets, follows=follows)
    return Provisioned(config.namespace, created, config.digest, incarnation)
