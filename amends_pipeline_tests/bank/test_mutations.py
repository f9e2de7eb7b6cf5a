"""Nothing is changed in an export unnoticed: the fold refuses what the second checker refuses.

`hunt` runs the same for as long as one likes.
"""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amends_pipeline.bank import batches
from amends_pipeline.bank.fold import fold_balance
from amends_pipeline_tests.bank.changing import changed, drawn_change, near_texts, places, texts_of
from amends_pipeline_tests.bank.checker import check
from amends_pipeline_tests.bank.drawing import Case, drawn_case
from amends_pipeline_tests.bank.hunt import (
    disagreement,
    disagreement_about_all,
    drawn_changes,
    drawn_misdeeds,
    pattern,
)
from amends_pipeline_tests.bank.strategies import exports, queries
from amends_pipeline_tests.bank.written import (
    CEDAR,
    at,
    cedar,
    checkpoint,
    context,
    correction,
    posting,
    query,
    reversed_legs,
)

END = "9999-12-31T23:59:59.999Z"
CUTOFF = "2025-10-20T00:00:00.000Z"


def code_of(case):
    """The code on which fold and checker agree; about all accounts they must agree as well."""
    assert disagreement(case) is None
    for size in (batches.BATCH, 2, 1):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(batches, "BATCH", size)
            assert disagreement_about_all(case) is None, size
    return check(*case)[0]


def from_start(groups, accounts=CEDAR):
    return Case(query("Ada", CUTOFF, END), deepcopy(groups), accounts, context(groups))


def from_checkpoint(groups, count):
    """A question that starts after the first `count` groups."""
    prefix = groups[:count]
    raw = (0, -100000, -97500, -97600, -97600)[count]
    kept = checkpoint(CEDAR[2], prefix, raw, CUTOFF)
    entry = {"checkpoint": deepcopy(kept), "prefix_groups": deepcopy(prefix)}
    asked = query("Ada", CUTOFF, END, checkpoint=kept)
    return Case(asked, deepcopy(groups[count:]), CEDAR, context(groups, entry))


# Whole groups dropped, doubled, exchanged, cut off


STARTS = [from_start(cedar()), *(from_checkpoint(cedar(), count) for count in range(5))]


@pytest.mark.parametrize("case", STARTS)
def test_the_whole_story_is_accepted_from_everywhere(case):
    assert code_of(case) == "BALANCE_FOLDED"
    assert fold_balance(*case)["balance"]["normal_balance_minor"] == "97600"


@pytest.mark.parametrize("case", STARTS)
def test_a_dropped_group(case):
    last = len(case.groups) - 1
    for place in range(len(case.groups)):
        groups = case.groups[:place] + case.groups[place + 1 :]
        expected = "INCOMPLETE_EXPORT" if place == last else "SEQUENCE_GAP"
        assert code_of(case._replace(groups=groups)) == expected


@pytest.mark.parametrize("case", STARTS)
def test_a_truncated_export(case):
    for count in range(len(case.groups)):
        assert code_of(case._replace(groups=case.groups[:count])) == "INCOMPLETE_EXPORT"


@pytest.mark.parametrize("case", STARTS)
def test_a_group_delivered_twice(case):
    for place, group in enumerate(case.groups):
        for later in range(place + 1, len(case.groups) + 1):
            groups = [*case.groups[:later], deepcopy(group), *case.groups[later:]]
            assert code_of(case._replace(groups=groups)) == "DUPLICATE_GROUP"
            groups[later]["available_at"] = END
            assert code_of(case._replace(groups=groups)) == "GROUP_ID_CONFLICT"


def test_the_structure_of_all_groups_is_judged_before_their_order():
    case = from_start(cedar()[::-1])
    assert code_of(case) == "SEQUENCE_GAP"
    with changed(case, (1, 3, "available_at"), "yesterday"):
        assert code_of(case) == "INVALID_TIMESTAMP"


