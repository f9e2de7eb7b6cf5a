from __future__ import annotations

import pytest

from amends_pipeline.inventory.outbox import acknowledged_after, gap
from amends_pipeline.kernel.errors import ProtocolStop


@pytest.mark.parametrize(("count", "frontier"), [(3, 7), (1, 5), (0, 4)])
def test_the_frontier_moves_over_what_was_acknowledged(count, frontier):
    assert acknowledged_after(4, base=4, count=count) == frontier


@pytest.mark.parametrize("base", [0, 3, 5, 9])
def test_other_rows_than_the_earliest_pending_ones_are_refused(base):
    with pytest.raises(ProtocolStop) as stop:
        acknowledged_after(4, base, 1)
    assert stop.value.where == "acknowledgement of outbox rows"
    assert stop.value.expected == "sequence 4, the earliest pending row"
    assert stop.value.found == f"sequence {base}"


@pytest.mark.parametrize(
    ("segments", "hole"),
    [
        ([], None),
        ([(0, 1)], None),
        ([(0, 3), (3, 1), (4, 2)], None),
        ([(0, 0), (0, 2), (2, 0), (2, 1)], None),
        ([(1, 1)], (0, 1)),
        ([(0, 3), (4, 1)], (3, 4)),
        ([(0, 3), (2, 1)], (3, 2)),
        ([(0, 3), (3, 1), (3, 1)], (4, 3)),
        ([(0, 1), (2, 1), (9, 1)], (1, 2)),
    ],
    ids=str,
)
def test_a_gap_or_an_overlap_is_found_where_it_is_first(segments, hole):
    assert gap(segments) == hole
