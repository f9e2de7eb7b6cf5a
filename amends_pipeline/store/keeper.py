"""Keep one private PostgreSQL server running for as long as somebody holds its lease.

Run by `embedded.py` as `python -I -S keeper.py FOLDER BINARIES LINGER [name=value ...]`, with the
standard library alone, so that it starts in some 30 ms and leans on nothing that a project may
break. The launcher forks and returns at once; the keeper lives on in a session of its own. FOLDER
holds:

    lease         every user of the server holds flock(LOCK_SH) on it, freed however a user dies
    keeper.lock   the one keeper holds flock(LOCK_EX); its text is the keeper's process number
    data/         0700; made by initdb as data.new.NUMBER and renamed: it is whole or absent
    socket/       0700; or, if that path is no good for a socket, a folder of ours in /tmp
    address       the folder of the socket, written before the server starts
    failure       why the server cannot start, for its users to tell
    server.log, keeper.log

There is no count of users and no exit handler: killing anything leaves nothing that needs repair. A
keeper that dies takes the server with it (PDEATHSIG, on Linux), and the next user starts the next
keeper.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

if __name__ == "__main__":  # -I and -S leave only the standard library to be found
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from amends_pipeline.store.leftovers import is_still, sweep, workers
from amends_pipeline.store.runner import (
    RefusedError,
    Runner,
    choose_runner,
    give,
    give_to_owner,
    initdb_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

LEASE = "lease"
KEEPER_LOCK = "keeper.lock"
DATA = "data"
SOCKET = "socket"
ADDRESS = "address"
FAILURE = "failure"
SERVER_LOG = "server.log"
KEEPER_LOG = "keeper.log"
PORT = 5432

BEAT_SECONDS = 0.2
STOP_SECONDS = 60.0  # a fast shutdown writes a checkpoint, which may be long on a slow disk
# struct sockaddr_un has 108 bytes on Linux and 104 on macOS, one of them the final zero.
SOCKET_FOLDER_BYTES = (107 if sys.platform == "linux" else 103) - len(f"/.s.PGSQL.{PORT}")
STARTS_REFUSED = 3  # as many errors soon after a start, one after another, are no accident
SOON_SECONDS = 10.0
LOG_BYTES = 4_000_000
SAYING = re.compile(
    r"(?P<process>\[\d+\] )?(?P<level>FATAL|PANIC|HINT|DETAIL|\berror): +(?P<text>.*)"
)


class Keeper:
    """One server: made, started, started again if killed, stopped when nobody holds the lease."""

    def __init__(
        self, folder: Path, binaries: Path, linger: float, settings: Sequence[str]
    ) -> None:
        """Remember what to keep; `settings` are PostgreSQL's own, each as name=value."""
        self.folder, self.binaries, self.linger, self.settings = folder, binaries, linger, settings
        self.data = folder / DATA
        self.asked_to_stop = False

    def run(self) -> None:
        """Be the keeper if there is none; return when the server has been stopped or refused."""
        with contextlib.ExitStack() as stack:
            lease = os.open(self.folder / LEASE, os.O_RDWR | os.O_NOFOLLOW)
            stack.callback(os.close, lease)
            self.home = os.fstat(lease)
            try:
                own = open_ours(self.folder / KEEPER_LOCK, os.O_RDWR)
            except OSError as error:
                self._tell(f"{error.strerror}: {error.filename}")
                return
            stack.callback(os.close, own)  # closed before the lease: who gets that finds no keeper
            if not try_lock(own, fcntl.LOCK_EX) or not is_still(
                self.folder / KEEPER_LOCK, os.fstat(own)
            ):
                return
            try:
                os.truncate(own, 0)
                os.write(own, f"{os.getpid()}\n".encode())
                (self.folder / FAILURE).unlink(missing_ok=True)
                self._keep(lease)
            except RefusedError as refusal:
                self._tell(str(refusal))
            except OSError as error:
                traceback.print_exc()
                self._tell(f"{error.strerror}: {error.filename}")

    def stop_when_asked(self, _number: int, _frame: FrameType | None) -> None:
        """Handle SIGTERM: stop the server in good order although it may be in use."""
        self.asked_to_stop = True

    def _tell(self, why: str) -> None:
        if self._at_home():
            with contextlib.suppress(OSError):  # a full disk has no place for it
                write_whole(self.folder / FAILURE, why.encode(errors="replace"))

    def _at_home(self) -> bool:
        return is_still(self.folder / LEASE, self.home)

    def _keep(self, lease: int) -> None:
        self.runner = choose_runner(self.folder, self.binaries)
        self._make_data()
        self.identity = self.data.stat()
        self.socket = socket_folder(self.folder)
        self._start()
        refusals, idle_since = 0, None
        try:
            while not self.asked_to_stop and self._at_home():
                time.sleep(BEAT_SECONDS)
                if (status := self._ended()) is not None:
                    soon = time.monotonic() - self.started < SOON_SECONDS
                    refusals = refusals + 1 if status > 0 and soon else 0
                    if refusals == STARTS_REFUSED:
                        raise RefusedError(self._last_words())
                    self._start()
                if not try_lock(lease, fcntl.LOCK_EX):
                    idle_since = None
                    continue
                idle_since = idle_since or time.monotonic()
                if time.monotonic() - idle_since >= self.linger:
                    return  # with the lock: who comes now waits until the server is down
                fcntl.flock(lease, fcntl.LOCK_UN)
        finally:
            self._stop()

    def _make_data(self) -> None:
        for left in self.folder.glob("*.new.*"):  # of a keeper that was killed
            shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink()
        if not self.data.exists():
            fresh = self.folder / f"{DATA}.new.{os.getpid()}"
            fresh.mkdir(0o700)
            give(fresh, self.runner)
            options: list[str | Path] = ["-D", fresh, "--username=postgres", "--auth=trust"]
            options += ["--encoding=UTF8", "--locale=C"]
            options += ["--no-sync"] * ("fsync=off" in self.settings)
            with initdb_of(self.binaries) as initdb:
                made = self.runner.spawn([initdb, *options], subprocess.PIPE)
                lines = made.communicate()[0].decode(errors="replace").strip().splitlines()
            if made.returncode != 0:
                message = f"initdb ended with status {made.returncode}: {reason(lines)}"
                raise RefusedError(message)
            fresh.rename(self.data)
            descriptor = os.open(self.folder, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)
        give(self.data, self.runner)

    def _start(self) -> None:
        sweep(self.data, self.identity)
        open_socket_folder(self.socket, self.runner)
        write_whole(self.folder / ADDRESS, os.fsencode(self.socket))
        quoted = str(self.socket).replace('"', '""')
        settings = ["listen_addresses=", f"port={PORT}", f'unix_socket_directories="{quoted}"']
        settings += [
            "unix_socket_permissions=0700",
            "timezone=UTC",
            "log_timezone=UTC",
            *self.settings,
        ]
        command: list[str | Path] = [self.binaries / "postgres", "-D", self.data]
        command += [part for setting in settings for part in ("-c", setting)]
        log = self.folder / SERVER_LOG
        if log.exists() and log.stat().st_size > LOG_BYTES:
            log.replace(log.with_suffix(".log.1"))
        with os.fdopen(open_ours(log, os.O_WRONLY | os.O_APPEND), "ab") as words:
            self.log_start = words.tell()
            self.server = self.runner.spawn(command, words.fileno())
        self.started = time.monotonic()
        self.listened = False

    def _ended(self) -> int | None:
        """Return the server's exit status if it has ended; end one whose socket was taken away."""
        there = (self.socket / f".s.PGSQL.{PORT}").exists()
        if self.listened and not there and self._at_home():
            self.server.send_signal(signal.SIGINT)  # a cleaner of temporary folders has been here
        self.listened = there
        return self.server.poll()

    def _last_words(self) -> str:
        with (self.folder / SERVER_LOG).open("rb") as log:
            log.seek(self.log_start)
            lines = log.read().decode(errors="replace").strip().splitlines()
        return f"the server ended with status {self.server.returncode}: {reason(lines)}"

    def _stop(self) -> None:
        steps = ((signal.SIGINT, STOP_SECONDS), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0))
        # A deleted home is worth no orderly end, in which the server would also remove by its name
        # a socket that the next server may have made already.
        for number, seconds in steps if self._at_home() else steps[-1:]:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.server.send_signal(number)
                self.server.wait(seconds)
                break
        if not self._at_home():
            for process in workers(self.data, self.identity):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            if not self.folder.exists() and self.socket.parent != self.folder:
                shutil.rmtree(self.socket, ignore_errors=True)
            return
        sweep(self.data, self.identity)
        (self.folder / ADDRESS).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            if self.socket.parent != self.folder:
                self.socket.rmdir()


