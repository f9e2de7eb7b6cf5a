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


def settled(act: Callable[[bool], Outcome]) -> Outcome:
    """Run a transaction until its outcome is known, and return that.

    act: is told whether the outcome of an earlier attempt is unknown. Raises what it raises;
    OutcomeUnknown, or Contended, when that is still so after the last attempt.
    """
    unknown: OutcomeUnknown | None = None
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(PAUSE_SECONDS * 2 ** (attempt - 1))
        try:
            return act(unknown is not None)
        except OutcomeUnknown as error:
            unknown = error
        except (Contended, DatabaseUnavailable) as error:
            if unknown is None and (
                isinstance(error, DatabaseUnavailable) or attempt + 1 == ATTEMPTS
            ):
                raise
    assert unknown is not None  # noqa: S101 - every other way out is above
    raise unknown
