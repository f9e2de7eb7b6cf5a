"""Take: an export comes into the folder of its stream, is examined there, and is kept or rejected.

    <folder>/export/     the last export that was valid: what balances are made from
    <folder>/rejected/   the last one that was not, as it came

Each of them holds `groups.jsonl`, `accounts.json` and `context.json`. What is rejected takes
nobody's place, so that balances never come from it.
"""

from __future__ import annotations

import json
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from amends_pipeline.bank import coverage, export
from amends_pipeline.bank.batches import Batch, read_lines
from amends_pipeline.bank.codes import Code, HeadCode, RefusedError, Rejection
from amends_pipeline.bank.coverage import Coverage, prefixes_of
from amends_pipeline.bank.heads import Prefix, Stream, empty_digest, receipt_ref
from amends_pipeline.bank.values import Account, Head
from amends_pipeline.flows.bank_export import Files
from amends_pipeline.flows.bank_export import export as export_live
from amends_pipeline.flows.bank_heads import accept
from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import InputError, OperationError
from amends_pipeline.ports.bank import BankJournal

KEPT: Final = "export"
REJECTED: Final = "rejected"
_NAMES: Final = ("groups.jsonl", "accounts.json", "context.json")
_ORIGIN: Final = "origin.json"
_CHUNK_BYTES: Final = 1 << 20
STALE_SECONDS: Final = 86_400
"""Nothing takes so long: what is unfinished then is nobody's."""


class Origin(NamedTuple):
    """Where an export came from."""

    live: bool
    """Whether it is our live journal's; otherwise somebody offered it."""
    digest: str
    """SHA-256 of `groups.jsonl`, hexadecimal."""
    busiest: str | None
    """The account with the most legs; None where there is none, or the export was rejected."""

    def version(self, head: Head | None) -> str:
        """Name the content: `5/R-5-...`; the reference of an offered one may be anything."""
        sequence = "0" if head is None else head.head_sequence
        if self.live and head is not None:
            return f"{sequence}/{head.receipt_ref}"
        return f"{sequence}/offered/{self.digest[:16]}"


class Taken(NamedTuple):
    """An export in the folder of its stream."""

    folder: Path
    origin: Origin
    lines: int
    """Of `groups.jsonl`: one for each group."""
    size_bytes: int
    """Of all three files."""
    head: Head | None
    """None where the context cannot be read."""
    found: Coverage | Rejection


class Documents(NamedTuple):
    """What stands beside the groups, as JSON values."""

    accounts: object
    context: object


def take(journal: BankJournal, stream_id: str, folder: Path, offered: Path | None = None) -> Taken:
    """Export the live journal, or copy an offered export, and examine it.

    offered: a folder with the three files; None for the live journal. An offered export is held
    against the heads that are remembered, and its own is remembered when it is valid and of a
    stream that others keep. Raises UnknownStream; InputError where the offered files cannot be
    read, or are no JSON; OperationError.
    """
    incoming = folder / f".{uuid.uuid4().hex}"
    _sweep(folder)
    with _writing(incoming):
        if offered is None:
            export_live(journal, stream_id, files_of(incoming))
        else:
            _copy(offered, incoming)
        digest, lines = _digest(incoming / _NAMES[0])
        head = _head(read(incoming, offered))
        found = _examined(incoming, stream_id, offered)
        if not isinstance(found, Rejection):
            with groups(incoming) as batches:
                prefixes = prefixes_of(found.head, batches)
                found = (
                    _own(found.head, prefixes)
                    if offered is None
                    else accept(journal, found.head, prefixes)
                ) or found
        busiest = None if isinstance(found, Rejection) else found.busiest
        origin = Origin(offered is None, digest, busiest)
        (incoming / _ORIGIN).write_text(json.dumps(origin._asdict()))
        size = sum((incoming / name).stat().st_size for name in _NAMES)
        place = folder / (REJECTED if isinstance(found, Rejection) else KEPT)
        _put(incoming, place)
    return Taken(place, origin, lines, size, head, found)


def files_of(folder: Path) -> Files:
    """Name the three files of an export."""
    return Files(*(folder / name for name in _NAMES))


def origin_of(folder: Path) -> Origin:
    """Tell where an export that was kept came from. Raises OperationError."""
    return Origin(**json.loads(_bytes(folder / _ORIGIN)))


