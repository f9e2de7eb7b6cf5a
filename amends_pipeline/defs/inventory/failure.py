"""How an error of ours ends a step: one sentence, its three parts, and no password."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from amends_pipeline.kernel.errors import AmendsError
from amends_pipeline.store.server import redact


@contextmanager
def failing_clearly() -> Iterator[None]:
    """Turn an AmendsError into a failure of the step, which is not tried again within the run.

    What committed before it stays committed; the next run goes on from there.
    """
    try:
        yield
    except AmendsError as error:
        parts = {"where": error.where, "expected": error.expected, "found": error.found}
        raise dg.Failure(
            redact(str(error)),
            metadata={
                "error": type(error).__name__,
                **{name: redact(part) for name, part in parts.items()},
            },
            allow_retries=False,
        ) from None  # a driver's error behind it may quote more than we would show
