"""The logs of a stack's processes: one file each, and the errors in them for whoever looks on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

CHUNK_BYTES = 1 << 16
SHOWN_LENGTH = 300
LAST_LINES = 3

_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_ERROR = re.compile(r" - (?:ERROR|CRITICAL) - |\A(?:ERROR|CRITICAL): ")  # Dagster, uvicorn


# What Dagster logs of a failed run, and after a blank line why: first the step that failed, then
# each that waited for it, at last the run.
_RUN = re.compile(r" - ERROR - (?P<job>\S+) - (?P<run>[0-9a-f-]{36}) - (?:.* - )?(?P<told>.*)")
_RUN_FAILED = "RUN_FAILURE - "
_BESIDE_IT = re.compile(
    r" - STEP_FAILURE - |Dependencies for step \S+ (?:failed|were not executed): "
)
_LOGGED = re.compile(r"\A\S.* - (?:DEBUG|INFO|WARNING|ERROR|CRITICAL) - |\A[A-Z]+: ")
_OURS = "dagster._core.definitions.events.Failure: "


class Logged(NamedTuple):
    """An error in a log."""

    name: str
    """Of the log."""
    text: str
    run: str | None = None
    """Id of the run that failed; `text` says why, then."""
    job: str | None = None


class Logs:
    """A folder with NAME.log for each process, and NAME.log.1 of the time before."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: dict[str, int] = {}
        self._rest: dict[str, str] = {}
        self._failed: dict[str, Logged] = {}  # by log: a run whose reason has yet to be read

    def fresh(self, name: str) -> BinaryIO:
        """Open an empty log for a process to write to."""
        path = self._path(name)
        if path.exists():
            path.replace(path.with_name(f"{path.name}.1"))
        self._read[name], self._rest[name] = 0, ""
        return path.open("wb")

    def errors(self) -> Iterator[Logged]:
        """Yield each error that was logged since the last call, a failed run as one of them."""
        for name in self._read:
            lines = self._new_lines(name)
            for line in lines:
                if (failed := self._failed.get(name)) and line.strip():
                    del self._failed[name]
                    why = failed.text if _LOGGED.search(line) else line.removeprefix(_OURS)
                    yield failed._replace(text=_cut(why))
                if _ERROR.search(line):
                    run = _RUN.search(line)
                    if run is None:
                        yield Logged(name, _cut(line))
                    elif _RUN_FAILED in line:
                        self._failed[name] = Logged(name, run["told"], run["run"], run["job"])
                    elif not _BESIDE_IT.search(line):
                        yield Logged(name, _cut(line))
            if not lines and (failed := self._failed.pop(name, None)):  # nothing stands behind it
                yield failed._replace(text=_cut(failed.text))

    def last_words(self, name: str) -> str:
        """Return the last lines of a log on one line."""
        told: list[str] = []
        with suppress(FileNotFoundError), self._path(name).open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - CHUNK_BYTES))
            lines = _plain(file.read().decode(errors="replace")).split("\n")
            told = [line.strip() for line in lines if line.strip()]
        return " | ".join(told[-LAST_LINES:]) or "nothing"

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def _new_lines(self, name: str) -> list[str]:
        data = b""
        with suppress(FileNotFoundError), self._path(name).open("rb") as file:  # somebody tidied up
            file.seek(self._read[name])
            data = file.read(CHUNK_BYTES)
        self._read[name] += len(data)
        *lines, self._rest[name] = (self._rest[name] + data.decode(errors="replace")).split("\n")
        return [_plain(line) for line in lines]


def _cut(text: str) -> str:
    return f"{text[:SHOWN_LENGTH]}..." if len(text) > SHOWN_LENGTH else text


def _plain(text: str) -> str:
    return _STYLE.sub("", text)
