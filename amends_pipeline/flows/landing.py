"""Landing: files that somebody puts into a folder become records of a source, each once.

    landing/SOURCE/              *.jsonl and *.csv, taken in the order of their names
    landing/SOURCE/done/         what was appended, as DIGEST-NAME
    landing/SOURCE/set-aside/    what could not be read as records, with NAME.error.txt beside it

A file is taken when it has not changed for two seconds. A producer who pauses longer writes under a
name that ends in .part or .tmp, or begins with a dot, and renames the file when it is whole.

A file's records and the note that it has landed are one commit, and the note holds the SHA-256 of
its bytes: whatever happens between commit and move, and whoever else takes the file meanwhile,
nothing is appended twice. Links are not followed. An empty file may be one that is about to be
written: it is taken when it has been empty for a minute.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from errno import ENOTDIR
from pathlib import Path
from typing import BinaryIO, NamedTuple

from amends_pipeline.flows.append import Line, append_to, checked
from amends_pipeline.flows.reading import BLOCK_BYTES, Format, lines, told
from amends_pipeline.kernel.canonical import sha256_hex
from amends_pipeline.kernel.display import escape_terminal, shown
from amends_pipeline.kernel.errors import AlreadyLanded, InputError, OperationError
from amends_pipeline.ports import Landed, Ledger, SourceBinding

FOLDER = "landing"
DONE = "done"
SET_ASIDE = "set-aside"
ERROR_SUFFIX = ".error.txt"

SUFFIXES = (".jsonl", ".csv")
UNFINISHED = (".part", ".tmp")
SETTLED_NANOSECONDS = 2_000_000_000
EMPTY_NANOSECONDS = 60_000_000_000
"""For so long an empty file may be one that somebody has just begun to write."""
FILES_AT_ONCE = 1_000
"""Files of a folder that one look sees, in the order of their names."""
NAMED = 3
"""Files that a sentence about a folder names."""
A_LINK = "its folder is a link, and links are not followed"
LONGEST_NAME_BYTES = 255
DIGEST_LENGTH = 12
"""Digits of a digest that stand in a name."""


class Identity(NamedTuple):
    """What tells a file, and a state of it, from every other one. A rename changes nothing."""

    device: int
    inode: int
    size: int
    modified_nanoseconds: int

    @classmethod
    def of(cls, status: os.stat_result) -> Identity:
        """Take it from what the system says of the file."""
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class File(NamedTuple):
    """A whole file in a landing folder."""

    name: str
    identity: Identity


@dataclass(frozen=True, slots=True)
class Seen:
    """What lies in the landing folder of a source."""

    source: str
    whole: Sequence[File] = ()
    """By name."""
    waiting: Sequence[tuple[str, str]] = ()
    """(name, why it is not taken) of what is not."""
    refused: str = ""
    """Why nothing is taken from the folder, whatever lies there."""

    @property
    def fingerprint(self) -> str:
        """Tells these whole files from every other lot of files."""
        return sha256_hex(repr([tuple(each) for each in self.whole]).encode())[:DIGEST_LENGTH]

    @property
    def waits(self) -> str:
        """Say in words what is not taken, and why; nothing where there is nothing."""
        named = [f"{shown(name)} {why}" for name, why in self.waiting[:NAMED]]
        more = len(self.waiting) - len(named)
        return ", ".join([*named, *([f"and {more} more"] if more > 0 else [])])


class Fate(StrEnum):
    """What became of a file."""

    APPENDED = "appended"
    APPENDED_BEFORE = "appended before"
    SET_ASIDE = "set aside"
    LEFT = "left where it is"


class Outcome(NamedTuple):
    """A file, and what became of it."""

    name: str
    fate: Fate
    digest: str = ""
    records: int = 0
    note: str = ""
    """Why it was set aside or left; also why one that was appended could not be moved."""


# --- looking


def look(root: Path, now_nanoseconds: int) -> list[Seen]:
    """See what lies in the folder of each source, by name; nothing where there is no such folder.

    Raises OperationError when a folder cannot be listed.
    """
    with _listing(root):
        try:
            entries = [entry for entry in os.scandir(root) if _is_folder(entry)]
        except FileNotFoundError:
            return []
    return [
        Seen(entry.name, refused=A_LINK)
        if entry.is_symlink()
        else look_into(root / entry.name, now_nanoseconds)
        for entry in sorted(entries, key=lambda entry: entry.name)
    ]


def look_into(folder: Path, now_nanoseconds: int) -> Seen:
    """See what lies in the folder of one source. Raises OperationError."""
    whole: list[File] = []
    waiting: list[tuple[str, str]] = []
    with _listing(folder):
        _no_link(folder)
        entries = [
            entry
            for entry in os.scandir(folder)
            if not entry.name.startswith(".") and entry.name not in {DONE, SET_ASIDE}
        ]
    entries.sort(key=lambda entry: entry.name)
    for entry in entries:
        if len(whole) == FILES_AT_ONCE:
            break
        with suppress(FileNotFoundError):  # somebody took it meanwhile
            why = _not_taken(entry, now_nanoseconds)
            if why:
                waiting.append((entry.name, why))
            else:
                whole.append(File(entry.name, Identity.of(entry.stat(follow_symlinks=False))))
    return Seen(folder.name, whole, waiting)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    return not entry.name.startswith(".") and entry.is_dir()


def _not_taken(entry: os.DirEntry[str], now_nanoseconds: int) -> str | None:
    """Say why an entry is not taken, if so."""
    if entry.is_symlink():
        return "is a link"
    if not entry.is_file(follow_symlinks=False):
        return "is no file"
    if entry.name.lower().endswith(UNFINISHED):
        return "is not finished"
    if not entry.name.lower().endswith(SUFFIXES):
        return "is neither .jsonl nor .csv"
    return _not_settled(entry, now_nanoseconds)


def _not_settled(entry: os.DirEntry[str], now_nanoseconds: int) -> str | None:
    status = entry.stat(follow_symlinks=False)
    # The system notes every write here, and whoever sets the time of the last write back.
    unchanged = now_nanoseconds - status.st_ctime_ns
    if status.st_size == 0 and unchanged < EMPTY_NANOSECONDS:
        return "is empty, and taken after a minute"
    if unchanged < SETTLED_NANOSECONDS:
        return "changed just now"
    return None if os.access(entry.path, os.R_OK) else "cannot be read"


@contextmanager
def _listing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = f"landing folder {shown(str(folder))}"
        raise OperationError(where, expected="a folder to list", found=told(error)) from None


# --- landing


def land(
    ledger: Ledger,
    root: Path,
    source: str,
    *,
    seconds: float | None = None,
    clock: Callable[[], int] = time.time_ns,
) -> Iterator[Outcome]:
    """Append the whole files of a source's folder, each in a transaction of its own.

    No file is begun after `seconds`. Raises InputError when no namespace has the source,
    OperationError when the folder cannot be listed, and what the ledger raises.
    """
    binding = ledger.store.source_binding(source)
    if binding is None:
        where = f"landing folder {shown(source)}"
        raise InputError(where, expected="the name of a namespace's source", found=shown(source))
    deadline = None if seconds is None else time.monotonic() + seconds
    place = _Place(ledger, binding, root / source, clock)
    for file in look_into(place.folder, clock()).whole:
        if deadline is not None and time.monotonic() > deadline:
            return
        yield _land(place, file)


@dataclass(frozen=True, slots=True)
class _Place:
    ledger: Ledger
    binding: SourceBinding
    folder: Path
    clock: Callable[[], int]

    def landed(self, file: File, digest: str, error: str | None = None) -> Landed:
        """The note about a file, as it is kept."""
        at = datetime.fromtimestamp(self.clock() // 1_000_000_000, UTC)
        told_at = at.strftime("%Y-%m-%dT%H:%M:%SZ")
        return Landed(self.binding.source, digest, file.name, 0, error, told_at)


def _land(place: _Place, file: File) -> Outcome:
    try:
        descriptor = os.open(place.folder / file.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as refused:
        return Outcome(file.name, Fate.LEFT, note=told(refused))
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or Identity.of(status) != file.identity:
            return Outcome(file.name, Fate.LEFT, note="it changed just now")
        try:
            digest, fault = _judged(stream, file.name)
            if fault is not None:
                return _set_aside(place, file, digest, fault)
            return _append(place, file, stream, digest)
        except _ChangedError:
            return Outcome(file.name, Fate.LEFT, note="it changed while it was read")
        except OSError as refused:
            return Outcome(file.name, Fate.LEFT, note=told(refused))


class _ChangedError(OperationError):
    """A file is not what it was when it was judged."""


class _Hashed:
    """An open file, and the digest of what was read of it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._digest = hashlib.sha256()
        stream.seek(0)

    def read(self, size: int, /) -> bytes:
        block = self._stream.read(size)
        self._digest.update(block)
        return block

    def readline(self, size: int, /) -> bytes:
        line = self._stream.readline(size)
        self._digest.update(line)
        return line

    def digest(self) -> str:
        """Of the whole file: what was not read yet is read now."""
        while self.read(BLOCK_BYTES):
            pass
        return self._digest.hexdigest()


