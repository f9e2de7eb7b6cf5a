"""Processes and files that an earlier server left in its data folder, and how to be rid of them.

Part of the keeper (see `keeper.py`): the standard library alone. Call it only with the keeper's
lock held.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from amends_pipeline.store.runner import RefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence

# A fast shutdown first, then an immediate one, then force; seconds of patience with each.
IN_GOOD_ORDER = (signal.SIGINT, 10.0)
BY_FORCE = ((signal.SIGQUIT, 0.5), (signal.SIGKILL, 10.0))


def workers(data: Path, identity: os.stat_result) -> list[int]:
    """Return each PostgreSQL process that works in the data folder, whoever its parent is.

    `identity` is the folder's own, so that a folder deleted, or made anew under its name, is no
    other's.
    """
    if not Path("/proc/self").exists():
        return _by_its_pid_file(data)
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            # Zombies and other users' processes have no readable folder; those cannot be ours.
            with contextlib.suppress(OSError):
                if (
                    os.path.samestat(Path(entry.path, "cwd").stat(), identity)
                    and Path(entry.path, "exe").readlink().name.split()[0] == "postgres"
                ):
                    found.append(int(entry.name))
    return found


def postmaster(data: Path) -> int | None:
    """Return the process number in postmaster.pid; after a power loss it may be anybody's."""
    try:
        return int((data / "postmaster.pid").read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        return None


def _by_its_pid_file(data: Path) -> list[int]:
    # macOS: only the postmaster can be found; its children notice its end by themselves.
    number = postmaster(data)
    if number is None:
        return []
    command = ["ps", "-o", "comm=", "-p", str(number)]
    shown = subprocess.run(command, check=False, capture_output=True, text=True)
    return [number] if Path(shown.stdout.strip()).name == "postgres" else []


def sweep(data: Path, identity: os.stat_result) -> None:
    """End every process of an earlier server and remove its pid file, or raise RefusedError.

    A backend may outlive a killed postmaster for ever and keep the shared memory in use. The number
    in the pid file may be a stranger's or a zombie's by now; either would keep the next server from
    starting.
    """
    leader = postmaster(data)
    steps = (IN_GOOD_ORDER, *BY_FORCE) if leader in workers(data, identity) else BY_FORCE
    for number, seconds in steps:
        _tell(workers(data, identity), leader, number)
        until = time.monotonic() + seconds
        while workers(data, identity) and time.monotonic() < until:
            time.sleep(0.02)
    if left := workers(data, identity):
        message = f"processes {left} of an earlier server cannot be ended"
        raise RefusedError(message)
    if is_still(data, identity):
        (data / "postmaster.pid").unlink(missing_ok=True)


def is_still(path: Path, identity: os.stat_result) -> bool:
    """Say whether a path still names that file or folder: not once it was deleted, or made anew."""
    try:
        return os.path.samestat(path.stat(), identity)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _tell(processes: Sequence[int], leader: int | None, number: signal.Signals) -> None:
    for process in processes:
        # In a backend SIGINT only cancels a statement; the postmaster's stops them all.
        if number is not signal.SIGINT or process == leader:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)
