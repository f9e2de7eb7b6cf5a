from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.bank import batches
from amends_pipeline.bank.fold import fold_balance, judge
from amends_pipeline.bank.statement import (
    explain_change,
    judge_change,
    judge_statement,
    judge_statement_read,
    statement,
)
from amends_pipeline_tests.bank.situations import damages, genesis, resumed
from amends_pipeline_tests.bank.strategies import exports, queries
from amends_pipeline_tests.bank.test_fold import many
from amends_pipeline_tests.bank.written import account, at, context, correction, posting, query


def told(result):
    """A statement's lines in short: sequence, kind, delta, normal balance."""
    return [
        " ".join(
            line[name] for name in ("sequence", "kind", "raw_delta_minor", "normal_balance_minor")
        )
        for line in result["lines"]
    ]


def test_the_canonical_statement_of_ada():
    result = statement(*genesis())
    assert told(result) == [
        "1 posting -100000 100000",
        "2 posting 2500 97500",
        "3 reversal -2500 100000",
        "4 replacement 2400 97600",
        "5 posting 250 97350",
    ]
    assert result["lines"][2] == {
        "group_id": "G-FIX",
        "sequence": "3",
        "journal_id": "J-UNDO",
        "kind": "reversal",
        "correction_id": "C-1",
        "original_journal_id": "J-PAY",
        "effective_at": "2025-10-10T12:00:00.000Z",
        "booking_period": "2025-10",
        "recorded_at": "2025-10-21T10:00:00.000Z",
        "available_at": "2025-10-21T10:00:01.000Z",
        "raw_delta_minor": "-2500",
        "raw_balance_minor": "-100000",
        "normal_balance_minor": "100000",
    }
    assert result["opening"]["raw_balance_minor"] == "0"
    assert result["balance"]["normal_balance_minor"] == "97350"


def test_the_canonical_statement_of_ada_without_what_cancels():
    assert told(statement(*genesis(), collapse=True)) == [
        "1 posting -100000 100000",
        "4 replacement 2400 97600",
        "5 posting 250 97350",
    ]


def test_before_the_correction_is_known_nothing_is_hidden():
    situation = genesis()
    situation.query["knowledge_cutoff"] = "2025-10-21T10:00:00.999Z"
    result = statement(*situation, collapse=True)
    assert told(result) == ["1 posting -100000 100000", "2 posting 2500 97500"]


def test_who_was_paid_by_mistake_has_an_empty_statement_without_what_cancels():
    situation = genesis()
    situation.query["account_id"] = "BEN"
    assert told(statement(*situation)) == ["2 posting -2500 2500", "3 reversal 2500 0"]
    result = statement(*situation, collapse=True)
    assert (told(result), result["balance"]["raw_balance_minor"]) == ([], "0")


def test_after_a_checkpoint_the_reversal_of_what_it_covers_stays():
    result = statement(*resumed(), collapse=True)
    assert result["opening"]["normal_balance_minor"] == "97500"
    assert told(result) == ["3 reversal -2500 100000", "4 replacement 2400 97600"]
    assert result["coverage"]["checkpoint_id"] == "CP-2-20251020T235959999Z"


def test_a_corrected_replacement_hides_both_pairs():
    wrong = posting(1, "Cash +9, X -9", effective=at(0))
    first = correction(2, wrong["journals"][0], "Cash +8, X -8", effective=at(0), recorded=at(5))
    second = correction(4, first["journals"][1], "Cash +7, X -7", effective=at(0), recorded=at(6))
    groups = [wrong, first, second]
    accounts = [account("Cash", "asset"), account("X")]
    arguments = (query("X", at(9), at(9)), groups, accounts, context(groups))
    assert told(statement(*arguments)) == [
        "1 posting -9 9",
        "2 reversal 9 0",
        "3 replacement -8 8",
        "4 reversal 8 0",
        "5 replacement -7 7",
    ]
    assert told(statement(*arguments, collapse=True)) == ["5 replacement -7 7"]