def _judged(stream: BinaryIO, name: str) -> tuple[str, InputError | None]:
    """The digest of a file, and why no records can be read from it, if so."""
    hashed = _Hashed(stream)
    found = None
    try:
        for _ in checked(lines(hashed, Format.of(name), shown(name))):
            pass
    except InputError as error:
        found = error
    return hashed.digest(), found


def _same(stream: BinaryIO, name: str, digest: str) -> Iterator[Line]:
    """The lines of a file, whose bytes must be those that were judged."""
    hashed = _Hashed(stream)
    with suppress(InputError):  # then the digest is another one, too
        yield from checked(lines(hashed, Format.of(name), shown(name)))
    found = hashed.digest()
    if found != digest:
        raise _ChangedError(f"file {shown(name)}", expected=f"digest {digest}", found=found)


def _append(place: _Place, file: File, stream: BinaryIO, digest: str) -> Outcome:
    fate, records = Fate.APPENDED, 0
    try:
        records = append_to(
            place.ledger,
            place.binding,
            _same(stream, file.name, digest),
            landing=place.landed(file, digest),
        ).appended
    except AlreadyLanded:
        fate = Fate.APPENDED_BEFORE
    target = _fitting(f"{digest[:DIGEST_LENGTH]}-", file.name)
    left = _move(place.folder, file, DONE, target)
    note = left or ("" if file.identity.size else "it was empty")
    return Outcome(file.name, fate, digest, records, note)


