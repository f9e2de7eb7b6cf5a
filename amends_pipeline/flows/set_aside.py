"""Set aside: a record is declared not to be part of a namespace's input."""

from __future__ import annotations

from amends_pipeline.flows.bound import bound
from amends_pipeline.kernel.errors import InputError
from amends_pipeline.ports import Ledger, Unit


def set_aside(ledger: Ledger, unit: Unit, offset: int, reason: str) -> None:
    """Declare the record at `offset` out of the input; it is quarantined when its turn comes.

    Raises InputError when there is no such record, when no reason is given, or when the worker has
    passed the record already; ForeignIncarnation when the source is not the namespace's.
    """
    info = bound(ledger, unit.namespace)
    where = f"set-aside in {unit}"
    if not 0 <= unit.partition < info.partitions:
        raise InputError(
            where,
            expected=f"a partition from 0 to {info.partitions - 1}",
            found=str(unit.partition),
        )
    if not reason.strip():
        raise InputError(where, expected="a reason", found="none")
    source = ledger.source(info.source)
    extent = source.extents()[unit.partition]
    retained = extent.start <= offset < extent.end
    if not (retained and source.read(unit.partition, offset, offset + 1, 1).offsets):
        if extent.start == extent.end:
            found = f"none at offset {offset}"
            raise InputError(where, expected="a record in the source", found=found)
        expected = f"the offset of a record from {extent.start} to {extent.end - 1}"
        raise InputError(where, expected=expected, found=str(offset))
    ledger.store.set_aside(unit, offset, reason)