def read(folder: Path, source: Path | None = None) -> Documents:
    """Read what stands beside the groups. Raises InputError.

    source: where a message says that the export stands, if it is a copy.
    """
    return Documents(
        *(
            export.read_value(_bytes(folder / name), shown(str((source or folder) / name)))
            for name in _NAMES[1:]
        )
    )


def trusted(folder: Path) -> tuple[Head, dict[str, Account]]:
    """Read head and accounts of an export that was kept. Raises InputError."""
    documents = read(folder)
    try:
        head = export.parse_context(documents.context).head
        return head, export.parse_accounts(documents.accounts)
    except RefusedError as refusal:
        rejection = refusal.rejection
        where = f"{shown(str(folder))}, {rejection.where}"
        raise InputError(where, expected=rejection.expected, found=rejection.found) from None


@contextmanager
def groups(folder: Path, source: Path | None = None) -> Iterator[Iterator[Batch]]:
    """Read the groups of an export, which stand one a line, for a block.

    source: as `read` has it. Raises OperationError; InputError as groups come.
    """
    path = folder / _NAMES[0]
    with _refusing(path), path.open("rb") as lines:
        yield read_lines(lines, shown(str((source or folder) / _NAMES[0])))


def _examined(folder: Path, stream_id: str, source: Path | None) -> Coverage | Rejection:
    documents = read(folder, source)
    with groups(folder, source) as batches:
        found = coverage.examine(*documents, batches)
    if not isinstance(found, Rejection) and found.head.stream_id != stream_id:
        expected = f"stream {stream_id}"
        return Rejection(Code.SCOPE_MISMATCH, "head", expected, found.head.stream_id)
    return found


def _own(head: Head, prefixes: Iterable[Prefix]) -> Rejection | None:
    """Tell whether groups of the live journal are those whose digest its head refers to.

    What was changed behind the journal's back need not break a rule.
    """
    stream, sequence = Stream(head.stream_id, head.ledger_id, head.entity_id), head.head_sequence
    digest = empty_digest(stream)
    for prefix in prefixes:
        digest = prefix.digest
    if receipt_ref(head.stream_id, int(sequence), digest) == head.receipt_ref:
        return None
    expected = f"the history of {head.receipt_ref}"
    found = "another history"
    return Rejection(HeadCode.FORKED_HEAD, f"sequence {sequence}", expected, found)


def _head(documents: Documents) -> Head | None:
    try:
        return export.parse_context(documents.context).head
    except RefusedError:
        return None


def _digest(path: Path) -> tuple[str, int]:
    digest, lines = sha256(), 0
    with _refusing(path), path.open("rb") as content:
        while chunk := content.read(_CHUNK_BYTES):
            digest.update(chunk)
            lines += chunk.count(b"\n")
    return digest.hexdigest(), lines


def _copy(offered: Path, incoming: Path) -> None:
    for name in _NAMES:
        source = offered / name
        with _refusing(source, InputError):
            shutil.copyfile(source, incoming / name)


def _bytes(path: Path) -> bytes:
    with _refusing(path):
        return path.read_bytes()


def _put(incoming: Path, place: Path) -> None:
    """Let a folder take the place of another one, which is there whole until then."""
    old = place.with_name(f".{uuid.uuid4().hex}")
    with _refusing(place):
        if place.exists():
            place.rename(old)
        incoming.rename(place)
        shutil.rmtree(old, ignore_errors=True)


def _sweep(folder: Path) -> None:
    """Remove what killed processes left behind: folders and files whose name begins with a dot."""
    for path in folder.glob(".*"):
        with suppress(OSError):  # somebody else was quicker
            if time.time() - path.stat().st_mtime > STALE_SECONDS:
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink()


@contextmanager
def _writing(incoming: Path) -> Iterator[None]:
    """Make a folder for a block, and remove it unless it was put somewhere."""
    with _refusing(incoming.parent):
        incoming.mkdir(parents=True)
    try:
        yield
    finally:
        shutil.rmtree(incoming, ignore_errors=True)


@contextmanager
def _refusing(
    path: Path, kind: Callable[..., InputError | OperationError] = OperationError
) -> Iterator[None]:
    """Turn a refusal of the file system into an error of ours."""
    try:
        yield
    except OSError as error:
        found = error.strerror or type(error).__name__
        raise kind(
            f"file {shown(str(path))}", expected="a file to read or write", found=found
        ) from None
