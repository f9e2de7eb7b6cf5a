"""Append: lines of text become records of the source log, byte for byte.

Every line is read before the first one is appended, so a file that is refused leaves no trace, and
all lines of one call are appended in one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from amends_pipeline.flows.bound import check_bound
from amends_pipeline.inventory.config import default_partition
from amends_pipeline.inventory.revision import decode
from amends_pipeline.kernel.errors import InputError
from amends_pipeline.ports import Landed, Ledger, SourceBinding, SourceRecord

MAX_LINE_BYTES = 16 * 1024 * 1024
"""A longer line refuses its file. (A value over 1 MiB is appended, and quarantined later.)"""


class Appended(NamedTuple):
    """How many records were appended, and the new end of every partition."""

    appended: int
    ends: Sequence[int]


class Line(NamedTuple):
    """A line of an input, without its line end."""

    input: str
    number: int
    value: bytes


def checked(lines: Iterable[Line]) -> Iterator[Line]:
    """Pass lines on, without the empty ones. Raises InputError at a line that is too long."""
    for line in lines:
        if len(line.value) > MAX_LINE_BYTES:
            raise InputError(
                f"{line.input}, line {line.number}",
                expected=f"at most {MAX_LINE_BYTES} bytes",
                found=f"{len(line.value)}",
            )
        if line.value:
            yield line


def append(  # noqa: PLR0913 - what is appended, where, and who is told
    ledger: Ledger,
    namespace: str,
    lines: Iterable[Line],
    *,
    undecodable_partition: int = 0,
    on_appended: Callable[[int], None] = lambda _: None,
    waiting: Callable[[str], None] | None = None,
) -> Appended:
    """Append each line to the source of a namespace.

    `waiting` is told, by another thread, the source of which another append is waited for.

    Raises UnknownNamespace, InputError; ForeignIncarnation when the source is not the one that the
    namespace was bound to.
    """
    info = ledger.store.info(namespace)
    binding = ledger.store.source_binding(info.source)
    if binding is None:
        binding = SourceBinding(info.source, info.incarnation, info.partitions, {})
    return append_to(
        ledger,
        binding,
        lines,
        undecodable_partition=undecodable_partition,
        on_appended=on_appended,
        waiting=waiting,
    )


def append_to(  # noqa: PLR0913 - what is appended, where, and who is told
    ledger: Ledger,
    binding: SourceBinding,
    lines: Iterable[Line],
    *,
    landing: Landed | None = None,
    undecodable_partition: int = 0,
    on_appended: Callable[[int], None] = lambda _: None,
    waiting: Callable[[str], None] | None = None,
) -> Appended:
    """Append each line to the partition of its stock key.

    A line that does not decode has no key; it goes to `undecodable_partition`. `landing` is the
    file that the lines are from, recorded with them. Raises InputError, AlreadyLanded,
    ForeignIncarnation.
    """
    if not 0 <= undecodable_partition < binding.partitions:
        raise InputError(
            f"source {binding.source}",
            expected=f"a partition from 0 to {binding.partitions - 1}",
            found=str(undecodable_partition),
        )
    count = 0

    def records() -> Iterator[SourceRecord]:
        nonlocal count
        for line in checked(lines):
            revision = decode(line.value)
            partition = undecodable_partition
            if revision is not None:
                stock_key = (revision.item, revision.location)
                routed = binding.routes.get(stock_key)
                partition = (
                    default_partition(stock_key, binding.partitions) if routed is None else routed
                )
            count += 1
            on_appended(1)
            yield SourceRecord(partition, None, line.value)

    source = ledger.source(binding.source)
    check_bound(f"source {binding.source}", source, binding.incarnation)
    told = None if waiting is None else partial(waiting, binding.source)
    ends = source.append(records(), landing=landing, waiting=told)
    return Appended(count, ends)
