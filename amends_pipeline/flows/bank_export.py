"""Export: the committed history of a stream, its accounts, and the head that vouches for it.

Everything without a receipt gets one first, and a head is fixed; then groups and head are read from
one snapshot. A head is kept in the transaction that gives the last of its receipts, so that a
snapshot which shows the head shows everything below it. What is posted meanwhile may be in
the snapshot too, and is left out: it has a sequence after the head's, or no receipt.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from amends_pipeline.bank.heads import KnownHead, empty_digest, trusted
from amends_pipeline.bank.values import Account, Context, Group, Head, RegistryEntry
from amends_pipeline.flows.bank_files import written
from amends_pipeline.flows.bank_stamp import observe
from amends_pipeline.kernel.errors import InputError, OperationError
from amends_pipeline.ports.bank import BankJournal, BankSnapshot

Registry = Callable[[BankSnapshot], Sequence[RegistryEntry]]


class Export(NamedTuple):
    """A head, and what it vouches for, from one moment."""

    head: Head
    accounts: Sequence[Account]
    groups: Iterator[Group]
    """In order, as they are read; raises OperationError where they are not those of the head."""
    snapshot: BankSnapshot


class Exported(NamedTuple):
    """What an export wrote."""

    head: Head
    groups: int
    accounts: int


class Files(NamedTuple):
    """Where an export goes. Groups go one a line where the name ends in `.jsonl`."""

    groups: Path
    accounts: Path
    context: Path


@contextmanager
def reading(journal: BankJournal, stream_id: str) -> Iterator[Export]:
    """Export for a block. Raises UnknownStream, and OperationErrors of the store."""
    observe(journal, stream_id)
    with journal.snapshot(stream_id) as snapshot:
        head = snapshot.last_head()
        if head is None:
            raise _broken(stream_id, "a head that was kept", "none")
        yield _export(snapshot, head)


@contextmanager
def looking(journal: BankJournal, stream_id: str) -> Iterator[Export]:
    """Read what an export would hold, for a block. Raises as `reading`.

    Nobody is handed the head, so that it is not remembered: no export becomes stale by a look.
    """
    head = observe(journal, stream_id, remembered=False)
    with journal.snapshot(stream_id) as snapshot:
        yield _export(snapshot, head)


def export(
    journal: BankJournal,
    stream_id: str,
    files: Files,
    *,
    registry: Registry | None = None,
    on_groups: Callable[[int], None] | None = None,
) -> Exported:
    """Write groups, accounts and the trusted context to files, each of them whole or not at all.

    The context comes last: where it stands, the others do. registry: which checkpoints it holds.
    on_groups: told how many more groups were written. Raises as `reading`, InputError when two of
    the files are one, and OperationError when a file cannot be written.
    """
    if len({os.path.realpath(path) for path in files}) < len(files):
        raise InputError("export", expected="three different files", found="one of them twice")
    with reading(journal, stream_id) as read:
        with written(files.groups) as out:
            lines = files.groups.suffix == ".jsonl"
            count = _write_groups(out, read.groups, on_groups, lines=lines)
        with written(files.accounts) as out:
            out.write(msgspec.json.encode(read.accounts) + b"\n")
        entries = tuple(registry(read.snapshot)) if registry else ()
        with written(files.context) as out:
            out.write(msgspec.json.encode(Context(read.head, entries)) + b"\n")
        return Exported(read.head, count, len(read.accounts))


def _export(snapshot: BankSnapshot, head: KnownHead) -> Export:
    accounts, groups = snapshot.accounts(), _groups(snapshot, head)
    return Export(trusted(snapshot.standing.stream, head), accounts, groups, snapshot)


def _groups(snapshot: BankSnapshot, head: KnownHead) -> Iterator[Group]:
    last, stream = empty_digest(snapshot.standing.stream), snapshot.standing.stream
    for group, last in snapshot.groups(head.head_sequence):  # noqa: B007 - the last one counts
        yield group
    if last != head.digest:
        raise _broken(stream.stream_id, f"the history of {head.receipt_ref}", "another")


def _write_groups(
    out: BinaryIO, groups: Iterator[Group], told: Callable[[int], None] | None, *, lines: bool
) -> int:
    before, between, after = (b"", b"\n", b"\n") if lines else (b"[", b",\n", b"]\n")
    encode = msgspec.json.Encoder().encode
    count = 0
    for group in groups:
        out.write(between if count else before)
        out.write(encode(group))
        count += 1
        if told is not None:
            told(1)
    if count or not lines:
        out.write(after if count else before + after)
    return count


def _broken(stream_id: str, expected: str, found: str) -> OperationError:
    return OperationError(f"stream {stream_id}", expected=expected, found=found)
