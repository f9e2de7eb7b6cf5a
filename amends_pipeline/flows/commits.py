"""Commits one behind the other: one is written while the next one is decided.

A decision depends on what was decided before it, not on the database having it already. If the
database refuses, all that was decided since is forgotten with it. There is never more than one
commit on its way, so that the order of commits is the order of decisions.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Generic, Self, TypeVar

Decisions = TypeVar("Decisions")


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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
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
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "commit")
        self._waiting = self._thread.submit(self._save, decisions), decisions

    def wait(self) -> None:
        """Return when everything is saved. Raises what saving raised."""
        if self._waiting is None:
            return
        future, decisions = self._waiting
        self._waiting = None
        future.result()
        self._saved(decisions)