def _set_aside(place: _Place, file: File, digest: str, error: InputError) -> Outcome:
    note = place.landed(file, digest, str(error))
    operations = place.ledger.operations
    noted = [each.error for each in operations.landed(note.source) if each.digest == digest]
    if note.error not in noted:
        operations.record_landed(note)
    folder = place.folder / SET_ASIDE
    name = _fitting("", file.name, ERROR_SUFFIX)
    if os.path.lexists(folder / name):
        name = _fitting(f"{digest[:DIGEST_LENGTH]}-", file.name, ERROR_SUFFIX)
    parts = {"where": error.where, "expected": error.expected, "found": error.found}
    text = "".join(f"{part}: {escape_terminal(said)}\n" for part, said in parts.items())
    _folder(folder)
    (folder / f"{name}{ERROR_SUFFIX}").write_text(text, "utf-8")
    left = _move(place.folder, file, SET_ASIDE, name)
    return Outcome(
        file.name, Fate.SET_ASIDE, digest, note="; ".join(filter(None, [str(error), left]))
    )


# --- moving


def _move(folder: Path, file: File, into: str, name: str) -> str:
    """Move a file that was read. Says why not, if so: it is known by its digest all the same."""
    path, target = folder / file.name, folder / into / name
    try:
        _folder(target.parent)
        path.rename(target)
        if Identity.of(target.lstat()) != file.identity:
            # Another file took the name, or this one grew: nobody has read that yet.
            target.rename(path)
            return "not moved: it is another file by now"
    except OSError as error:
        return f"not moved: {told(error)}"
    return ""


def _folder(folder: Path) -> None:
    """Make a folder, which must not be a link to another place. Raises OSError."""
    folder.mkdir(exist_ok=True)
    _no_link(folder)


def _no_link(folder: Path) -> None:
    if folder.is_symlink():
        raise NotADirectoryError(ENOTDIR, "a link")


def _fitting(prefix: str, name: str, suffix: str = "") -> str:
    """Put `prefix` before a name, cut so that `suffix` has room after it."""
    ending = Path(name).suffix
    room = LONGEST_NAME_BYTES - len(os.fsencode(prefix + ending + suffix))
    stem = os.fsencode(name.removesuffix(ending))
    return (
        prefix
        + stem[:room].decode("utf-8", "ignore" if len(stem) > room else "surrogateescape")
        + ending
    )
