"""The processes of a stack: code server, webserver, daemon, and the guard that outlives us."""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import amends_pipeline
from amends_pipeline.cli import stack_guard
from amends_pipeline.cli.stack_guard import STACK_VARIABLE
from amends_pipeline.cli.stack_logs import Logs
from amends_pipeline.cli.stack_web import HOST, LOCATION
from amends_pipeline.kernel.errors import InputError, OperationError
from amends_pipeline.store.server import HOME_VARIABLE

GRACE_SECONDS = 4.0
"""For runs in progress, and for the daemon to put down what it holds; then all are killed."""
POLL_SECONDS = 0.05
CODE_SERVER, WEBSERVER, DAEMON = "code-server", "webserver", "daemon"

DAGSTER_FOLDER = "dagster"
LOG_FOLDER = "logs"
DAGSTER_HOME = "DAGSTER_HOME"
SETTINGS = "dagster.yaml"
TEMPORARY = "temporary"
PREFIX = "amends-up-"
LONGEST_BASE_BYTES = 60  # of the 103 that the path of a socket may have everywhere
# Options of Dagster's programs that a variable could give in contradiction to ours.
NOT_OURS = ("DAGSTER_GRPC_PORT", "DAGSTER_GRPC_SOCKET", "DAGSTER_GRPC_HOST", "DAGSTER_INSTANCE_REF")