@pytest.mark.parametrize("case", STARTS)
def test_two_groups_exchanged(case):
    for place in range(len(case.groups)):
        for later in range(place + 1, len(case.groups)):
            groups = list(case.groups)
            groups[place], groups[later] = groups[later], groups[place]
            assert code_of(case._replace(groups=groups)) == "SEQUENCE_GAP"


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_a_group_of_the_prefix_delivered_again(count):
    case = from_checkpoint(cedar(), count)
    for again in cedar()[:count]:
        for place in range(len(case.groups) + 1):
            groups = [*case.groups[:place], again, *case.groups[place:]]
            assert code_of(case._replace(groups=groups)) == "CHECKPOINT_OVERLAP"


def test_a_new_group_with_a_sequence_already_passed():
    case = from_start(cedar())
    for sequence in (1, 2, 3, 4, 5):
        new = posting(sequence, "Cash +1, Ada -1", effective=END)
        new["group_id"] = "NEW"
        groups = [*case.groups, new]
        assert code_of(case._replace(groups=groups)) == "OUT_OF_ORDER_GROUP"


def test_the_members_of_a_pair_exchanged_or_parted():
    case = from_start(cedar())
    pair = case.groups[2]["journals"]
    with changed(case, (1, 2, "journals"), pair[::-1]):
        assert code_of(case) == "INVALID_GROUP"
    for member in pair:
        with changed(case, (1, 2, "journals"), [member]):
            assert code_of(case) == "INVALID_GROUP"
    with changed(case, (3, "head", "head_sequence"), "3"):
        assert code_of(case) == "INCOMPLETE_EXPORT"


# What drawing hardly ever meets


def chain(*steps):
    """A posting, then a correction of each named journal: sequences 1, 2 to 3, 4 to 5."""
    groups = [posting(1, "Cash +5, Ada -5", effective=at(0))]
    for place, original in enumerate(steps):
        journals = {each["sequence"]: each for group in groups for each in group["journals"]}
        sequence = 2 + 2 * place
        groups.append(
            correction(sequence, journals[original], "Cash +6, Ada -6", effective=at(place))
        )
    return groups


def twice_in_a_pair(name):
    groups = chain("1")
    reversal, replacement = (each["command"] for each in groups[1]["journals"])
    replacement[name] = reversal[name]
    groups[1]["correction"]["replacement_journal_id"] = replacement["journal_id"]
    return groups


def correction_twice():
    groups = chain("1", "3")
    groups[2]["correction"]["correction_id"] = groups[1]["correction"]["correction_id"]
    return groups


def own_replacement_as_original():
    """A correction of its own replacement, with the legs that would turn that around."""
    groups = chain("1")
    reversal, replacement = (each["command"] for each in groups[1]["journals"])
    reversal["legs"] = reversed_legs(replacement["legs"])
    groups[1]["correction"]["original_journal_id"] = replacement["journal_id"]
    return groups


def clocks(*times):
    """Postings with these clocks, effective at 0: (recorded, available), in milliseconds."""
    return [
        posting(
            place,
            "Cash +1, Ada -1",
            effective=at(0),
            recorded=at(recorded),
            available=at(available),
        )
        for place, (recorded, available) in enumerate(times, start=1)
    ]


def legs_in_all(count):
    """A balanced posting of so many legs."""
    each = ", ".join(["Ada -1"] * (count - 1))
    return [posting(1, f"Cash +{count - 1}, {each}", effective=at(0))]


