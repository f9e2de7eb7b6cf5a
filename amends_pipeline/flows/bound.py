"""Bound: whether a source is still the one that a namespace was provisioned over.

A source that was lost and made anew has another incarnation. Its offsets say nothing about the
namespaces over the one before it, and nothing of theirs may go into it.
"""

from __future__ import annotations

from amends_pipeline.kernel.errors import ForeignIncarnation
from amends_pipeline.ports import Ledger, NamespaceInfo, SourceLog


def bound(ledger: Ledger, namespace: str) -> NamespaceInfo:
    """The namespace, when its source is still the one that it was bound to.

    Raises ForeignIncarnation, UnknownNamespace, InputError when there is no such source any more.
    """
    info = ledger.store.info(namespace)
    where = f"namespace {namespace}, source {info.source}"
    check_bound(where, ledger.source(info.source), info.incarnation)
    return info


def check_bound(where: str, source: SourceLog, incarnation: str) -> None:
    """Raise ForeignIncarnation unless the source has the incarnation."""
    found = source.incarnation()
    if found != incarnation:
        raise ForeignIncarnation(where, expected=f"incarnation {incarnation}", found=found)
