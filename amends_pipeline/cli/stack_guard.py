"""What sees to it that nothing of a stack outlives `amends up`, whatever is killed.

Run by `stack.py` as a program, with the standard library alone, so that it starts in some 30 ms:

    python -I -S stack_guard.py watch STACK FOLDER      the guard: reads its standard input, whose
                                                        other end `amends up` alone holds. At its
                                                        end it kills what is left of the stack and
                                                        removes the folder of its sockets.
    python -I -S stack_guard.py enter PARENT COMMAND... becomes COMMAND, which is told to stop when
                                                        its parent dies (Linux)

Processes are found by their environment, which all descendants inherit: code servers, run workers
and what these start have other parents, and lose them. Where there is no /proc, all of them are in
the guard's process group.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

STACK_VARIABLE = "AMENDS_STACK"
KEEPER = b"/store/keeper.py"
"""The keeper of the private server is everybody's, whoever of them started it."""
PR_SET_PDEATHSIG = 1
PATIENCE_SECONDS = 10.0
PROC = Path("/proc")


def processes() -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield each process of this user that carries a stack's id, with its environment."""
    for entry in PROC.iterdir() if (PROC / "self").exists() else ():
        if entry.name.isdigit():
            # It may end at any moment; those of other users cannot be read.
            with contextlib.suppress(OSError):
                raw = (entry / "environ").read_bytes()
                if (
                    STACK_VARIABLE.encode() in raw
                    and KEEPER not in (entry / "cmdline").read_bytes()
                ):
                    pairs = (os.fsdecode(pair).partition("=") for pair in raw.split(b"\0") if pair)
                    yield int(entry.name), {name: value for name, _, value in pairs}


def members(stack: str) -> list[int]:
    """Return the processes of a stack."""
    return [process for process, environ in processes() if environ.get(STACK_VARIABLE) == stack]


def end(stack: str) -> bool:
    """Kill the processes of a stack, those too that are just being started; say if all are gone."""
    until = time.monotonic() + PATIENCE_SECONDS
    quiet = 0
    while quiet < 2 and time.monotonic() < until:  # noqa: PLR2004 - twice in a row
        found = members(stack)
        for process in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        quiet = 0 if found else quiet + 1
        time.sleep(0.02)
    return quiet > 0


def watch(stack: str, folder: Path) -> None:
    """Wait for the end of `amends up`, then for the end of its stack."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # who stops everything else needs us
    while os.read(0, 1):
        pass
    end(stack)
    shutil.rmtree(folder, ignore_errors=True)
    if not (PROC / "self").exists():
        os.killpg(os.getpgrp(), signal.SIGKILL)


def enter(parent: int, command: list[str]) -> None:
    """Become a command that hears signals, whatever our starter ignored, and its parent's death."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    if sys.platform == "linux":
        with contextlib.suppress(ImportError, OSError):
            import ctypes

            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() == parent:
        os.execv(command[0], command)  # noqa: S606 - the very point


def main(arguments: Sequence[str]) -> None:
    """Do one of the two."""
    verb, first, *rest = arguments
    if verb == "watch":
        watch(first, Path(rest[0]))
    else:
        enter(int(first), rest)


if __name__ == "__main__":
    main(sys.argv[1:])