@pytest.mark.parametrize(
    ("groups", "code"),
    [
        (chain("1", "3", "5"), "BALANCE_FOLDED"),
        (chain("1", "1"), "ALREADY_REVERSED"),
        (chain("1", "2"), "REVERSAL_OF_REVERSAL"),
        (correction_twice(), "INVALID_CORRECTION_LINK"),
        (twice_in_a_pair("journal_id"), "DUPLICATE_JOURNAL"),
        (twice_in_a_pair("business_operation_id"), "DUPLICATE_BUSINESS_OPERATION"),
        (own_replacement_as_original(), "INVALID_CORRECTION_LINK"),
        (chain("1", "3", "1"), "ALREADY_REVERSED"),
        (chain("1", "3", "2"), "REVERSAL_OF_REVERSAL"),
        (clocks((0, 0), (0, 0), (5, 9), (5, 9)), "BALANCE_FOLDED"),
        (clocks((1, 9), (0, 9)), "CLOCK_ORDER_VIOLATION"),
        (clocks((1, 9), (1, 8)), "CLOCK_ORDER_VIOLATION"),
        (clocks((0, 7), (1, 9), (2, 8), (3, 9)), "CLOCK_ORDER_VIOLATION"),
        (clocks((0, 9), (5, 9), (4, 9), (6, 9)), "CLOCK_ORDER_VIOLATION"),
        (clocks((1, 0), (1, 9)), "CLOCK_ORDER_VIOLATION"),
        (clocks((-1, 9)), "CLOCK_ORDER_VIOLATION"),
        (legs_in_all(32), "BALANCE_FOLDED"),
        (legs_in_all(33), "INVALID_GROUP"),
        (cedar()[:1] * 4096, "DUPLICATE_GROUP"),
        (cedar()[:1] * 4097, "INVALID_GROUP"),
        ([posting(1, "Ada +7, Ada -7, Cash +1, Ben -1", effective=at(0))], "BALANCE_FOLDED"),
    ],
)
def test_rare_histories(groups, code):
    assert code_of(from_start(groups)) == code


def test_a_prefix_counts_among_the_groups():
    case = from_checkpoint(cedar(), 2)
    case.groups[:] *= 2047  # 2 in the prefix, 2 times 2047 here
    assert code_of(case) == "DUPLICATE_GROUP"
    case.groups.append(deepcopy(case.groups[0]))
    assert code_of(case) == "INVALID_GROUP"


@pytest.mark.parametrize("name", ["last_group_id", "last_recorded_at", "last_available_at"])
@pytest.mark.parametrize("count", [0, 2])
def test_an_unused_checkpoint_that_contradicts_itself(count, name):
    case = from_checkpoint(cedar(), count)
    case = Case(query("Ada", CUTOFF, END), cedar(), CEDAR, case.context)
    assert code_of(case) == "BALANCE_FOLDED"
    other = None if count else END if name.endswith("at") else "G-1"
    with changed(case, (3, "checkpoint_registry", 0, "checkpoint", name), other):
        assert code_of(case) == "INVALID_CONTEXT"


# Any single change


@pytest.mark.parametrize("start", [0, 3], ids=["from the start", "from a checkpoint"])
def test_every_text_of_the_story_changed_to_similar_ones(start):
    case = STARTS[start]
    codes = Counter()
    for path in places(case):
        inner = case
        for step in path:
            inner = inner[step]
        if type(inner) is not str or path[-1] in {"schema_version", "entity_id"}:
            continue  # these two differ from their like by their names only
        for text in [*near_texts(inner)][start % 2 :: 2]:  # one start tries what the other does not
            with changed(case, path, text) as now:
                assert disagreement(now) is None, (pattern(case, path), text)
                codes[check(*now)[0]] += 1
    assert codes["BALANCE_FOLDED"] > 50
    assert codes["INVALID_SCHEMA"] > 50
    assert len(codes) > 12


@settings(max_examples=40)
@given(st.integers(0, 2**32))
def test_any_single_change_is_judged_alike(seed):
    for done, case in drawn_changes(seed, 25):
        assert disagreement(case) is None, done
        assert disagreement_about_all(case) is None, done


@settings(max_examples=40)
@given(st.integers(0, 2**32))
def test_any_misdeeds_are_judged_alike(seed):
    for done, case in drawn_misdeeds(seed, 10, at_once=3):
        assert disagreement(case) is None, done
        assert disagreement_about_all(case) is None, done


