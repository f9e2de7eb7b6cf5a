"""How an error of ours ends a step: one sentence, its three parts, and no password."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import dagster as dg

from amends_pipeline.defs.partitions import unit_of
from amends_pipeline.flows.next_step import NEXT_STEP, after_error, in_dagster
from amends_pipeline.kernel.errors import AmendsError
from amends_pipeline.store.server import redact


@contextmanager
def failing_clearly(partition_key: str | None = None) -> Iterator[None]:
    """Turn an AmendsError into a failure of the step, which is not tried again within the run.

    What committed before it stays committed; the next run goes on from there.

    partition_key: the unit that the step works on, for which a way out of the error is named.
    """
    try:
        yield
    except AmendsError as error:
        parts = {"where": error.where, "expected": error.expected, "found": error.found}
        way_out = _way_out(error, partition_key)
        if way_out is not None:
            parts[NEXT_STEP] = way_out
        raise dg.Failure(
            redact(str(error)),
            metadata={
                "error": type(error).__name__,
                **{name: redact(part) for name, part in parts.items()},
            },
            allow_retries=False,
        ) from None  # a driver's error behind it may quote more than we would show


def _way_out(error: AmendsError, partition_key: str | None) -> str | None:
    if partition_key is None:
        return None
    with suppress(AmendsError):  # a key that is no unit is itself the error
        return after_error(error, in_dagster(unit_of(partition_key)))
    return None
