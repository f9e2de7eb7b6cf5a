"""`amends up`: Dagster's webserver and daemon over the ledgers, in one go, and all of it gone after.

    amends up ─┬─ guard           kills the rest when amends up ends, however it ends
               ├─ code server ─── runs
               ├─ webserver       on 127.0.0.1, for this machine
               └─ daemon

One database has one stack (see `defs.stack`). Runs that a killed one left behind are marked as
failed when the next one starts, and the sensor asks for new ones.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from amends_pipeline.cli.output import counted
from amends_pipeline.cli.session import Session, answering, complain
from amends_pipeline.kernel.errors import AmendsError, OperationError

if TYPE_CHECKING:
    from types import FrameType

    from dagster import DagsterInstance, DagsterRun

    from amends_pipeline.cli.stack import Stack
    from amends_pipeline.cli.stack_demo import Filling
    from amends_pipeline.cli.stack_web import Web
    from amends_pipeline.defs.stack import StackLocks
    from amends_pipeline.store.server import Server

PORT = 3000
LAST_PORT = 65_535
READY_SECONDS = 120.0
POLL_SECONDS = 0.1
BEAT_SECONDS = 0.25


@click.command("up")
@click.option(
    "--port",
    type=click.IntRange(0, LAST_PORT),
    default=PORT,
    show_default=True,
    help="Port of the webserver on 127.0.0.1; 0 takes any that is free.",
)
@click.option(
    "--home",
    type=click.Path(path_type=Path, file_okay=False),
    help="As `amends --home`: the folder of data, logs and the private database.",
)
@click.option("--no-demo", is_flag=True, help="Do without the namespace demo.")
@click.option(
    "--with-parent",
    is_flag=True,
    help="Stop, too, when the process that started this one has ended, however.",
)
@answering
def up(session: Session, port: int, home: Path | None, *, no_demo: bool, with_parent: bool) -> None:
    """Run Dagster over the ledgers: webserver, daemon and, without AMENDS_POSTGRES_URL, PostgreSQL.

    Prints the addresses when it is ready, and runs until Ctrl-C or SIGTERM. Nothing is left running
    then, nor when it is killed. The user interface has no password: it listens on 127.0.0.1 alone.
    A namespace `demo` gives it something to show; it is provisioned only where there is none.
    """
    parent = os.getppid() if with_parent else None
    with hearing_signals() as hurry:
        try:
            _up(session, port, home or session.home, hurry, demo=not no_demo, parent=parent)
        except KeyboardInterrupt:
            session.say("stopped")


@contextmanager
def hearing_signals() -> Iterator[threading.Event]:
    """Turn the first SIGINT, SIGTERM or SIGHUP into KeyboardInterrupt, later ones into an event.

    What a shell that is not interactive makes its background processes ignore, SIGINT, is heard as
    well; what `nohup` makes them ignore, SIGHUP, is not.
    """
    asked, hurry = threading.Event(), threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        if asked.is_set():
            hurry.set()
        else:
            asked.set()
            raise KeyboardInterrupt

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield hurry
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _up(  # noqa: PLR0913 - what the command was given
    session: Session,
    port: int,
    home: Path | None,
    hurry: threading.Event,
    *,
    demo: bool,
    parent: int | None,
) -> None:
    """Start everything, tell where it is, wait; the blocks take it down in the opposite order."""
    from amends_pipeline.cli.stack import Stack, check_port, free_port
    from amends_pipeline.cli.stack_web import Web
    from amends_pipeline.store.server import DEFAULT_HOME, HOME_VARIABLE, connect_info

    began, began_at = time.monotonic(), time.time()
    home = (home or Path(os.environ.get(HOME_VARIABLE) or DEFAULT_HOME)).expanduser().resolve()
    os.environ[HOME_VARIABLE] = str(home)  # where Dagster's storage, in this process too, looks
    port = port or free_port()
    with ExitStack() as blocks:
        server = blocks.enter_context(connect_info(home))
        stack = Stack(home, port)
        web = Web(port)
        locks = blocks.enter_context(_locked(server, stack))
        check_port(port)
        stack.settle()
        control = _Control(session, stack, locks, parent)
        blocks.callback(control.stop, hurry)
        stack.start_code_server()
        control.open(server, blocks)
        filling = control.demo(server, web, blocks) if demo else None
        _wait(control, lambda: stack.serves_code)
        stack.start_servers()
        _wait(control, lambda: web.is_ready(began_at))
        ready = round((time.monotonic() - began) * 1_000)
        _tell(session, server, stack, web, control.reaped, filling, ready)
        if filling is not None:
            threading.Thread(target=_fill, args=(filling,), name="amends-demo", daemon=True).start()
            blocks.callback(filling.stop)
        while True:
            control.check()
            time.sleep(BEAT_SECONDS)
