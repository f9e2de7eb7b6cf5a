"""Which user runs the private server: PostgreSQL refuses root, and initdb a user without a name.

Part of the keeper (see `keeper.py`): the standard library alone.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# What a shell interprets even in double quotes.
IN_QUOTES = frozenset('"$`\\\n')
# What a user is called inside a user namespace; nearly every passwd file knows it as nobody.
NAMESPACE_UID = 65534
CLONE_NEWUSER = 0x10000000
PR_SET_PDEATHSIG = 1
# A server's process keeps what memory it frees up to this much. glibc's default gives it back after
# each statement and asks for it again, page by page: a quarter of a small commit's processor time.
# Allocations below the second number are not mapped one by one either, which is what glibc would
# find out by itself if the first one were not set.
MEMORY = {"MALLOC_TRIM_THRESHOLD_": f"{64 << 20}", "MALLOC_MMAP_THRESHOLD_": f"{32 << 20}"}

try:
    import ctypes

    LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
except (ImportError, OSError):
    LIBC = None


class RefusedError(Exception):
    """Why the server cannot be had, in words for the user."""


class Runner(NamedTuple):
    """The user that runs the server; `namespace`: the present one, as nobody in a namespace."""

    name: str
    uid: int
    gid: int
    namespace: bool = False

    def enter(self, keeper: int) -> None:
        """In the child, before exec: become that user, and ask for SIGINT at the keeper's end."""
        if self.namespace:
            _enter_namespace(self.uid, self.gid)
        elif os.geteuid() != self.uid:
            os.setgroups([])
            os.setgid(self.gid)
            os.setuid(self.uid)
        if LIBC is not None:  # after the change of user, which would clear it
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0)
            if os.getppid() != keeper:
                os._exit(1)

    def spawn(self, command: Sequence[str | Path], output: int) -> subprocess.Popen[bytes]:
        """Start a program as this user, from the main thread, whose end PDEATHSIG tells."""
        keeper = os.getpid()
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd="/",
            env=environment(),
            preexec_fn=lambda: self.enter(keeper),  # noqa: PLW1509 - the keeper has one thread
        )

    def can_run(self, binaries: Path, folder: Path) -> bool:
        """Try whether this user can execute the server and reach the folder by its whole path."""
        keeper = os.getpid()

        def enter() -> None:
            self.enter(keeper)
            os.chdir(folder)

        try:
            tried = subprocess.run(
                [binaries / "postgres", "--version"],
                check=False,
                capture_output=True,
                env=environment(),
                preexec_fn=enter,
                timeout=30,
            )
        except (OSError, subprocess.SubprocessError):
            return False
        return tried.returncode == 0


def environment() -> dict[str, str]:
    """Return the environment of the server: none of the user's PG* settings, zone or locale."""
    kept = {k: v for k, v in os.environ.items() if k.endswith("LIBRARY_PATH")}
    path = os.environ.get("PATH", os.defpath)
    return {**kept, **MEMORY, "PATH": path, "LC_ALL": "C", "TZ": "UTC"}


def choose_runner(folder: Path, binaries: Path) -> Runner:
    """Return who can run the server: as root the folder's owner, nobody, or else a namespace.

    Raises RefusedError when there is none.
    """
    tried = []
    for runner in _candidates(folder):
        if runner.can_run(binaries, folder):
            return runner
        tried.append(runner.name)
    message = (
        f"no way to run PostgreSQL as {_account(os.geteuid())} (tried: {', '.join(tried)});"
        " run as a named user who is not root, or set AMENDS_HOME to a folder that nobody can reach"
    )
    raise RefusedError(message)


def _candidates(folder: Path) -> Iterator[Runner]:
    uid, gid = os.geteuid(), os.getegid()
    with contextlib.suppress(KeyError):
        if uid != 0:
            yield Runner(pwd.getpwuid(uid).pw_name, uid, gid)
        elif (
            owner := folder.stat().st_uid
        ) != 0:  # so that root's help does not lock the owner out
            entry = pwd.getpwuid(owner)
            yield Runner(entry.pw_name, owner, entry.pw_gid)
    with contextlib.suppress(KeyError):
        if uid == 0:
            nobody = pwd.getpwnam("nobody")
            yield Runner("nobody", nobody.pw_uid, nobody.pw_gid)
    yield Runner("a user namespace", uid, gid, namespace=True)


def _account(uid: int) -> str:
    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user number {uid}, who has no name here"


def _enter_namespace(uid: int, gid: int) -> None:
    # Files stay the user's own, a 0700 tree is no obstacle, and exec leaves no capability.
    if LIBC is None or LIBC.unshare(CLONE_NEWUSER) != 0:
        message = "no user namespace"
        raise OSError(message)
    own = Path("/proc/self")
    (own / "setgroups").write_text("deny")
    (own / "uid_map").write_text(f"{NAMESPACE_UID} {uid} 1")
    (own / "gid_map").write_text(f"{NAMESPACE_UID} {gid} 1")


def give(folder: Path, runner: Runner) -> None:
    """Make the runner own a folder and all below, the folder last: what broke off is done again."""
    if folder.stat().st_uid == runner.uid:
        return
    for at, folders, files in os.walk(folder, topdown=False):
        for name in (*folders, *files):
            os.chown(Path(at, name), runner.uid, runner.gid, follow_symlinks=False)
    os.chown(folder, runner.uid, runner.gid)


def give_to_owner(folder: Path, made: int) -> None:
    """Make what root has opened in another user's folder that user's, who else is locked out."""
    if os.geteuid() == 0 and os.fstat(made).st_uid == 0:
        owner = folder.stat()
        os.fchown(made, owner.st_uid, owner.st_gid)


@contextlib.contextmanager
def initdb_of(binaries: Path) -> Iterator[Path]:
    """Give an initdb that works for a block.

    It hands the path of its programs to a shell, in double quotes. Where these do not hide every
    character, initdb and the server are copied to a path where they do, for the moment, with links
    to what they need beside them.
    """
    if not IN_QUOTES & set(str(binaries)):
        yield binaries / "initdb"
        return
    with tempfile.TemporaryDirectory(prefix="amends-initdb-") as made:
        installation = Path(made, "package", "installation")
        programs = installation / "bin"
        programs.mkdir(parents=True)
        for entry in binaries.parent.iterdir():
            if entry != binaries:
                (installation / entry.name).symlink_to(entry)
        for libraries in binaries.parents[2].glob("*.libs"):  # of a wheel
            Path(made, libraries.name).symlink_to(libraries)
        for name in ("initdb", "postgres"):
            shutil.copy(binaries / name, programs)
        for folder in (programs, *programs.parents[:3]):
            folder.chmod(0o755)  # the runner may be another user
        yield programs / "initdb"
