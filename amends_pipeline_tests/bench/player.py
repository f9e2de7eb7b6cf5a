"""Another process that obeys: one of ours, or a peer with an environment of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / ".venv-peers" / "bin" / "python"


class PlayerError(Exception):
    """A player died, or never came to life."""


class Player:
    """A process that answers one request after the other."""

    def __init__(
        self,
        python: Path,
        module: str,
        log: Path,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = module.rpartition(".")[2]
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [str(python), "-m", module, *arguments],
                cwd=ROOT,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, do: str, **arguments: Any) -> SimpleNamespace:
        """Have one thing done, and return the answer's members."""
        self.tell(do, **arguments)
        return self.answer()

    def tell(self, do: str, **arguments: Any) -> None:
        """Ask without waiting for the answer."""
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise self._dead() from None

    def answer(self) -> SimpleNamespace:
        """Wait for the next answer."""
        line = self._process.stdout.readline()
        if not line:
            raise self._dead()
        return SimpleNamespace(**json.loads(line))

    def kill(self) -> None:
        """End it without a chance to tidy up."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """Let it end by itself."""
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process.stdout.close()

    def _dead(self) -> PlayerError:
        status = self._process.wait()
        said = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-5:]
        return PlayerError(f"{self.name} ended with status {status}: {' / '.join(said)}")


def own() -> Path:
    """The interpreter of the project's own environment."""
    return Path(sys.executable)
