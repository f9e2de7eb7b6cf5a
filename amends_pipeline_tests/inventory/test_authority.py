from __future__ import annotations

from itertools import permutations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.inventory.authority import (
    Accepted,
    Authority,
    Candidate,
    Observation,
    first,
    rule,
)

NEW_5 = Candidate(1, "NEW", 10, 0, 5)
AMENDED = Candidate(2, "AMEND", 10, 0, 7)
CANCELLED = Candidate(3, "CANCEL", 10, 0, 0)


def taken(*candidates: Candidate) -> tuple[Authority, list[Observation]]:
    """What one identity comes to, seen with these candidates at offsets 0, 1, 2 and so on."""
    records = [Accepted(0, "A", offset, each) for offset, each in enumerate(candidates)]
    authority, observations = first(records[0]), []
    for record in records[1:]:
        authority, observed = rule(authority, record)
        observations.append(observed)
    return authority, observations


@pytest.mark.parametrize(
    ("candidates", "in_force", "offset", "conflicted", "contributes"),
    [
        ([NEW_5], NEW_5, 0, False, True),
        ([NEW_5, AMENDED], AMENDED, 1, False, True),
        ([AMENDED, NEW_5], AMENDED, 0, False, True),  # an amendment may come first
        ([NEW_5, CANCELLED], CANCELLED, 1, False, False),
        ([CANCELLED, NEW_5], CANCELLED, 0, False, False),  # a late NEW brings nothing back
        ([CANCELLED, AMENDED, NEW_5], CANCELLED, 0, False, False),
        (
            [CANCELLED, Candidate(4, "AMEND", 12, 0, 1)],
            Candidate(4, "AMEND", 12, 0, 1),
            1,
            False,
            True,
        ),
        ([NEW_5, NEW_5], NEW_5, 0, False, True),
        ([NEW_5, msgspec.structs.replace(NEW_5, qty=6)], NEW_5, 0, True, False),
        ([NEW_5, msgspec.structs.replace(NEW_5, kind="AMEND")], NEW_5, 0, True, False),
        ([NEW_5, msgspec.structs.replace(NEW_5, day=11)], NEW_5, 0, True, False),
        ([NEW_5, msgspec.structs.replace(NEW_5, nanosecond=1)], NEW_5, 0, True, False),
        ([CANCELLED, msgspec.structs.replace(CANCELLED, day=11)], CANCELLED, 0, True, False),
        (
            [NEW_5, msgspec.structs.replace(NEW_5, qty=6), NEW_5],
            NEW_5,
            0,
            True,
            False,
        ),  # saying it again: no end
        ([NEW_5, msgspec.structs.replace(NEW_5, qty=6), AMENDED], AMENDED, 2, False, True),
        (
            [NEW_5, AMENDED, msgspec.structs.replace(NEW_5, qty=6)],
            AMENDED,
            1,
            False,
            True,
        ),  # below the highest
    ],
)
def test_the_highest_revision_decides_and_two_sayings_of_it_decide_nothing(
    candidates, in_force, offset, conflicted, contributes
):
    authority, _ = taken(*candidates)
    assert authority == Authority(in_force, offset, conflicted=conflicted)
    assert authority.contributes is contributes


def test_an_authority_stays_the_same_object_when_nothing_changes():
    authority = first(Accepted(0, "A", 0, AMENDED))
    for candidate in (AMENDED, NEW_5):
        assert rule(authority, Accepted(0, "A", 1, candidate)).authority is authority


def test_every_coordinate_is_kept_once():
    authority, observations = taken(
        NEW_5, NEW_5, AMENDED, NEW_5, msgspec.structs.replace(AMENDED, qty=8)
    )
    assert (authority.candidate, authority.offset, authority.conflicted) == (AMENDED, 2, True)
    assert [(o.key, o.txn_id, o.offset, o.candidate) for o in observations] == [
        (0, "A", 1, NEW_5),
        (0, "A", 0, NEW_5),  # superseded by offset 2
        (0, "A", 3, NEW_5),
        (0, "A", 4, msgspec.structs.replace(AMENDED, qty=8)),
    ]


def test_only_a_cancellation_is_inactive():
    assert [each.active for each in (NEW_5, AMENDED, CANCELLED)] == [True, True, False]


candidates_of_one = st.builds(
    Candidate,
    st.integers(1, 3),
    st.sampled_from(["NEW", "AMEND", "CANCEL"]),
    st.integers(1, 2),
    st.just(0),
    st.integers(0, 1),
)


@given(st.lists(candidates_of_one, min_size=1, max_size=4))
def test_neither_order_nor_repetition_decides_what_is_in_force(candidates):
    highest = max(candidate.revision for candidate in candidates)
    sayings = {candidate for candidate in candidates if candidate.revision == highest}
    for order in permutations([*candidates, candidates[0]]):
        authority, observations = taken(*order)
        assert authority.candidate in sayings
        assert authority.candidate.revision == highest
        assert authority.conflicted is (len(sayings) > 1)
        offsets = {authority.offset: authority.candidate}
        offsets.update({o.offset: o.candidate for o in observations})
        assert [offsets[at] for at in range(len(order))] == list(order)
