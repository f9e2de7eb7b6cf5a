"""The other end of a player's pipe: read a request a line, do it, answer with a line.

Nothing is imported that a peer's environment may lack.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

Answer = Mapping[str, Any]


def serve(commands: Mapping[str, Callable[..., Answer]]) -> None:
    """Obey until the pipe is closed. A command's answer gets the peak memory so far."""
    pipe = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what an engine prints must not be taken for an answer
    for line in sys.stdin:
        request = json.loads(line)
        answer = commands[request.pop("do")](**request)
        pipe.write(json.dumps({**answer, "peak_mb": peak_mb()}) + "\n")
        pipe.flush()


def peak_mb() -> float:
    """Most memory that this process ever had, in MB of 10^6 bytes."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError("/proc/self/status has no VmHWM")


class Clock:
    """Seconds that a block took."""

    seconds = 0.0


@contextmanager
def timed() -> Iterator[Clock]:
    """Time a block."""
    clock = Clock()
    start = perf_counter()
    yield clock
    clock.seconds = perf_counter() - start
