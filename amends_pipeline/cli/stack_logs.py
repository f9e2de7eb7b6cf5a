"""The logs of a stack's processes: one file each, and the errors in them for whoever looks on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

CHUNK_BYTES = 1 << 16
SHOWN_LENGTH = 300
LAST_LINES = 3

_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_ERROR = re.compile(r" - (?:ERROR|CRITICAL) - |\A(?:ERROR|CRITICAL): ")  # Dagster, uvicorn


class Logs:
    """A folder with NAME.log for each process, and NAME.log.1 of the time before."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: dict[str, int] = {}
        self._rest: dict[str, str] = {}

    def fresh(self, name: str) -> BinaryIO:
        """Open an empty log for a process to write to."""
        path = self._path(name)
        if path.exists():
            path.replace(path.with_name(f"{path.name}.1"))
        self._read[name], self._rest[name] = 0, ""
        return path.open("wb")

    def errors(self) -> Iterator[tuple[str, str]]:
        """Yield (name, line) for each line since the last call that tells of an error."""
        for name in self._read:
            for line in self._new_lines(name):
                if _ERROR.search(line):
                    cut = "..." if len(line) > SHOWN_LENGTH else ""
                    yield name, f"{line[:SHOWN_LENGTH]}{cut}"

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


def _plain(text: str) -> str:
    return _STYLE.sub("", text)
