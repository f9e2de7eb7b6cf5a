from __future__ import annotations

import pytest

from amends_pipeline.bank.codes import Code
from amends_pipeline.bank.fold import fold_balance, judge
from amends_pipeline_tests.bank.situations import damages, genesis, resumed

DAMAGES = damages()


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: f"{damage.code}: {damage.wrong}")
def test_every_damage_has_its_code_and_leaves_nothing_behind(damage):
    situation = damage.situation()
    result, rejection = judge(*situation)
    assert result == {
        "status": "rejected",
        "code": damage.code,
        "balance": None,
        "coverage": None,
        "trace": [],
        "checkpoint": None,
        "checkpoint_registry_entry": None,
    }
    assert rejection.code == damage.code
    assert rejection.expected != rejection.found
    assert str(rejection).isprintable()
    assert fold_balance(*situation) == result
    # As if it had been the first call.
    assert fold_balance(*genesis())["balance"]["raw_balance_minor"] == "-97350"


@pytest.mark.parametrize("start", [genesis, resumed])
def test_the_history_is_whole_without_damage(start):
    assert judge(*start()).rejection is None


def test_every_code_has_a_stated_case():
    stated = {damage.code for damage in DAMAGES} | {Code.BALANCE_FOLDED}
    assert stated == set(Code)


@pytest.mark.parametrize(
    ("code", "wrong", "where", "group_id", "sequence"),
    [
        (
            "INVALID_SCHEMA",
            "the query has a watermark",
            "query",
            None,
            None,
        ),
        (
            "INVALID_AMOUNT",
            'an amount written "0"',
            "group 2, sequence 2: journals[0].command.legs[0].amount_minor",
            "G-PAY",
            "2",
        ),
        (
            "INVALID_IDENTIFIER",
            "the stream is named with a blank",
            "context: head.stream_id",
            None,
            None,
        ),
        (
            "INVALID_IDENTIFIER",
            "a group of the prefix is named by nothing",
            "prefix group 1, sequence 1: group_id",
            None,
            "1",
        ),
        (
            "INVALID_IDENTIFIER",
            "an unused registered checkpoint is named by a slash",
            "context: checkpoint_registry[0].checkpoint.checkpoint_id",
            None,
            None,
        ),
        (
            "ALREADY_REVERSED",
            "a second correction of the same payment",
            "group 4, sequence 5",
            "G-FIX-2",
            "5",
        ),
        ("SEQUENCE_GAP", "two groups are exchanged", "group 1, sequence 2", "G-PAY", "2"),
        ("INCOMPLETE_EXPORT", "there are no groups", "groups", None, None),
        (
            "CHECKPOINT_OVERLAP",
            "the whole history is delivered",
            "group 1, sequence 1",
            "G-FUND",
            "1",
        ),
    ],
)
def test_a_rejection_names_the_place(code, wrong, where, group_id, sequence):
    [damage] = [each for each in DAMAGES if (each.code, each.wrong) == (code, wrong)]
    rejection = judge(*damage.situation()).rejection
    assert (rejection.where, rejection.group_id, rejection.sequence) == (where, group_id, sequence)
