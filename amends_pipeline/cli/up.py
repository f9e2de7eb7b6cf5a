"""`amends up`: Dagster over the ledgers in one go, and nothing of it left afterwards.

    amends up ─┬─ guard           kills the rest when `amends up` ends, however it ends
               ├─ code server ─── runs
               ├─ webserver       on 127.0.0.1, for this machine alone
               └─ daemon

A database has one stack at a time: two daemons would launch the same runs twice. The second one is
refused and told who is there. Runs that a killed stack left in progress are marked as failed when
the next one starts, so that the units they kept are free again.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from amends_pipeline.cli.session import Session, answering

if TYPE_CHECKING:
    from types import FrameType

PORT = 3000
LAST_PORT = 65_535


@dataclass(frozen=True, slots=True)
class Ending:
    """What was heard of the wish that all of it ends."""

    begun: threading.Event = field(default_factory=threading.Event)
    """Set when the end has begun. A signal that comes then interrupts nothing."""
    hurry: threading.Event = field(default_factory=threading.Event)
    """Set when a signal came after that: runs in progress shall get no time to finish."""


@click.command("up")
@click.option(
    "--port",
    type=click.IntRange(0, LAST_PORT),
    default=PORT,
    show_default=True,
    help="Port of the webserver on 127.0.0.1; 0 takes one that is free.",
)
@click.option(
    "--home",
    type=click.Path(path_type=Path, file_okay=False),
    help="As in `amends --home`: the folder of logs, runs' files and the private database.",
)
@click.option(
    "--no-demo", is_flag=True, help="Do without the namespace and the ledger stream demo."
)
@click.option(
    "--with-parent",
    is_flag=True,
    help="Stop, too, when the process that started this one has ended, however it did.",
)
@answering
def up(session: Session, port: int, home: Path | None, *, no_demo: bool, with_parent: bool) -> None:
    """Run Dagster over the ledgers: webserver, daemon, and PostgreSQL if you named no server.

    Prints the addresses when it is ready, and runs until Ctrl-C or SIGTERM. Nothing is left running
    then, nor when it is killed. The pages have no password and are served on 127.0.0.1 alone. The
    namespace `demo` and the ledger stream `demo` are there to be looked at; each is made only where
    there is none of that name.
    """
    from amends_pipeline.cli.stack_run import Wishes, run

    wishes = Wishes(
        home=home or session.home,
        port=port,
        demo=not no_demo,
        parent=os.getppid() if with_parent else None,
    )
    with hearing_signals() as ending:
        try:
            run(session, wishes, ending)
        except KeyboardInterrupt:
            session.say("stopped")


@contextmanager
def hearing_signals() -> Iterator[Ending]:
    """Make a SIGINT, SIGTERM or SIGHUP a KeyboardInterrupt, unless the end has begun.

    SIGINT is heard although shells make their background processes ignore it. What `nohup` makes
    them ignore, SIGHUP, is not.
    """
    ending = Ending()

    def stop(_number: int, _frame: FrameType | None) -> None:
        if ending.begun.is_set():
            ending.hurry.set()
        else:
            ending.begun.set()
            raise KeyboardInterrupt

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield ending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