def reason(lines: Sequence[str]) -> str:
    """Return what a server or initdb says of its end, without what it told to others meanwhile."""
    told, speaker = [], None
    for line in lines:
        found = SAYING.search(line)
        if found is None or found["text"].startswith("the database system is "):
            continue
        if found["level"] not in {"HINT", "DETAIL"}:
            speaker = found["process"]
        elif found["process"] != speaker:
            continue
        told.append(found["text"].strip())
    return "; ".join(dict.fromkeys(told or lines[-2:])) or "no word"


def open_ours(path: Path, flags: int) -> int:
    """Open a file of the folder, made if missing.

    A link is not followed: it is none of ours, and a keeper that root runs must not write where
    somebody else points. What root makes in a folder of another user is that user's.
    """
    descriptor = os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    give_to_owner(path.parent, descriptor)
    return descriptor


def try_lock(descriptor: int, kind: int) -> bool:
    """Take a lock, LOCK_SH or LOCK_EX, if that is possible at once."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def write_whole(path: Path, content: bytes) -> None:
    """Write a small file so that a reader sees the whole of it or the one before."""
    fresh = path.with_name(f"{path.name}.new.{os.getpid()}")
    fresh.write_bytes(content)
    fresh.replace(path)


def socket_folder(folder: Path) -> Path:
    """Return the socket's folder: below the folder if it fits, else a short one named after it."""
    if _fits_a_socket(folder / SOCKET):
        return folder / SOCKET
    name = f"amends-{os.geteuid()}-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]}"
    # Planted folders are refused when it is opened.
    for base in (Path("/tmp"), Path(tempfile.gettempdir())):  # noqa: S108 - made 0700
        if os.access(base, os.W_OK | os.X_OK) and _fits_a_socket(base / name):
            return base / name
    message = f"no temporary folder short enough for a socket, which is {SOCKET_FOLDER_BYTES} bytes"
    raise RefusedError(message)


