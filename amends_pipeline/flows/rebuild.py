"""Rebuild: a new namespace over the same source, from its first offset, verified on its own.

    rebuild              makes the namespace; it does not follow its source
    (backfill)           processes, publishes, applies and verifies each of its units
    follow_when_verified lets it follow, once all of its units are verified and accepted

What people declared of the old namespace holds for the new one: records that were set aside, and
exclusions that they accepted. Exclusions match as exact sets, so a new configuration that excludes
anything else is not accepted by them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from amends_pipeline.flows.accept import standing_verdicts
from amends_pipeline.flows.provision import Provisioned, provision
from amends_pipeline.inventory.config import NamespaceConfig, parse_configuration, to_document
from amends_pipeline.kernel.errors import InputError
from amends_pipeline.ports import Ledger, Unit, UnitStanding, Verdict


def rebuild(
    ledger: Ledger, new: str, old: str, config: NamespaceConfig | None = None
) -> Provisioned:
    """Make namespace `new` over the source of `old`. Repeating it goes on where it broke off.

    config: what the namespace shall mean, under whatever name; without it, what `old` means.

    Raises UnknownNamespace; ConfigurationError when the name is none, lives already with another
    configuration, or when `config` is about another source or disagrees with it; InputError when
    the new namespace has passed a record that was set aside in the old one.
    """
    there = ledger.store.config(old)
    chosen = config or there
    if chosen.source != there.source:
        raise InputError(
            f"configuration of namespace {new}",
            expected=f"source {there.source}, which namespace {old} is over",
            found=chosen.source,
        )
    named = parse_configuration(dict(to_document(chosen)) | {"namespace": new})
    provisioned = provision(ledger, named, follows=False)
    firsts = ledger.store.info(new).first_offsets
    for partition, first in enumerate(firsts):
        for offset, reason in ledger.store.set_asides(Unit(old, partition)):
            if offset >= first:
                ledger.store.set_aside(Unit(new, partition), offset, reason)
    document = ledger.operations.manifest(old)
    if document is not None and ledger.operations.manifest(new) is None:
        ledger.operations.store_manifest(new, document)
    return provisioned


def follow_when_verified(ledger: Ledger) -> Sequence[str]:
    """Let each namespace follow whose units are all verified where they stand; name those.

    Raises DatabaseUnavailable, InputError.
    """
    waiting = [each for each in ledger.store.standing() if not each.follows]
    if not waiting:
        return []
    ready = verified_namespaces(waiting, standing_verdicts(ledger))
    for namespace in ready:
        ledger.operations.follow(namespace, follows=True)
    return ready


def verified_namespaces(
    standings: Sequence[UnitStanding], verdicts: Mapping[Unit, Verdict]
) -> Sequence[str]:
    """The namespaces of which every unit is backfilled, verified at its boundary and accepted."""
    units: dict[str, list[UnitStanding]] = defaultdict(list)
    for each in standings:
        units[each.unit.namespace].append(each)
    return sorted(
        namespace
        for namespace, own in units.items()
        if all(_verified(each, verdicts.get(each.unit)) for each in own)
    )


def _verified(standing: UnitStanding, verdict: Verdict | None) -> bool:
    extent, progress = standing.extent, standing.progress
    if verdict is None or not verdict.accepted or extent is None or not standing.bound:
        return False
    # A namespace that nobody has processed agrees with no records at all.
    untouched = progress.next_offset == standing.first_offset < extent.end
    boundary = (progress.next_offset, standing.output_end)
    return not untouched and (verdict.source_end, verdict.output_end) == boundary