def test_an_original_that_is_not_yet_effective_does_not_hide_its_reversal():
    wrong = posting(1, "Cash +9, X -9", effective=at(4), recorded=at(4))
    early = correction(2, wrong["journals"][0], "Cash +8, X -8", effective=at(1), recorded=at(5))
    groups = [wrong, early]
    accounts = [account("Cash", "asset"), account("X")]
    arguments = (query("X", at(3), at(9)), groups, accounts, context(groups))
    assert told(statement(*arguments, collapse=True)) == ["2 reversal 9 -9", "3 replacement -8 -1"]


def cutoffs(effective, known):
    return {**genesis().query, "effective_cutoff": effective, "knowledge_cutoff": known}


BEFORE, AFTER = "2025-10-21T10:00:00.999Z", "2025-10-25T00:00:00.000Z"
TWENTIETH = "2025-10-20T23:59:59.999Z"


@pytest.mark.parametrize(
    ("first", "second", "change", "groups"),
    [
        (
            (TWENTIETH, BEFORE),
            (TWENTIETH, AFTER),
            "100",
            [("G-FIX", ["J-UNDO", "J-REDO"], [], "100")],
        ),
        ((TWENTIETH, AFTER), (AFTER, AFTER), "-250", [("G-FEE", ["J-FEE"], [], "-250")]),
        (
            (AFTER, AFTER),
            (TWENTIETH, BEFORE),
            "150",
            [("G-FIX", [], ["J-UNDO", "J-REDO"], "-100"), ("G-FEE", [], ["J-FEE"], "250")],
        ),
        ((AFTER, AFTER), (AFTER, AFTER), "0", []),
    ],
)
def test_a_change_of_adas_balance_is_explained(first, second, change, groups):
    situation = genesis()
    result = explain_change(cutoffs(*first), cutoffs(*second), *situation[1:])
    assert result["normal_change_minor"] == change
    names = ("group_id", "entered_journal_ids", "left_journal_ids", "normal_change_minor")
    assert [tuple(each[name] for name in names) for each in result["groups"]] == groups
    for name, asked in (("first", first), ("second", second)):
        folded = fold_balance(cutoffs(*asked), *situation[1:])
        assert result[name]["balance"] == folded["balance"]


def test_a_change_is_about_one_account():
    situation = genesis()
    result, rejection = judge_change(
        situation.query, {**situation.query, "account_id": "BEN"}, *situation[1:]
    )
    assert result["code"] == "SCOPE_MISMATCH"
    assert str(rejection) == (
        "SCOPE_MISMATCH at second query: account_id: expected ADA, the account of the first query,"
        " found BEN"
    )


def test_the_query_at_fault_is_named():
    situation = genesis()
    late = {**situation.query, "knowledge_cutoff": "2025-10-25T00:00:00.001Z"}
    for queries_, name in [((late, situation.query), "first"), ((situation.query, late), "second")]:
        result, rejection = judge_change(*queries_, *situation[1:])
        assert result["code"] == "KNOWLEDGE_BEYOND_EXPORT"
        assert rejection.where == f"{name} query: knowledge_cutoff"


@pytest.mark.parametrize("damage", damages(), ids=lambda damage: f"{damage.code}: {damage.wrong}")
def test_what_the_fold_refuses_has_no_statement_and_no_explanation(damage):
    situation = damage.situation()
    expected = judge(*situation).rejection
    result, rejection = judge_statement(*situation)
    assert rejection == expected
    assert result == {
        "status": "rejected",
        "code": damage.code,
        "balance": None,
        "opening": None,
        "coverage": None,
        "lines": [],
    }
    changed, reason = judge_change(situation.query, *situation)
    assert (changed["status"], changed["code"], changed["groups"]) == ("rejected", damage.code, [])
    assert reason._replace(where="") == expected._replace(where="")


@given(st.data())
def test_a_statement_adds_up_to_the_fold(data):
    export = data.draw(exports())
    asked = data.draw(queries(export))
    arguments = (asked, export.groups, export.accounts, export.context())
    folded = fold_balance(*arguments)
    for collapse in (False, True):
        result = statement(*arguments, collapse=collapse)
        assert result["balance"] == folded["balance"]
        assert result["coverage"] == folded["coverage"]
        running = 0
        for line in result["lines"]:
            running += int(line["raw_delta_minor"])
            assert line["raw_balance_minor"] == str(running)
    whole = statement(*arguments)["lines"]
    selected = [name for each in folded["trace"] for name in each["selected_journal_ids"]]
    assert [line["journal_id"] for line in whole] == selected


