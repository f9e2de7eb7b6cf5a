"""Changes of keys as columns, made of changes one by one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from amends_pipeline.inventory.key_columns import KeyChanges, columns_of, fits
from amends_pipeline.inventory.refold import KeyChange


def as_columns(changes: Mapping[int, KeyChange]) -> KeyChanges:
    """The same changes: what fits as columns, the others apart."""
    held = {key: change for key, change in sorted(changes.items()) if fits(change.state)}
    apart = {key: change for key, change in changes.items() if key not in held}
    columns = columns_of([change.state for change in held.values()])
    spans = [change.changed for change in held.values()]
    firsts, lasts = (np.array([span[at] for span in spans], dtype=np.int64) for at in (0, 1))
    headed = np.array([change.headed for change in held.values()], dtype=np.bool_)
    starts = columns.bounds[:-1]
    return KeyChanges(columns, starts + firsts, starts + lasts, headed, apart)
