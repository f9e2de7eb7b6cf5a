"""Three answers to one question: the oracle's, the second checker's, the fold's."""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amends_pipeline.bank.balances import fold_balances
from amends_pipeline.bank.fold import fold_balance
from amends_pipeline.bank.oracle import Question, compute
from amends_pipeline.bank.verify import Folded, judge
from amends_pipeline.kernel.verdict import Status
from amends_pipeline_tests.bank.checker import check_balances
from amends_pipeline_tests.bank.drawing import drawn_bank, moments
from amends_pipeline_tests.bank.strategies import exports, queries
from amends_pipeline_tests.bank.written import STREAM, at, context


def answers_agree(groups, accounts, trusted, effective, known):
    """Ask all three about every account, at one pair of cutoffs."""
    head = trusted["head"]
    scope = {name: head[name] for name in ("ledger_id", "entity_id")}
    own = [each for each in accounts if scope.items() <= each.items()]
    lines = [json.dumps(group, ensure_ascii=bool(len(groups) % 2)).encode() for group in groups]
    oracle = compute(lines, accounts, Question(*scope.values(), effective, known))
    said = {each.account_id: each for each in oracle.balances}
    assert list(said) == sorted(each["account_id"] for each in own)
    folded = []
    for currency in sorted({each["currency"] for each in own}):
        query = {
            "schema_version": "d30-balance-fold-v1",
            **scope,
            "currency": currency,
            "effective_cutoff": effective,
            "knowledge_cutoff": known,
        }
        code, expected = check_balances(query, groups, accounts, trusted)
        assert code == "BALANCE_FOLDED"
        result = fold_balances(query, groups, accounts, trusted)
        assert result["balances"] == expected
        for row in expected:
            balance = said.pop(row["account_id"])
            for name in ("raw_balance_minor", "normal_balance_minor"):
                assert str(getattr(balance, name)) == row[name]
            one = query | {"account_id": row["account_id"], "checkpoint": None}
            answer = fold_balance(one, groups, accounts, trusted)
            assert answer["balance"] == row
            selected = [id_ for line in answer["trace"] for id_ in line["selected_journal_ids"]]
            legs = [
                leg
                for group in groups
                for journal in group["journals"]
                if journal["command"]["journal_id"] in selected
                for leg in journal["command"]["legs"]
                if leg["account_id"] == row["account_id"]
            ]
            assert balance.contribution_count == len(legs)
        folded.append(Folded(currency, result))
    assert said == {}
    assert all(total.difference_minor == 0 for total in oracle.trial_balance)
    report = judge(folded, oracle)
    assert (report.status, report.differences) == (Status.PASS, ())
    return oracle


@settings(max_examples=15)
@given(st.integers(0, 2**32))
def test_at_drawn_cutoffs_of_a_drawn_history(seed):
    rng = Random(seed)  # noqa: S311 - no secret, but a repeatable draw
    bank = drawn_bank(rng)
    observed = at(bank.observed)
    times = moments(bank)
    known = rng.choice([time for time in times if time <= observed])
    trusted = context(bank.groups, observed=observed)
    answers_agree(bank.groups, bank.accounts, trusted, rng.choice(times), known)


@settings(max_examples=15)
@given(st.data())
def test_at_drawn_cutoffs_of_another_drawing(data):
    export = data.draw(exports())
    query = data.draw(queries(export))
    cutoffs = query["effective_cutoff"], query["knowledge_cutoff"]
    answers_agree(export.groups, export.accounts, export.context(), *cutoffs)


@pytest.mark.parametrize("seed", [1, 5])
def test_at_every_edge_of_one_history(seed):
    bank = drawn_bank(Random(seed), most=5)  # noqa: S311 - no secret, but a repeatable draw
    observed = at(bank.observed)
    trusted = context(bank.groups, observed=observed)
    assert trusted["head"]["stream_id"] == STREAM
    assert bank.groups
    times = moments(bank)
    receipts = {group["available_at"] for group in bank.groups}
    known = [time for time in times if time <= observed and near(time, receipts)]
    effective = {
        journal["command"]["effective_at"] for group in bank.groups for journal in group["journals"]
    }
    reached = {
        answers_agree(bank.groups, bank.accounts, trusted, one, other).visible_through_sequence
        for one in times
        if near(one, effective)
        for other in known
    }
    assert {int(group["journals"][-1]["sequence"]) for group in bank.groups} <= reached


def near(time, times):
    """Whether a timestamp is one of those, or at most a millisecond from one (in its second)."""
    return any(
        time[:20] == each[:20] and abs(int(time[20:23]) - int(each[20:23])) <= 1 for each in times
    )
