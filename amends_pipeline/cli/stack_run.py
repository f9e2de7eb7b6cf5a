"""The life of a stack: what is started in which order, what is told, and how it is taken down."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from amends_pipeline.cli.opening import without_passwords
from amends_pipeline.cli.output import counted
from amends_pipeline.cli.session import Session, complain
from amends_pipeline.cli.stack import (
    GRACE_SECONDS,
    Stack,
    check_port,
    end_leftovers,
    free_port,
)
from amends_pipeline.cli.stack_web import Web
from amends_pipeline.kernel.errors import AmendsError, OperationError
from amends_pipeline.store.server import DEFAULT_HOME, HOME_VARIABLE, Server, connect_info
from amends_pipeline.store.stack_locks import StackLocks

if TYPE_CHECKING:
    from dagster import DagsterInstance, DagsterRun

    from amends_pipeline.cli.stack_demo import Filling
    from amends_pipeline.cli.up import Ending

READY_SECONDS = 120.0
ANSWER_SECONDS = 2.0
PARTITION_TAG = "dagster/partition"
POLL_SECONDS = 0.1
BEAT_SECONDS = 0.25
REMEMBERED = 500
"""Errors that are shown once each."""

Answer = TypeVar("Answer")


class Wishes(NamedTuple):
    """What the command was given."""

    home: Path | None
    port: int
    demo: bool
    parent: int | None
    """The process with whose end all ends."""


def run(session: Session, wishes: Wishes, ending: Ending) -> None:
    """Start a stack and keep it until KeyboardInterrupt, then take all of it down.

    Raises OperationError, InputError.
    """
    began = time.monotonic()
    _tame_logging()
    home = wishes.home or Path(os.environ.get(HOME_VARIABLE) or DEFAULT_HOME)
    home = home.expanduser().resolve()
    os.environ[HOME_VARIABLE] = str(home)  # Dagster's storage, in this process too, looks there
    with ExitStack() as blocks:  # taken down in the opposite order
        server = blocks.enter_context(connect_info(home))
        if server.lease is not None:
            server.lease.watch()
        stack = Stack(home, wishes.port or free_port())
        locks = blocks.enter_context(StackLocks(server, stack.id, _holder(stack.port)))
        check_port(stack.port)
        stack.settle()
        session.say(f"starting; the logs are in {stack.logs.folder}")
        end_leftovers(stack.environment, locks.lives)
        life = _Life(session, wishes, server, stack, locks, ending)
        blocks.callback(life.end)
        life.start(blocks)
        life.tell(round((time.monotonic() - began) * 1_000))
        while True:
            life.check()
            time.sleep(BEAT_SECONDS)


def _tame_logging() -> None:
    """Show what our own modules log, and nothing of what libraries in this process do."""

    class Complaints(logging.Handler):
        """Writes to standard error, as all that is not asked for."""

        def emit(self, record: logging.LogRecord) -> None:
            complain(without_passwords(record.getMessage()))

    logging.getLogger().addHandler(logging.NullHandler())
    ours = logging.getLogger("amends_pipeline")
    ours.addHandler(Complaints(logging.WARNING))
    ours.propagate = False


def within(seconds: float, question: Callable[[], Answer]) -> Answer | None:
    """Return the answer to a question; None if it fails or takes longer than so many seconds."""
    answers: list[Answer] = []

    def ask() -> None:
        with suppress(Exception):
            answers.append(question())

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(seconds)
    return answers[0] if answers else None


def _holder(port: int) -> str:
    """Who we are, for those who find the database taken; the port comes before it may be cut."""
    return f"amends up, port {port}, process {os.getpid()} on {socket.gethostname()}"


class _Life:
    """A stack from its start to its end."""

    def __init__(  # noqa: PLR0913, PLR0917 - what it is made of
        self,
        session: Session,
        wishes: Wishes,
        server: Server,
        stack: Stack,
        locks: StackLocks,
        ending: Ending,
    ) -> None:
        self._session, self._wishes, self._ending = session, wishes, ending
        self._server, self._stack, self._locks = server, stack, locks
        self._web = Web(stack.port)
        self._instance: DagsterInstance | None = None
        self._reaped: Sequence[DagsterRun] = ()
        self._filling: Filling | None = None
        self._bank = False
        self._shown: set[str] = set()

    def start(self, blocks: ExitStack) -> None:
        """Return when webserver and daemon are ready. What is opened stays open in `blocks`."""
        since = time.time()
        self._stack.start_code_server()
        self._open(blocks)  # while that loads the definitions
        self._wait(lambda: self._stack.serves_code)
        self._stack.start_servers()
        self._wait(lambda: self._web.is_ready(since))

    def _open(self, blocks: ExitStack) -> None:
        from dagster import DagsterInstance
        from sqlalchemy.exc import SQLAlchemyError

        from amends_pipeline.assembly import open_ledger
        from amends_pipeline.cli.stack_bank import told
        from amends_pipeline.cli.stack_demo import Filling, provisioned
        from amends_pipeline.defs.stack import reap

        ledger = blocks.enter_context(open_ledger(self._server.ledger_url))
        try:
            self._instance = DagsterInstance.from_config(str(self._stack.dagster_home))
            self._reaped = reap(self._instance, self._locks.lives)
            self._bank = self._wishes.demo and told(ledger.bank)
            if self._wishes.demo and provisioned(ledger):
                filling = self._filling = Filling(ledger, self._instance)
                blocks.callback(filling.stop)
                # At once: the first verdict that anybody sees shall not be about an empty ledger.
                threading.Thread(target=lambda: _fill(filling), daemon=True).start()
        except SQLAlchemyError as error:
            raise self._server.unavailable(error) from error

    def _wait(self, condition: Callable[[], bool]) -> None:
        until = time.monotonic() + READY_SECONDS
        while not condition():
            self.check()
            if time.monotonic() > until:
                raise OperationError(
                    f"the stack (logs in {self._stack.logs.folder})",
                    expected=f"it to be ready in {READY_SECONDS:.0f} seconds",
                    found="that it is not",
                )
            time.sleep(POLL_SECONDS)

    def check(self) -> None:
        """Show new errors; raise what ends the stack."""
        self._show_errors()
        self._stack.check()
        if self._locks.lost is not None:
            raise self._locks.lost
        if self._wishes.parent is not None and os.getppid() != self._wishes.parent:
            raise KeyboardInterrupt

    def _show_errors(self) -> None:
        for error in self._stack.logs.errors():
            if error.run is not None:
                unit = self._unit(error.run) or error.job
                known = f"{unit}: {error.text}"
                told = f"run {error.run.split('-', 1)[0]} ({unit}) failed: {error.text}"
            else:
                # Dagster's lines begin with the time, which makes the same error look like another.
                known = f"{error.name}: {error.text.split(' - ', 1)[-1]}"
                told = f"{error.name}: {error.text}"
            if known not in self._shown and len(self._shown) < REMEMBERED:
                self._shown.add(known)
                complain(without_passwords(told))

    def _unit(self, run_id: str) -> str | None:
        """The unit that a run worked on; None if it had none, or nobody can tell now."""
        instance = self._instance
        if instance is None:
            return None
        run = within(ANSWER_SECONDS, lambda: instance.get_run_by_id(run_id))
        return None if run is None else run.tags.get(PARTITION_TAG)

    # The end

    def end(self) -> None:
        """Stop all processes and mark what they left in progress as failed."""
        self._ending.begun.set()
        self._show_errors()
        left = len(self._in_progress())
        also = f"; {counted(left, 'run')} in progress, with {GRACE_SECONDS:.0f} s to finish"
        self._session.say(f"stopping{also if left else ''}")
        if self._instance is None:  # nothing was begun, or nothing can be put down any more
            self._ending.hurry.set()
        self._stack.stop(lambda: bool(self._in_progress()), self._ending.hurry)
        failed = self._fail_left()
        if failed:
            self._session.say(f"{counted(len(failed), 'run')} did not finish: marked as failed")
        if self._instance is not None:
            self._instance.dispose()

    def _in_progress(self) -> Sequence[DagsterRun]:
        from amends_pipeline.defs.stack import running

        return self._asked(lambda instance: running(instance, self._stack.id))

    def _fail_left(self) -> Sequence[DagsterRun]:
        from amends_pipeline.defs.stack import fail

        why = "Its stack was stopped while it was in progress"
        runs = self._in_progress()
        return self._asked(lambda instance: fail(instance, runs, why)) if runs else ()

    def _asked(
        self, question: Callable[[DagsterInstance], Sequence[DagsterRun]]
    ) -> Sequence[DagsterRun]:
        """Ask Dagster's storage on the way out, once more only if it did answer.

        It tries long and again to reach a database that is gone. What is not marked now, the next
        stack marks.
        """
        instance = self._instance
        if instance is None:
            return ()
        answer = within(ANSWER_SECONDS, lambda: question(instance))
        if answer is None:
            self._instance = None
        return answer or ()

    # What is told

    def tell(self, ready_milliseconds: int) -> None:
        """Say that it is ready, and where everything is."""
        out, stack, web = self._session.out, self._stack, self._web
        if self._session.as_json:
            out.document(
                {
                    "url": web.url,
                    "links": web.links,
                    "stack": stack.id,
                    "process": os.getpid(),
                    "database": self._server.where,
                    "logs": str(stack.logs.folder),
                    "demo": self._filling is not None,
                    "demo_stream": self._bank,
                    "reaped": [run.run_id for run in self._reaped],
                    "ready_milliseconds": ready_milliseconds,
                }
            )
        else:
            seconds = f"{ready_milliseconds // 1_000}.{ready_milliseconds % 1_000 // 100}"
            out.text(f"Dagster is ready: {web.url} ({seconds} s)")
            out.text()
            for name, link in web.links.items():
                out.text(f"  {name:<12}{link}")
            out.text()
            out.text(f"  {'ledgers':<12}{self._server.where}")
            out.text(f"  {'logs':<12}{stack.logs.folder}")
            out.text(f"  {'demo':<12}{self._demo()}")
            if self._reaped:
                units = ", ".join(_named(run) for run in self._reaped)
                left = counted(len(self._reaped), "run")
                out.text(f"  {'cleared':<12}{left} of a killed stack, marked as failed: {units}")
            out.text()
            out.text("Ctrl-C stops all of it.")
        out.flush()

    def _demo(self) -> str:
        if not self._wishes.demo:
            return "none"
        namespace = (
            "namespace demo"
            if self._filling is not None
            else "no namespace: demo, or its source demo-feed, is there already"
        )
        stream = "ledger stream demo" if self._bank else "no ledger stream: demo is there already"
        return f"{namespace}; {stream}"


def _fill(filling: Filling) -> None:
    try:
        filling.run()
    except AmendsError as error:
        complain(without_passwords(f"namespace demo: {error}"))


def _named(run: DagsterRun) -> str:
    unit = run.tags.get(PARTITION_TAG)
    return f"{run.run_id.split('-', 1)[0]} ({unit or run.job_name})"
