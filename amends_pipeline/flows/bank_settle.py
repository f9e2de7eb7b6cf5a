"""Settle: what happens to a transaction of the bank ledger when the database does not answer well.

A transaction that the database ended for the sake of another one is tried again. When no reply to a
commit came, rereading tells: everything that is settled here finds what it did before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from amends_pipeline.kernel.errors import Contended, DatabaseUnavailable, OutcomeUnknown

ATTEMPTS: Final = 6
PAUSE_SECONDS: Final = 0.02
"""Before the second attempt; each later pause is twice as long."""

Outcome = TypeVar("Outcome")


def settled(act: Callable[[bool], Outcome], *, begun: bool = False) -> Outcome:
    """Run a transaction until its outcome is known, and return that.

    act: is told whether the outcome of an earlier attempt is unknown. begun: it finishes what is
    committed already, so that a database which is away for a moment is waited for.

    Raises what `act` raises; OutcomeUnknown, or Contended, when that is still so after the last
    attempt.
    """
    unknown: OutcomeUnknown | None = None
    for attempt in range(ATTEMPTS):
        last = attempt + 1 == ATTEMPTS
        try:
            return act(unknown is not None)
        except OutcomeUnknown as error:
            unknown = error
        except DatabaseUnavailable:
            if unknown is None and (last or not begun):
                raise
        except Contended:
            if unknown is None and last:
                raise
        time.sleep(0 if last else PAUSE_SECONDS * 2**attempt)
    assert unknown is not None  # noqa: S101 - every other way out is above
    raise unknown
