"""Commits one behind the other: one is written while the next one is decided.

A decision depends on what was decided before it, not on the database having it already. If the
database refuses, all that was decided since is forgotten with it. There is never more than one
commit on its way, so that the order of commits is the order of decisions.

A part of a decision may be certain before the rest of it: then its commit can begin, behind the one
on its way, and waits for the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Generic, Self, TypeVar

Decisions = TypeVar("Decisions")


class AbandonedError(Exception):
    """What was begun to be saved is wanted no longer. It never leaves this module."""


class Commits(Generic[Decisions]):
    """Takes decisions, or whatever else is worked out, and has them saved in order.

    `save` commits decisions, all or none; `saved` is told of them afterwards, by the caller's
    thread. Leaving the block waits for what is on its way; its error is raised unless another one
    is on its way out already.
    """

    def __init__(
        self, save: Callable[[Decisions], None], saved: Callable[[Decisions], None]
    ) -> None:
        self._save = save
        self._saved = saved
        self._thread: ThreadPoolExecutor | None = None
        self._waiting: tuple[Future[None], Decisions] | None = None
        self._promise: Future[Decisions] | None = None
        self._begun: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.abandon()
        try:
            if error is None or self._succeeds():
                self.wait()
        finally:
            if self._thread is not None:
                self._thread.shutdown()

    def _succeeds(self) -> bool:
        """Whether what is on its way is saved in the end, once that is known."""
        return self._waiting is not None and self._waiting[0].exception() is None

    def add(self, decisions: Decisions, *, wait: bool) -> None:
        """Save these decisions: before this returns, or while the caller goes on.

        Raises what saving those before them raised, and saves nothing then.
        """
        self.wait()
        if wait:
            self._save(decisions)
            self._saved(decisions)
            return
        self._waiting = self._in_thread().submit(self._save, decisions), decisions

    def begin(self, save: Callable[[Callable[[], Decisions]], None]) -> None:
        """Begin to save decisions that are still being made.

        `save` is called behind what is on its way, with a function that waits for the decisions.
        What that raises it must let pass, saving nothing. Then comes `finish` or `abandon`.
        """
        # Kept before anybody waits for it: an interrupt may come between any two steps here.
        self._promise = Future()
        self._begun = self._in_thread().submit(save, self._promise.result)

    def finish(self, decisions: Decisions, *, wait: bool) -> None:
        """Save the decisions that were begun to be saved, as `add` does."""
        self.wait()
        if self._promise is None or self._begun is None:
            self.add(decisions, wait=wait)
            return
        self._promise.set_result(decisions)
        self._waiting = self._begun, decisions
        self._promise = self._begun = None
        if wait:
            self.wait()

    def abandon(self) -> None:
        """Let nothing be saved of what was begun, and return when that is so."""
        if self._promise is None:
            return
        if not self._promise.done():
            self._promise.set_exception(AbandonedError())
        if self._begun is not None:
            self._begun.exception()
        self._promise = self._begun = None

    def _in_thread(self) -> ThreadPoolExecutor:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "commit")
        return self._thread

    def wait(self) -> None:
        """Return when everything is saved. Raises what saving raised."""
        if self._waiting is None:
            return
        future, decisions = self._waiting
        self._waiting = None
        future.result()
        self._saved(decisions)
