"""Accept: a person's consent to exclusions, stored for a namespace and matched as exact sets.

A manifest is the namespace's; a unit is accepted by the part of it that concerns its partition.
Consent is looked up anew each time: a verdict that stands is accepted when what it excludes is
exactly what is stored now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from pydantic import ValidationError

from amends_pipeline.inventory.config import NamespaceConfig
from amends_pipeline.inventory.verify import Manifest, Report, parse_manifest
from amends_pipeline.kernel.canonical import compact_json
from amends_pipeline.kernel.errors import InputError
from amends_pipeline.kernel.verdict import Status
from amends_pipeline.ports import Ledger, Unit, Verdict

_AGREEING = {str(Status.PASS), str(Status.PASS_WITH_EXCLUSIONS)}


def accept(
    ledger: Ledger, namespace: str, manifest: Manifest, partition: int | None = None
) -> Manifest:
    """Store what is accepted of a namespace from now on, and return the whole of it.

    partition: replace the part of this partition alone. Raises UnknownNamespace, InputError for an
    entry that is about another partition, or about one that the namespace does not have.
    """
    config = ledger.store.config(namespace)
    _check(config, manifest, partition)
    if partition is not None:
        others = set(range(config.partitions)) - {partition}
        stored = (stored_manifest(ledger, namespace) or Manifest()).within(config, others)
        manifest = Manifest(
            rejections=(*stored.rejections, *manifest.rejections),
            conflicts=(*stored.conflicts, *manifest.conflicts),
        )
    ledger.operations.store_manifest(namespace, compact_json(manifest.model_dump(mode="json")))
    return manifest


def _check(config: NamespaceConfig, manifest: Manifest, partition: int | None) -> None:
    where = f"manifest for namespace {config.namespace}"
    there = range(config.partitions) if partition is None else [partition]
    expected = (
        f"entries of partition {partition}"
        if partition is not None
        else f"partitions from 0 to {config.partitions - 1}"
    )
    if partition is not None and not 0 <= partition < config.partitions:
        last = config.partitions - 1
        raise InputError(where, expected=f"a partition from 0 to {last}", found=str(partition))
    for rejection in manifest.rejections:
        if rejection.partition not in there:
            found = f"a rejection of partition {rejection.partition}"
            raise InputError(where, expected=expected, found=found)
    for conflict in manifest.conflicts:
        home = config.partition_of((conflict.stock_key.item, conflict.stock_key.location))
        if home not in there:
            found = f"a conflict of a key that lies on partition {home}"
            raise InputError(where, expected=expected, found=found)


def stored_manifest(ledger: Ledger, namespace: str) -> Manifest | None:
    """What is accepted of a namespace; None when nothing ever was. Raises UnknownNamespace."""
    document = ledger.operations.manifest(namespace)
    return None if document is None else _parsed(document)


@lru_cache(maxsize=8)
def _parsed(document: str) -> Manifest:
    return parse_manifest(document.encode(), where="the stored manifest")


def accepted_in(
    config: NamespaceConfig, manifest: Manifest | None, partition: int
) -> Manifest | None:
    """The part of a manifest that concerns one partition."""
    return None if manifest is None else manifest.within(config, [partition])


def standing_verdicts(ledger: Ledger) -> Mapping[Unit, Verdict]:
    """The verdict of every unit that was judged, accepted or not by what is stored now.

    Reports are left out. Raises DatabaseUnavailable, InputError.
    """
    verdicts = ledger.operations.verdicts(reports=False)
    return {verdict.unit: verdict for verdict in _consented(ledger, verdicts)}


def settled_verdicts(ledger: Ledger) -> Mapping[Unit, Verdict]:
    """The verdicts that stand, without those that were recorded under another consent.

    Whoever was shown such a verdict should be shown a new one. Raises as `standing_verdicts`.
    """
    recorded = {each.unit: each.accepted for each in ledger.operations.verdicts(reports=False)}
    return {
        unit: verdict
        for unit, verdict in standing_verdicts(ledger).items()
        if recorded.get(unit) == verdict.accepted
    }


def _consented(ledger: Ledger, verdicts: Iterable[Verdict]) -> Iterable[Verdict]:
    manifests: dict[str, Manifest | None] = {}
    for verdict in verdicts:
        namespace, partition = verdict.unit
        if verdict.status not in _AGREEING:
            yield verdict
            continue
        if namespace not in manifests:
            manifests[namespace] = stored_manifest(ledger, namespace)
        manifest = manifests[namespace]
        if manifest is not None:
            manifest = manifest.within(ledger.store.config(namespace), [partition])
        yield verdict._replace(accepted=_accepts(ledger, verdict, manifest or Manifest()))


def _accepts(ledger: Ledger, verdict: Verdict, manifest: Manifest) -> bool:
    if verdict.status == Status.PASS:
        return manifest == Manifest()
    if manifest == Manifest():
        return False
    whole = ledger.operations.verdict(verdict.unit)
    return whole is not None and _matches(whole.report, manifest)


@lru_cache(maxsize=32)
def _matches(document: str, manifest: Manifest) -> bool:
    try:
        return Report.model_validate_json(document).accepts(manifest)
    except ValidationError:  # of another version of amends: judge again
        return False
