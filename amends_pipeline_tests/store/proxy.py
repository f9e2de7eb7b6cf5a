"""A way to the server on which a reply can get lost: either before or after it was earned.

PostgreSQL's messages are not taken apart. The way is cut when a given text comes by: on its way to
the server (then what asked for the reply is not done), or on its way back (then it is).
"""

from __future__ import annotations

import contextlib
import selectors
import shutil
import socket
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from psycopg import conninfo

PORT = 5432
CHUNK = 1 << 16
SOCKET = f".s.PGSQL.{PORT}"


@dataclass
class Proxy:
    """Listens on a socket of its own and passes on what comes, until `cut_at` says no."""

    real: str
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="amends-way-")))
    cuts: int = 0
    _asked: bytes | None = None
    _earned: bytes | None = None
    _behind: bytes | None = None

    def __enter__(self) -> Self:
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.folder / SOCKET))
        self.listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        shutil.rmtree(self.folder)

    def lose_before(self, asked: bytes) -> None:
        """Cut the next connection on which this is asked, before the server hears of it."""
        self._asked, self._earned, self._behind = asked, None, None

    def lose_after(self, earned: bytes, behind: bytes | None = None) -> None:
        """Cut the next connection on which the server says this, before the asker hears of it.

        behind: what must have been asked before, where others earn the same.
        """
        self._asked, self._earned, self._behind = None, earned, behind

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(str(Path(self.real) / SOCKET))
                threading.Thread(target=self._pass_on, args=(near, far), daemon=True).start()

    def _pass_on(self, near: socket.socket, far: socket.socket) -> None:
        with near, far, selectors.DefaultSelector() as ready, contextlib.suppress(OSError):
            ready.register(near, selectors.EVENT_READ, (far, "_asked"))
            ready.register(far, selectors.EVENT_READ, (near, "_earned"))
            while True:
                for key, _ in ready.select():
                    to, watched = key.data
                    chunk = key.fileobj.recv(CHUNK)
                    text = getattr(self, watched)
                    if watched == "_asked" and self._behind is not None:
                        if self._behind in chunk:
                            self._behind = None
                    elif text is not None and text in chunk and self._behind is None:
                        setattr(self, watched, None)
                        self.cuts += 1
                        return
                    if not chunk:
                        return
                    to.sendall(chunk)


def proxied(url: str) -> tuple[Proxy, str]:
    """A way to the server of `url`, and the URL that takes it."""
    parts = conninfo.conninfo_to_dict(url)
    proxy = Proxy(str(parts["host"]))
    return proxy, conninfo.make_conninfo(**(parts | {"host": str(proxy.folder), "port": PORT}))