class Stack:
    """Dagster's processes over one home. Nothing of it outlives the process that made it."""

    def __init__(self, home: Path, port: int) -> None:
        """Give it an id. home: AMENDS_HOME, absolute; it is made if missing."""
        self.id = secrets.token_hex(6)
        self.port = port
        self.home = home
        self.dagster_home = home / DAGSTER_FOLDER
        self.logs = Logs(home / LOG_FOLDER)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._guard: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None

    @property
    def environment(self) -> dict[str, str]:
        """What all its processes are given."""
        inherited = {name: value for name, value in os.environ.items() if name not in NOT_OURS}
        # What they leave in the temporary folder when they are killed goes with it.
        temporary = {} if self._folder is None else {"TMPDIR": str(self._folder)}
        return {
            **inherited,
            **temporary,
            HOME_VARIABLE: str(self.home),
            DAGSTER_HOME: str(self.dagster_home),
            STACK_VARIABLE: self.id,
        }

    # Starting

    def settle(self) -> None:
        """Make room for logs and for what runs print, and copy the project's settings there.

        Raises InputError where there is no source checkout, OperationError where nothing can be
        written.
        """
        settings = Path(amends_pipeline.__file__).parents[1] / SETTINGS
        if not settings.is_file():
            expected = "the file, which is part of the source checkout"
            raise InputError(SETTINGS, expected=expected, found="none beside the package")
        try:
            for folder in (self.logs.folder, self.dagster_home):
                folder.mkdir(parents=True, exist_ok=True)
            fresh = self.dagster_home / f"{SETTINGS}.{self.id}"
            shutil.copyfile(settings, fresh)
            fresh.replace(self.dagster_home / SETTINGS)
        except OSError as error:
            expected = "a folder that this user can write"
            found = f"{error.strerror}: {error.filename}"
            raise OperationError(str(self.home), expected=expected, found=found) from error

    def start_code_server(self) -> None:
        """Start the guard, then what loads the definitions and starts the runs."""
        self._folder = _folder_for_sockets(self.dagster_home / TEMPORARY)
        self._guard = self._guarding()
        self._start(
            CODE_SERVER,
            *("dagster", "code-server", "start", "--socket", str(self._socket)),
            *("--location-name", LOCATION, "--module-name", "amends_pipeline.definitions"),
        )

    def start_servers(self) -> None:
        """Start webserver and daemon, which look for the definitions once: now they are there."""
        workspace = self._socket.with_name("workspace.yaml")
        server = {"grpc_server": {"socket": str(self._socket), "location_name": LOCATION}}
        workspace.write_text(json.dumps({"load_from": [server]}))  # JSON is YAML
        where = ("--host", HOST, "--port", str(self.port))
        self._start(WEBSERVER, "dagster_webserver", *where, "--workspace", str(workspace))
        self._start(DAEMON, "dagster._daemon", "run", "--workspace", str(workspace))

    @property
    def serves_code(self) -> bool:
        """Whether the code server listens: it does once the definitions are loaded."""
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(self._socket))
            except OSError:
                return False
        return True

    def check(self) -> None:
        """Raise OperationError when one of the processes has ended; replace a killed guard."""
        for name, process in self._processes.items():
            status = process.poll()
            if status is not None:
                how = (
                    f"by {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
                )
                raise OperationError(
                    f"{name} ({self.logs.folder / name}.log)",
                    expected="it to run",
                    found=f"its end {how} after these words: {self.logs.last_words(name)}",
                )
        if self._guard is not None and self._guard.poll() is not None:
            self._guard = self._guarding()

    # Stopping

    def stop(self, working: Callable[[], bool], hurry: threading.Event) -> None:
        """End all of it: runs in progress get some seconds, `hurry` takes them away.

        working: whether runs are in progress.
        """
        for name in (DAEMON, WEBSERVER):
            if name in self._processes:
                self._processes[name].terminate()
        daemon = self._processes.get(DAEMON)
        until = time.monotonic() + GRACE_SECONDS
        while time.monotonic() < until and not hurry.is_set():
            if (daemon is None or daemon.poll() is not None) and not working():
                break
            time.sleep(POLL_SECONDS)
        self._end()

    def _end(self) -> None:
        if self._folder is None:
            return
        if self._guard is not None and self._guard.stdin is not None:
            self._guard.stdin.close()
            self._guard.wait()
        stack_guard.end(self.id)  # what a killed guard left; usually nothing
        for process in self._processes.values():
            process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    # Processes

    @property
    def _socket(self) -> Path:
        if self._folder is None:
            raise OperationError("stack", expected="one that was started", found="another")
        return self._folder / "code.sock"

    def _guarding(self) -> subprocess.Popen[bytes]:
        program = [sys.executable, "-I", "-S", stack_guard.__file__]
        return subprocess.Popen(
            [*program, "watch", self.id, str(self._folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,  # a Ctrl-C in the terminal is for us alone
        )

    def _start(self, name: str, *module: str) -> None:
        """Start a module of Dagster. Call it from the main thread, whose end children are told."""
        enter = [sys.executable, "-I", "-S", stack_guard.__file__, "enter", str(os.getpid())]
        with self.logs.fresh(name) as log:
            self._processes[name] = subprocess.Popen(
                [*enter, sys.executable, "-m", *module],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0 if self._guard is None else self._guard.pid,
            )


def _folder_for_sockets(known: Path) -> Path:
    """Make a folder that nobody else can reach and whose path is short, as that of sockets must.

    known: the file that names it, so that the next stack removes it if nobody else was left to.
    """
    with suppress(OSError):
        former = Path(known.read_text())
        if former.name.startswith(PREFIX):
            shutil.rmtree(former)
    base = tempfile.gettempdir()
    too_long = len(os.fsencode(base)) > LONGEST_BASE_BYTES
    base = "/tmp" if too_long else base  # noqa: S108 - what is made there is 0700
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
    known.write_text(str(folder))
    return folder


def end_leftovers(environment: dict[str, str], lives: Callable[[str], bool]) -> None:
    """Kill what dead stacks of the same home and database left, if all was killed but that.

    environment: a stack's. lives: says of an id whether that stack is alive.
    """
    same = (HOME_VARIABLE, "AMENDS_POSTGRES_URL")
    stacks = {
        environ[STACK_VARIABLE]
        for _, environ in stack_guard.processes()
        if all(environ.get(name) == environment.get(name) for name in same)
    }
    for stack in stacks - {environment[STACK_VARIABLE]}:
        if not lives(stack):
            stack_guard.end(stack)


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def check_port(port: int) -> None:
    """Raise OperationError unless we can listen on a port."""
    with socket.socket() as probe:
        # As the webserver: connections of one that ended a moment ago are no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            busy = error.errno == errno.EADDRINUSE
            raise OperationError(
                f"port {port} of {HOST}",
                expected="a port for the webserver; --port N names another",
                found="another program that listens on it" if busy else f"{error.strerror}",
            ) from error
