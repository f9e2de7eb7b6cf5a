"""The second checker by itself: on what is stated by hand, before it judges anything drawn."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from random import Random

import pytest

from amends_pipeline_tests.bank import checker, shapes
from amends_pipeline_tests.bank.checker import check
from amends_pipeline_tests.bank.drawing import drawn_case
from amends_pipeline_tests.bank.situations import damages, genesis, resumed
from amends_pipeline_tests.bank.written import (
    CEDAR,
    at,
    cedar,
    checkpoint,
    context,
    correction,
    posting,
    query,
)
from amends_pipeline_tests.inventory.test_boundary_of_oracle import imported

END = "9999-12-31T23:59:59.999Z"
ADA = CEDAR[2]


def test_it_imports_nothing_of_the_package():
    its_own = {f"{shapes.__name__}.{name}" for name in vars(shapes)} | {shapes.__name__}
    for part in (checker, shapes):
        source = Path(part.__file__).read_text(encoding="utf-8")
        names = set(imported(source)) - its_own
        assert not any(name.startswith((".", "amends_pipeline")) for name in names)


@pytest.mark.parametrize("damage", damages(), ids=lambda damage: f"{damage.code}: {damage.wrong}")
def test_it_refuses_every_stated_damage_with_its_code(damage):
    assert check(*damage.situation()) == (damage.code, None)


@pytest.mark.parametrize("situation", [genesis, resumed])
def test_it_accepts_the_history_that_was_not_damaged(situation):
    code, result = check(*situation())
    assert code == "BALANCE_FOLDED"
    assert result["status"] == "ok"


# The story, question by question


@pytest.mark.parametrize(
    ("effective", "known", "normal", "deltas"),
    [
        (END, END, "97350", ["-100000", "2500", "-100", "250"]),
        (END, "2025-10-21T09:00:02.000Z", "97600", ["-100000", "2500", "-100"]),
        (END, "2025-10-21T09:00:01.999Z", "97500", ["-100000", "2500"]),
        (END, "2025-10-21T09:00:00.200Z", "97500", ["-100000", "2500"]),
        ("2025-10-20T00:00:00.000Z", END, "97600", ["-100000", "2500", "-100", "0"]),
        (END, "2025-10-09T00:00:00.000Z", "0", []),
    ],
)
def test_the_story(effective, known, normal, deltas):
    groups = cedar()
    code, result = check(query("Ada", effective, known), groups, CEDAR, context(groups))
    assert code == "BALANCE_FOLDED"
    assert result["balance"]["normal_balance_minor"] == normal
    assert [line["raw_delta_minor"] for line in result["trace"]] == deltas


def test_the_story_from_a_checkpoint():
    groups = cedar()
    cutoff = "2025-10-20T00:00:00.000Z"
    kept = checkpoint(ADA, groups[:2], -97500, cutoff)
    asked = query("Ada", cutoff, "2025-10-22T00:00:00.000Z", checkpoint=kept)
    trusted = context(groups, {"checkpoint": kept, "prefix_groups": groups[:2]})
    code, result = check(asked, groups[2:], CEDAR, trusted)
    assert code == "BALANCE_FOLDED"
    assert result["coverage"] == {
        "stream_id": "CB-GENERAL.CB-A",
        "receipt_ref": "R-1",
        "head_sequence": "5",
        "validated_through_sequence": "5",
        "visible_through_sequence": "4",
        "checkpoint_id": "CP-2-20251020T000000000Z",
        "observed_at": END,
    }
    assert result["trace"] == [
        {
            "group_id": "G-3",
            "first_sequence": "3",
            "last_sequence": "4",
            "available_at": "2025-10-21T09:00:02.000Z",
            "selected_journal_ids": ["J-3", "J-4"],
            "raw_delta_minor": "-100",
            "raw_balance_minor": "-97600",
            "normal_balance_minor": "97600",
        }
    ]
    assert result["checkpoint"] == checkpoint(ADA, groups[:3], -97600, cutoff, provenance_ref="R-1")
    assert result["checkpoint_registry_entry"] == {
        "checkpoint": result["checkpoint"],
        "prefix_groups": groups[:3],
    }


# Corrections of corrections


def chain(*steps):
    """A first posting, then one correction a step: (which journal it names, by sequence)."""
    groups = [posting(1, "Cash +5, Ada -5", effective=at(0))]
    journals = {1: groups[0]["journals"][0]}
    for place, target in enumerate(steps):
        sequence = 2 + 2 * place
        made = correction(sequence, journals[target], "Cash +6, Ada -6", effective=at(place))
        journals |= {sequence: made["journals"][0], sequence + 1: made["journals"][1]}
        groups.append(made)
    return groups


@pytest.mark.parametrize(
    ("steps", "code"),
    [
        ((1, 3, 5), "BALANCE_FOLDED"),
        ((1, 1), "ALREADY_REVERSED"),
        ((1, 3, 1), "ALREADY_REVERSED"),
        ((1, 2), "REVERSAL_OF_REVERSAL"),
        ((1, 3, 2), "REVERSAL_OF_REVERSAL"),
    ],
)
def test_what_may_be_reversed(steps, code):
    groups = chain(*steps)
    assert check(query("Ada", END, END), groups, CEDAR, context(groups))[0] == code


def test_a_reversal_that_is_one_unit_off():
    groups = chain(1)
    for leg in groups[1]["journals"][0]["command"]["legs"]:
        leg["amount_minor"] = "4"
    assert check(query("Ada", END, END), groups, CEDAR, context(groups))[0] == "INVALID_REVERSAL"


@pytest.mark.parametrize("seed", range(150))
def test_it_accepts_every_drawn_case_and_leaves_it_alone(seed):
    case = drawn_case(Random(seed))  # noqa: S311 - no secret, but a repeatable draw
    given = deepcopy(case)
    assert check(*case)[0] == "BALANCE_FOLDED"
    assert case == given