def test_misdeeds_reach_every_code_of_a_history():
    codes = {check(*case)[0] for seed in range(150) for _, case in drawn_misdeeds(seed, 10)}
    assert codes >= {
        "SCOPE_MISMATCH",
        "CURRENCY_MISMATCH",
        "UNSUPPORTED_CURRENCY",
        "KNOWLEDGE_BEYOND_EXPORT",
        "UNKNOWN_CHECKPOINT",
        "CHECKPOINT_MISMATCH",
        "CHECKPOINT_QUERY_MISMATCH",
        "CHECKPOINT_AFTER_KNOWLEDGE",
        "CHECKPOINT_OVERLAP",
        "CHECKPOINT_BALANCE_MISMATCH",
        "DUPLICATE_GROUP",
        "GROUP_ID_CONFLICT",
        "OUT_OF_ORDER_GROUP",
        "SEQUENCE_GAP",
        "DUPLICATE_JOURNAL",
        "DUPLICATE_BUSINESS_OPERATION",
        "INVALID_GROUP",
        "INVALID_CORRECTION_LINK",
        "REVERSAL_OF_REVERSAL",
        "ALREADY_REVERSED",
        "INVALID_REVERSAL",
        "CLOCK_ORDER_VIOLATION",
        "INCOMPLETE_EXPORT",
    }


@settings(max_examples=40)
@given(st.data())
def test_any_single_change_of_another_drawing_is_judged_alike(data):
    export = data.draw(exports(max_groups=5))
    asked = data.draw(queries(export))
    plain = Case(asked, deepcopy(export.groups), export.accounts, export.context())
    expected = check(*plain)
    assert expected == ("BALANCE_FOLDED", fold_balance(*plain))
    # What it answers is a checkpoint to start from, wherever the question ends.
    kept = expected[1]["checkpoint_registry_entry"]
    rest = plain.groups[len(kept["prefix_groups"]) :]
    trusted = export.context(kept)
    resumed = Case(asked | {"checkpoint": kept["checkpoint"]}, rest, export.accounts, trusted)
    rng = Random(data.draw(st.integers(0, 2**32)))  # noqa: S311 - no secret, a repeatable draw
    for case in (plain, resumed):
        assert disagreement(case) is None
        paths, texts = list(places(case)), texts_of(case)
        for _ in range(15):
            path, value = drawn_change(rng, case, paths, texts)
            with changed(case, path, value) as now:
                assert disagreement(now) is None, (pattern(case, path), value)


@settings(max_examples=40)
@given(st.integers(0, 2**32))
def test_a_fault_of_an_earlier_stage_is_said_before_all_later_ones(seed):
    rng = Random(seed)  # noqa: S311 - no secret, but a repeatable draw
    case = drawn_case(rng)
    texts = texts_of(case)
    stages = [  # query, accounts, context; groups may hold any fault
        [path for path in places(case) if path[0] == part and "prefix_groups" not in path]
        for part in (0, 2, 3)
    ]
    stages.append([path for path in places(case) if path[0] == 1])
    structural = {"INVALID_SCHEMA", "INVALID_IDENTIFIER", "INVALID_TIMESTAMP", "INVALID_ACCOUNTS"}
    for earlier in range(3):
        path, value = drawn_change(rng, case, stages[earlier], texts)
        with changed(case, path, value) as now:
            code = check(*now)[0]
            if (
                code not in structural
                or len(path) == 1
                or (code, path[0])
                == (
                    "INVALID_ACCOUNTS",
                    0,
                )
            ):
                continue  # no fault, or one that is found by comparing parts
            if code == "INVALID_ACCOUNTS" and not faulty_by_itself(now.accounts):
                continue
            for later in stages[earlier + 1 :]:
                other, replacement = drawn_change(rng, case, later, texts)
                with changed(now, other, replacement) as worse:
                    assert fold_balance(*worse)["code"] == code
                    assert check(*worse)[0] == code


def faulty_by_itself(accounts):
    nobody = query("Nobody", END, END)
    empty = context([])
    return check(nobody | {"currency": "ZZZ"}, [], accounts, empty)[0] == "INVALID_ACCOUNTS"
