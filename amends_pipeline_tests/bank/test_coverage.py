"""An export is examined without a question: the same codes as a fold, and what it covers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.bank.balances import judge_balances
from amends_pipeline.bank.batches import read_values
from amends_pipeline.bank.coverage import LATEST, examine, prefixes_of
from amends_pipeline.bank.export import parse_accounts, parse_groups
from amends_pipeline.bank.heads import KnownHead, judge_export
from amends_pipeline_tests.bank.situations import damages, genesis
from amends_pipeline_tests.bank.strategies import aggregate_query, exports
from amends_pipeline_tests.bank.written import account, at, context, posting

# A question may be wrong too, and here none is asked.
DAMAGES = [
    each
    for each in damages()
    if each.start == "genesis" and each.situation().query == genesis().query
]
NOT_OF_THE_EXPORT = {
    "there are no accounts",
    "a stale head: it was observed a millisecond before the cutoff",
}
ALIKE = [each for each in DAMAGES if each.wrong not in NOT_OF_THE_EXPORT]


def examined(situation):
    return examine(situation.accounts, situation.context, read_values(situation.groups))


@pytest.mark.parametrize("damage", ALIKE, ids=lambda damage: f"{damage.code}: {damage.wrong}")
def test_every_damage_has_the_code_that_a_fold_gives_it(damage):
    situation = damage.situation()
    query = aggregate_query(situation.query)
    judged = judge_balances(query, situation.groups, situation.accounts, situation.context)
    found = examined(situation)
    assert found.code == judged.rejection.code
    if not judged.rejection.where.startswith("query"):
        assert found == judged.rejection


def test_most_damages_are_of_the_export_and_are_compared():
    assert len(ALIKE) > 60


def test_the_canonical_history_is_covered():
    found = examined(genesis())
    assert (found.groups, found.corrections, found.journals, found.legs) == (4, 1, 5, 10)
    assert found.times == {
        "effective_at": ("2025-10-01T09:00:00.000Z", "2025-10-23T08:00:00.000Z"),
        "recorded_at": ("2025-10-01T09:00:01.000Z", "2025-10-23T08:00:01.000Z"),
        "available_at": ("2025-10-01T09:00:02.000Z", "2025-10-23T08:00:02.000Z"),
    }
    assert found.currencies == ["USD"]
    assert found.busiest == "ADA"
    assert [each.group_id for each in found.latest] == ["G-FEE", "G-FIX", "G-PAY", "G-FUND"]
    assert not found.beyond_the_reference


def test_nothing_is_covered_by_an_empty_export():
    found = examine([account("CASH", "asset"), account("ADA")], context([]), read_values([]))
    assert (found.groups, found.legs, found.times, found.latest) == (0, 0, {}, ())
    assert found.busiest == "ADA"  # by name, for none has a leg
    assert examine([], context([]), read_values([])).busiest is None


def test_of_a_long_history_the_last_groups_are_kept():
    groups = [posting(n, "A +1, B -1", effective=at(n)) for n in range(1, LATEST + 11)]
    found = examine([account("A"), account("B")], context(groups), read_values(groups))
    assert len(found.latest) == LATEST
    assert [each.journals[0].sequence for each in found.latest[:2]] == [
        str(LATEST + 10),
        str(LATEST + 9),
    ]


@given(st.data())
def test_what_is_counted_is_what_is_there(data):
    export = data.draw(exports())
    found = examine(export.accounts, export.context(), read_values(export.groups))
    groups = parse_groups(export.groups)
    journals = [journal for group in groups for journal in group.journals]
    assert found.groups == len(groups)
    assert found.journals == len(journals)
    assert found.legs == sum(len(journal.command.legs) for journal in journals)
    assert {each.account_id for each in found.in_scope} <= parse_accounts(export.accounts).keys()
    if journals:
        moments = [journal.command.effective_at for journal in journals]
        assert found.times["effective_at"] == (min(moments), max(moments))


def test_an_export_is_held_against_heads_by_its_prefixes():
    situation = genesis()
    head = examined(situation).head

    def prefixes():
        return list(prefixes_of(head, read_values(situation.groups)))

    end = prefixes()[-1]
    known = KnownHead(5, head.observed_at, head.receipt_ref, end.digest)
    assert judge_export([known], head, prefixes()) is None
    other = known._replace(digest=b"x" * 32)
    assert judge_export([other], head, prefixes()).code == "FORKED_HEAD"
