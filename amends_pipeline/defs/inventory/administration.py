"""Jobs that make and remove namespaces.

`provision_namespace` makes a namespace that does not follow its source, and its partitions. A
backfill of all of them rebuilds it and verifies each unit; verified and accepted, it follows.
"""

from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from amends_pipeline.defs.inventory.failure import failing_clearly
from amends_pipeline.defs.partitions import forget, register
from amends_pipeline.defs.resources import LedgerResource
from amends_pipeline.flows.rebuild import rebuild
from amends_pipeline.inventory.config import (
    NamespaceConfig,
    load_configuration,
    parse_configuration,
)
from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import InputError


class NewNamespace(dg.Config):
    """What is made, and from what."""

    from_namespace: str = Field(description="A namespace over the same source.")
    new_namespace: str = Field(description="Name of the one to make, such as rebuild-1.")
    configuration: dict[str, Any] | None = Field(
        default=None,
        description=(
            "The document of its configuration; by default that of from_namespace. Whatever name"
            " stands in it, the namespace gets its own."
        ),
    )
    configuration_path: str | None = Field(
        default=None, description="Instead, a file that holds the document."
    )


class OldNamespace(dg.Config):
    """What is removed."""

    namespace: str = Field(description="The namespace to remove, with all that was made for it.")
    repeat_namespace: str = Field(description="The same name again: nothing brings it back.")


@dg.op(
    name="provision",
    description="Make a namespace over the source of another one; it does not follow yet.",
    out=dg.Out(dg.Nothing),
)
def provision_op(
    context: dg.OpExecutionContext, config: NewNamespace, ledger: LedgerResource
) -> None:
    """Make the namespace, then its partitions; repeating it makes what is missing."""
    new = config.new_namespace
    with failing_clearly():
        chosen = _configuration(config)
        with ledger.open() as opened:
            provisioned = rebuild(opened, new, config.from_namespace, chosen)
            info = opened.store.info(new)
    register(context.instance, info)
    context.log.info(
        "%s %s: configuration %s, %d partitions. Materialize all of its partitions to rebuild it;"
        " verified and accepted, it follows source %s.",
        new,
        "was made" if provisioned.created else "is there already",
        info.digest,
        info.partitions,
        info.source,
    )


@dg.op(
    name="remove",
    description="Forget a namespace and everything made for it; the source log stays.",
    out=dg.Out(dg.Nothing),
)
def remove_op(context: dg.OpExecutionContext, config: OldNamespace, ledger: LedgerResource) -> None:
    """Remove its rows, then its partitions; repeating it removes what is left."""
    namespace = config.namespace
    with failing_clearly():
        if config.repeat_namespace != namespace:
            found = shown(config.repeat_namespace)
            raise InputError("repeat_namespace", expected=shown(namespace), found=found)
        with ledger.open() as opened:
            there = namespace in {info.namespace for info in opened.store.namespaces()}
            if there or not forget(context.instance, namespace):
                opened.operations.remove(namespace)
    forget(context.instance, namespace)
    context.log.info("namespace %s is gone; the log of its source stays", namespace)


def _configuration(config: NewNamespace) -> NamespaceConfig | None:
    if config.configuration is not None and config.configuration_path is not None:
        expected = "one of them or none"
        raise InputError("configuration, configuration_path", expected=expected, found="both")
    if config.configuration_path is not None:
        return load_configuration(Path(config.configuration_path))
    return None if config.configuration is None else parse_configuration(config.configuration)


@dg.job(
    name="provision_namespace",
    description=(
        "Make a namespace over the source of another one, to be rebuilt by a backfill of all its"
        " partitions. It follows its source once every unit is verified and accepted."
    ),
    executor_def=dg.in_process_executor,
)
def provision_namespace() -> None:
    """Make a namespace."""
    provision_op()


@dg.job(
    name="remove_namespace",
    description=(
        "Forget a namespace and everything made for it. Refused for the one that readers see, and"
        " while somebody works on one of its units."
    ),
    executor_def=dg.in_process_executor,
)
def remove_namespace() -> None:
    """Remove a namespace."""
    remove_op()