def _fits_a_socket(folder: Path) -> bool:
    raw = os.fsencode(folder)
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return len(raw) <= SOCKET_FOLDER_BYTES and b"," not in raw  # libpq splits hosts at commas


def open_socket_folder(folder: Path, runner: Runner) -> None:
    """Make the socket's folder, 0700; use an existing one only if no other can have planted it."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(0o700)
    found = folder.lstat()
    if (
        not stat.S_ISDIR(found.st_mode)
        or found.st_uid not in {os.geteuid(), runner.uid}
        or stat.S_IMODE(found.st_mode) & 0o077
    ):
        message = f"{folder} is not a folder of ours with mode 0700"
        raise RefusedError(message)
    give(folder, runner)
    for name in (f".s.PGSQL.{PORT}", f".s.PGSQL.{PORT}.lock"):
        (folder / name).unlink(missing_ok=True)


def main(arguments: Sequence[str]) -> int:
    """Fork; the parent returns 0 at once, the child is the keeper until its end."""
    folder, binaries, linger, *settings = arguments
    if os.fork():
        return 0
    os.setsid()
    os.umask(0o077)
    keeper = Keeper(Path(folder), Path(binaries), float(linger), settings)
    # What the starter ignored or blocked is not for us: without SIGCHLD no end would be seen.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, keeper.stop_when_asked)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    with contextlib.suppress(FileNotFoundError):  # the home was deleted meanwhile
        keeper.run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
