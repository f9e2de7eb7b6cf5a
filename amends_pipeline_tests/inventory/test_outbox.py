from __future__ import annotations

import pytest

from amends_pipeline.inventory.outbox import Answer, acknowledged_after, gap
from amends_pipeline.kernel.errors import ProtocolStop


@pytest.mark.parametrize(
    ("answer", "frontier"),
    [(Answer.ACCEPTED, 7), (Answer.REFUSED, 4), (Answer.UNKNOWN, 4)],
)
def test_only_an_accepted_publication_moves_the_frontier(answer, frontier):
    assert acknowledged_after(4, base=4, count=3, answer=answer) == frontier


def test_an_accepted_publication_of_nothing_stays_where_it_is():
    assert acknowledged_after(4, base=4, count=0, answer=Answer.ACCEPTED) == 4


@pytest.mark.parametrize("answer", list(Answer))
@pytest.mark.parametrize("base", [0, 3, 5, 9])
def test_an_answer_about_other_rows_than_the_earliest_is_refused(base, answer):
    with pytest.raises(ProtocolStop) as stop:
        acknowledged_after(4, base, 1, answer)
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
