"""What people and automation keep about namespaces, in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from amends_pipeline.inventory.view import visible
from amends_pipeline.ports import Counted, Landed, Role, Unit, Verdict
from amends_pipeline.store.memory_tables import MemoryTables, UnitTable
from amends_pipeline.store.pages import page_of
from amends_pipeline.store.refusals import held, is_current, storable


class MemoryOperations:
    """`Operations` over `MemoryTables`."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    # Verdicts

    def record_verdict(self, verdict: Verdict) -> None:
        """Keep a verdict in place of the unit's last one."""
        with self._tables.lock:
            self._tables.unit(verdict.unit)
            self._tables.verdicts[verdict.unit] = verdict._replace(
                judged_by=storable(verdict.judged_by), report=storable(verdict.report)
            )

    def verdicts(self, *, reports: bool = True) -> Sequence[Verdict]:
        """The standing verdict of every unit that was ever judged."""
        with self._tables.lock:
            standing = [verdict for _, verdict in sorted(self._tables.verdicts.items())]
        return standing if reports else [each._replace(report="") for each in standing]

    def verdict(self, unit: Unit) -> Verdict | None:
        """The standing verdict of one unit."""
        with self._tables.lock:
            self._tables.unit(unit)
            return self._tables.verdicts.get(unit)

    # Manifests

    def store_manifest(self, namespace: str, document: str) -> None:
        """Accept exactly these exclusions from now on."""
        with self._tables.lock:
            self._tables.namespace(namespace)
            self._tables.manifests[namespace] = storable(document)

    def manifest(self, namespace: str) -> str | None:
        """The accepted exclusions as JSON."""
        with self._tables.lock:
            self._tables.namespace(namespace)
            return self._tables.manifests.get(namespace)

    # The life of namespaces

    def follow(self, namespace: str, *, follows: bool) -> None:
        """Let the sensor ask for runs of the namespace's units, or not."""
        with self._tables.lock:
            table = self._tables.namespace(namespace)
            table.info = table.info._replace(follows=follows)
            if follows:
                self._tables.current.setdefault(table.info.source, namespace)

    def current(self, source: str) -> str | None:
        """The namespace that readers of a source see."""
        with self._tables.lock:
            return self._tables.current.get(source)

    def remove(self, namespace: str) -> None:
        """Forget a namespace and everything made for it; the source log stays."""
        tables = self._tables
        with tables.lock:
            info = tables.namespace(namespace).info
            if tables.current.get(info.source) == namespace:
                raise is_current(namespace, info.source)
            units = [Unit(namespace, partition) for partition in range(info.partitions)]
            for unit in units:
                self._check_free(unit)
            del tables.namespaces[namespace]
            tables.manifests.pop(namespace, None)
            for unit in units:
                tables.verdicts.pop(unit, None)
                tables.outputs.pop(unit, None)

    def _check_free(self, unit: Unit) -> None:
        for role in Role:
            holder = self._tables.holders.get((unit, role))
            if holder is not None:
                raise held(unit, role, holder)

    # Landed files

    def record_landed(self, landed: Landed) -> None:
        """Keep that a file was set aside."""
        error = None if landed.error is None else storable(landed.error)
        kept = landed._replace(name=storable(landed.name), error=error)
        with self._tables.lock:
            self._tables.landed.setdefault(landed.source, []).append(kept)

    def landed(self, source: str) -> Sequence[Landed]:
        """Files that were picked up for a source, in order."""
        with self._tables.lock:
            return list(self._tables.landed.get(source, ()))

    # Counts

    def row_counts(self, unit: Unit, counted: Collection[Counted]) -> Mapping[Counted, int]:
        """How many rows a unit has of each kind."""
        with self._tables.lock:
            counts = _counts(self._tables.unit(unit))
        return {each: counts[each] for each in counted}


def _counts(table: UnitTable) -> Mapping[Counted, int]:
    pages = {(key, page_of(day)) for key, state in table.keys.items() for day in state.rows.days}
    return {
        Counted.TRANSACTIONS: sum(map(len, table.authorities.values())),
        Counted.OBSERVATIONS: sum(map(len, table.observations.values())),
        Counted.QUARANTINED: len(table.rejections),
        Counted.PAGES: len(pages),
        Counted.OUTPUTS: len(table.view),
        Counted.VISIBLE: sum(map(visible, table.view.values())),
    }
