"""Programs that use a private server, and questions about the processes that serve them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg

from amends_pipeline.store import keeper
from amends_pipeline.store.leftovers import postmaster, workers

ROOT = Path(__file__).resolve().parents[3]

HOLD = """
import sys; from pathlib import Path; import psycopg
from amends_pipeline.store.embedded import Lease
with Lease(Path(sys.argv[1]), 0.0, {"fsync": "off"}) as lease:
    with psycopg.connect(lease.url("postgres")) as connection:
        print(*connection.execute("select pg_postmaster_start_time()").fetchone(), flush=True)
    sys.stdin.read()
"""

WRITE = """
import os, sys; from pathlib import Path; import psycopg
from amends_pipeline.store.embedded import Lease
home, name, path = sys.argv[1:]
told = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
number = 0
with Lease(Path(home)) as lease:
    while True:
        try:
            lease.ensure()
            with psycopg.connect(lease.url("postgres"), autocommit=True) as connection:
                while True:
                    number += 1
                    connection.execute("insert into written values (%s, %s)", (name, number))
                    os.write(told, f"{name} {number}\\n".encode())
        except psycopg.Error:
            pass
"""


def start(program, *arguments, python=sys.executable, **options):
    return subprocess.Popen(
        [python, "-c", program, *map(str, arguments)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )


def kill(*processes):
    """Kill each process there is; return whether all of them were."""
    missed = processes.count(None)
    for number in filter(None, processes):
        try:
            os.kill(number, signal.SIGKILL)
        except ProcessLookupError:
            missed += 1
    return not missed


def ask(lease, question, database="postgres"):
    with psycopg.connect(lease.url(database), autocommit=True) as connection:
        return connection.execute(question).fetchone()[0]


def answers(lease):
    try:
        return ask(lease, "select true")
    except psycopg.OperationalError:
        return False


def tell(lease, statement):
    with psycopg.connect(lease.url("postgres"), autocommit=True) as connection:
        connection.execute(statement)


def keeper_of(home):
    """The keeper's number; None while there is none, or none that has written it down."""
    with contextlib.suppress(OSError, ValueError):
        return int((home / "postgres" / keeper.KEEPER_LOCK).read_text())
    return None


def processes_of(home):
    data = home / "postgres" / keeper.DATA
    return workers(data, data.stat()) if data.exists() else []


def sockets_of(process):
    """The sockets a process has open, as /proc/net numbers them; one may be closed meanwhile."""
    found = set()
    for descriptor in Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.add(str(descriptor.readlink()))
    return {name for name in found if name.startswith("socket:")}


def is_alive(process):
    told = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(process)], check=False, capture_output=True, text=True
    )
    return told.stdout.strip()[:1] not in {"", "Z"}  # a zombie waits for its parent alone


def postmaster_of(home):
    return postmaster(home / "postgres" / keeper.DATA)


def comes_true(condition, seconds=30.0):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.02)
    return False


def is_gone(home):
    """The server has stopped, in good order: its last act is to take its address away."""
    address = home / "postgres" / keeper.ADDRESS
    return comes_true(lambda: not address.exists() and not processes_of(home))
