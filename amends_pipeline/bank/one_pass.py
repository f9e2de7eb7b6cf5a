"""A whole history of any length in one pass: batch by batch, then held against its head.

The order of judgement has the structure of every group before the history: after a group that does
not follow the ones before it, the rest is read for its structure alone.
"""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING

from amends_pipeline.bank.codes import RefusedError
from amends_pipeline.bank.fold import judge_end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from amends_pipeline.bank.admission import History
    from amends_pipeline.bank.batches import Batch
    from amends_pipeline.bank.values import Group, Head


def take_all(
    history: History,
    head: Head,
    left: Iterable[Batch],
    on_groups: Callable[[Sequence[Group]], None],
) -> None:
    """Admit every group, and tell of those of each batch that was; the head must be the end.

    Raises `RefusedError` for the first fault, and what `left` raises.
    """
    batches = iter(left)
    with structure_first(batches):
        for batch in batches:
            _take(history, batch)
            on_groups(batch.groups)
    judge_end(history, head)


@contextmanager
def structure_first(left: Iterator[Batch]) -> Iterator[None]:
    """Let a fault in the structure of what is left come before a fault of the block."""
    try:
        yield
    except RefusedError:
        deque(left, maxlen=0)
        raise


def _take(history: History, batch: Batch) -> None:
    if batch.columns is not None and history.admit_together(batch.columns):
        return
    for number, group in enumerate(batch.groups, batch.start):
        rejection = history.admit(group, f"group {number}")
        if rejection is not None:
            raise RefusedError(rejection)
