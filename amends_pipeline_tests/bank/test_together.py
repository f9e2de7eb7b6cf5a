"""Groups are taken together only where each would be taken by itself, and then to the same end."""

from __future__ import annotations

import copy
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.bank.admission import History
from amends_pipeline.bank.codes import RefusedError
from amends_pipeline.bank.columns import Columns
from amends_pipeline.bank.export import parse_accounts, parse_context, parse_groups
from amends_pipeline.bank.values import write_group
from amends_pipeline_tests.bank.drawing import Case, drawn_bank
from amends_pipeline_tests.bank.misdeeds import commit
from amends_pipeline_tests.bank.situations import damages, genesis
from amends_pipeline_tests.bank.written import at, context, query

RANDOM = st.integers(0, 2**64).map(Random)


def drawn(rng, most):
    """A whole history, with a question that nobody asks."""
    bank = drawn_bank(rng, most)
    trusted = context(bank.groups, observed=at(bank.observed))
    asked = query(bank.accounts[0]["account_id"], at(bank.observed), at(bank.observed))
    return Case(asked, bank.groups, bank.accounts, trusted)


def is_well_written(case):
    """Tell whether there are groups whose history can be judged."""
    try:
        parse_accounts(case.accounts)
        parse_context(case.context)
        return bool(parse_groups(case.groups))
    except (RefusedError, TypeError):
        return False


def histories(case):
    """Two that are empty and alike."""
    head = parse_context(case.context).head
    accounts = parse_accounts(case.accounts)
    return (
        History(head.ledger_id, head.entity_id, accounts, head.observed_at),
        History(head.ledger_id, head.entity_id, accounts, head.observed_at),
    )


def together(history, groups):
    return history.admit_together(Columns(groups, list(map(write_group, groups))))


def state(history):
    return copy.deepcopy(vars(history))


def hold_equal(case, split):
    """Take the groups from number `split` on both ways; tell whether all were taken together."""
    groups = parse_groups(case.groups)
    one, other = histories(case)
    for group in groups[:split]:
        if one.admit(group) or other.admit(group):
            return False
    before = state(other)
    each = [one.admit(group) for group in groups[split:]]
    taken = together(other, groups[split:])
    assert taken == all(rejection is None for rejection in each)
    assert state(other) == (state(one) if taken else before)
    return taken


@given(RANDOM)
def test_a_right_history_is_taken_together_from_every_group_on(rng):
    case = drawn(rng, 9)
    for split in range(len(case.groups)):
        assert hold_equal(case, split)


@given(RANDOM)
def test_a_wrong_history_is_not_taken_together_and_nothing_of_it_stays(rng):
    case = drawn(rng, 9)
    for _ in range(5):
        changed, _ = commit(rng, case)
        if is_well_written(changed):
            hold_equal(changed, rng.randrange(len(changed.groups)))


@pytest.mark.parametrize(
    "damage",
    [each for each in damages() if is_well_written(each.situation())],
    ids=lambda damage: f"{damage.code}: {damage.wrong}",
)
def test_every_damage_is_seen_together_as_one_by_one(damage):
    hold_equal(Case(*damage.situation()), 0)


def test_a_correction_finds_its_original_earlier_in_the_batch_and_nowhere_later():
    case = Case(*genesis())
    assert hold_equal(case, 0)
    groups = parse_groups(case.groups)
    assert [group.kind for group in groups] == ["posting", "posting", "correction", "posting"]
    later = copy.deepcopy(case.groups)
    later[2]["correction"]["original_journal_id"] = "J-FEE"
    fee = later[3]["journals"][0]["command"]
    later[2]["journals"][0]["command"]["legs"] = [
        {**leg, "side": {"debit": "credit", "credit": "debit"}[leg["side"]]} for leg in fee["legs"]
    ]
    assert not hold_equal(case._replace(groups=later), 0)
