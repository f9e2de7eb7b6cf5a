"""Effective by one cutoff, known by the other: every way to ask gives the stated number."""

from __future__ import annotations

import json

import pytest

from amends_pipeline.bank.balances import fold_balances
from amends_pipeline.bank.fold import fold_balance
from amends_pipeline.bank.oracle import Question, compute
from amends_pipeline.bank.statement import statement
from amends_pipeline_tests.bank.strategies import aggregate_query
from amends_pipeline_tests.bank.written import (
    CEDAR,
    ENTITY,
    LEDGER,
    at,
    context,
    correction,
    posting,
    query,
)

NOON = 12 * 3_600_000
LATE = at(30 * 86_400_000)


def folded(groups, effective, known, entry=None):
    """Ada's fold, from the beginning or from a registry entry whose prefix `groups` begin with."""
    asked = query("Ada", effective, known, checkpoint=entry and entry["checkpoint"])
    rest = groups[len(entry["prefix_groups"]) :] if entry else groups
    result = fold_balance(asked, rest, CEDAR, context(groups, *filter(None, [entry])))
    assert result["status"] == "ok"
    return result


def ada(groups, effective=LATE, known=LATE):
    """Ada's balance, on which all that tell one agree."""
    result = folded(groups, effective, known)
    balance = int(result["balance"]["normal_balance_minor"])
    asked = query("Ada", effective, known)
    everyone = fold_balances(aggregate_query(asked), groups, CEDAR, context(groups))
    told = {each["account_id"]: int(each["normal_balance_minor"]) for each in everyone["balances"]}
    for collapse in (False, True):
        account = statement(asked, groups, CEDAR, context(groups), collapse=collapse)
        assert int(account["balance"]["normal_balance_minor"]) == balance
    written = [json.dumps(group).encode() for group in groups]
    judged = compute(written, CEDAR, Question(LEDGER, ENTITY, effective, known))
    assert {each.account_id: each.normal_balance_minor for each in judged.balances} == told
    assert told["Ada"] == balance
    return balance


def test_both_edges_belong_to_the_answer():
    # Nine postings before, at and after both cutoffs; the amount tells which ones were counted.
    moments = [(known, effective) for known in (-1, 0, 1) for effective in (-1, 0, 1)]
    groups = [
        posting(
            number + 1,
            f"Cash +{2**number}, Ada -{2**number}",
            effective=at(NOON + effective),
            recorded=at(NOON + known + 9),
        )
        for number, (known, effective) in enumerate(moments)
    ]
    assert ada(groups, at(NOON), at(NOON + 9)) == 2**0 + 2**1 + 2**3 + 2**4
    assert ada(groups, at(NOON), at(NOON + 8)) == 2**0 + 2**1
    assert ada(groups, at(NOON - 1), at(NOON + 9)) == 2**0 + 2**3
    assert ada(groups) == 2**9 - 1


def corrected(effective):
    """250 on the first day, made 100 on the tenth; the correction takes effect at `effective`."""
    first = posting(1, "Cash +250, Ada -250", effective=at(NOON))
    tenth = 9 * 86_400_000 + NOON
    members = {"effective": effective, "recorded": at(tenth), "available": at(tenth + 1)}
    return [
        posting(1, "Cash +250, Ada -250", effective=at(NOON)),
        correction(2, first["journals"][0], "Cash +100, Ada -100", **members),
    ]


SECOND, BEFORE, AFTER = (
    at(86_400_000 + NOON),
    at(9 * 86_400_000 + NOON),
    at(9 * 86_400_000 + 2 * NOON),
)


@pytest.mark.parametrize(
    ("takes_effect", "effective", "known", "balance"),
    [
        (at(NOON), SECOND, BEFORE, 250),
        (at(NOON), SECOND, AFTER, 100),
        (at(NOON), LATE, AFTER, 100),
        (at(NOON - 1), at(NOON - 1), AFTER, -150),  # before what it corrects
        (BEFORE, SECOND, AFTER, 250),  # it was said to count from the tenth day on
        (BEFORE, BEFORE, AFTER, 100),
        (BEFORE, LATE, BEFORE, 250),
    ],
)
def test_a_correction_counts_from_its_own_effective_time_on(
    takes_effect, effective, known, balance
):
    assert ada(corrected(takes_effect), effective, known) == balance


def test_a_checkpoint_before_a_late_correction_does_not_hide_it():
    groups = corrected(at(NOON))
    kept = folded(groups[:1], SECOND, BEFORE)["checkpoint_registry_entry"]
    assert kept["checkpoint"]["raw_balance_minor"] == "-250"
    for known, balance in ((BEFORE, "250"), (AFTER, "100")):
        result = folded(groups, SECOND, known, kept)
        assert result["balance"]["normal_balance_minor"] == balance
        assert int(balance) == ada(groups, SECOND, known)


def test_a_replacement_that_is_corrected_again_leaves_the_last_one():
    first = posting(1, "Cash +250, Ada -250", effective=at(0))
    second = correction(2, first["journals"][0], "Cash +100, Ada -100", effective=at(1))
    third = correction(4, second["journals"][1], "Cash +70, Ada -70", effective=at(2))
    assert [ada([first, second, third], known=at(moment)) for moment in (0, 1, 2)] == [250, 100, 70]


def test_thirty_digits_are_turned_around_to_the_last_one():
    amount = 123456789012345678901234567891
    first = posting(1, f"Cash +{amount}, Ada -{amount}", effective=at(0))
    again = correction(
        2, first["journals"][0], f"Cash +{10**30 - 1}, Ada -{10**30 - 1}", effective=at(1)
    )
    more = posting(4, f"Cash +{10**30 - 1}, Ada -{10**30 - 1}", effective=at(2))
    groups = [first, again, more]
    assert ada(groups, known=at(0)) == amount
    assert ada(groups, known=at(1)) == 10**30 - 1
    assert ada(groups) == 2 * 10**30 - 2


def test_equal_postings_of_one_moment_count_each():
    groups = [posting(number, "Cash +5, Ada -5", effective=at(7)) for number in range(1, 9)]
    assert ada(groups, at(7), at(7)) == 40
    assert ada(groups, at(6), at(7)) == 0


def test_from_every_group_of_a_long_history_the_balance_is_that_from_the_beginning():
    """Sequences go from one digit to two; every third group is effective before all others."""
    groups = [
        posting(
            number,
            f"Cash +{2**number}, Ada -{2**number}",
            effective=at(100 + number if number % 3 else number),
            recorded=at(1_000 + number),
        )
        for number in range(1, 21)
    ]
    counted = {
        at(99): [number for number in range(1, 21) if number % 3 == 0],
        at(110): [number for number in range(1, 21) if number % 3 == 0 or number <= 10],
        LATE: list(range(1, 21)),
    }
    for effective, numbers in counted.items():
        for known in (5, 9, 10, 11, 20):
            whole = folded(groups, effective, at(1_000 + known))
            seen = [number for number in numbers if number <= known]
            assert whole["balance"]["normal_balance_minor"] == str(sum(2**each for each in seen))
            for split in range(known + 1):
                early = folded(groups[:split], effective, at(1_000 + known))
                entry = early["checkpoint_registry_entry"]
                resumed = folded(groups, effective, at(1_000 + known), entry)
                assert resumed["balance"] == whole["balance"]
                assert resumed["checkpoint"] == whole["checkpoint"]