@given(st.data(), st.integers(1, 3))
def test_where_batches_end_and_how_groups_are_read_does_not_matter(data, size):
    export = data.draw(exports())
    asked = data.draw(queries(export))
    arguments = (export.accounts, export.context())
    expected = judge_statement(asked, export.groups, *arguments)
    lines = [json.dumps(group).encode() + b"\n" for group in export.groups]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "BATCH", size)
        assert judge_statement(asked, iter(export.groups), *arguments) == expected
        read = judge_statement_read(asked, lambda: batches.read_lines(lines), *arguments)
    assert read == expected


def test_more_groups_than_the_reference_takes_have_a_statement_and_an_explanation():
    situation = genesis()
    groups, head = many(4100)
    trusted = {"head": {**situation.context["head"], **head}, "checkpoint_registry": []}
    arguments = (groups, situation.accounts, trusted)
    assert judge(situation.query, *arguments).result["code"] == "INVALID_GROUP"
    result = statement(situation.query, *arguments)
    assert result["balance"]["normal_balance_minor"] == "4100"
    assert told(result)[-1] == "4100 posting -1 4100"
    assert result["coverage"]["visible_through_sequence"] == "4100"

    before = {**situation.query, "effective_cutoff": "1999-12-31T23:59:59.999Z"}
    change = explain_change(before, situation.query, *arguments)
    assert (change["normal_change_minor"], len(change["groups"])) == ("4100", 4100)

    # From a checkpoint on it is the whole that is long.
    first = fold_balance(
        situation.query,
        groups[:4096],
        situation.accounts,
        {**trusted, "head": {**trusted["head"], "head_sequence": "4096"}},
    )
    trusted["checkpoint_registry"] = [first["checkpoint_registry_entry"]]
    resumed_query = {**situation.query, "checkpoint": first["checkpoint"]}
    rest = (groups[4096:], situation.accounts, trusted)
    assert judge(resumed_query, *rest).result["code"] == "INVALID_GROUP"
    result = statement(resumed_query, *rest)
    assert result["opening"]["normal_balance_minor"] == "4096"
    assert [line["normal_balance_minor"] for line in result["lines"]] == [
        "4097",
        "4098",
        "4099",
        "4100",
    ]


def test_queries_that_start_from_different_checkpoints_of_one_place_are_compared():
    """The registry holds two of sequence 2; both histories are read."""
    situation = resumed()
    [entry] = situation.context["checkpoint_registry"]
    other = {**entry["checkpoint"], "checkpoint_id": "CP-OTHER"}
    situation.context["checkpoint_registry"].append({**entry, "checkpoint": other})
    second = {**situation.query, "checkpoint": other}
    result, _ = judge_change(situation.query, second, *situation[1:])
    assert (result["normal_change_minor"], result["groups"]) == ("0", [])
    damaged = {**other, "raw_balance_minor": "-1"}
    situation.context["checkpoint_registry"][1]["checkpoint"] = damaged
    second = {**situation.query, "checkpoint": damaged}
    result, _ = judge_change(situation.query, second, *situation[1:])
    assert result["code"] == "CHECKPOINT_BALANCE_MISMATCH"


@given(st.data())
def test_changes_add_up_and_turn_around(data):
    export = data.draw(exports())
    first = data.draw(queries(export))
    second = {**data.draw(queries(export)), **{n: first[n] for n in ("account_id", "currency")}}
    there = explain_change(first, second, export.groups, export.accounts, export.context())
    back = explain_change(second, first, export.groups, export.accounts, export.context())
    total = sum(int(each["raw_change_minor"]) for each in there["groups"])
    raws = [int(there[side]["balance"]["raw_balance_minor"]) for side in ("first", "second")]
    assert total == raws[1] - raws[0] == int(there["raw_change_minor"])
    assert (there["first"], there["second"]) == (back["second"], back["first"])
    for one, other in zip(there["groups"], back["groups"], strict=True):
        assert one["entered_journal_ids"] == other["left_journal_ids"]
        assert int(one["raw_change_minor"]) == -int(other["raw_change_minor"])
