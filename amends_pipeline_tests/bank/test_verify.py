"""Every status of a bank's report, stated by hand, and what it tells about rows that differ."""

from __future__ import annotations

import json

import pytest

from amends_pipeline.bank.oracle import (
    AccountBalance,
    CurrencyTotal,
    OracleResult,
    Question,
    compute,
)
from amends_pipeline.bank.verify import SHOWN_DIFFERENCES, Folded, judge
from amends_pipeline.kernel.verdict import Status
from amends_pipeline_tests.bank.written import CEDAR, ENTITY, LEDGER, account, cedar

ASKED = Question(LEDGER, ENTITY, "2025-10-20T00:00:00.000Z", "2025-10-22T00:00:00.000Z")


def oracle():
    return compute([json.dumps(group).encode() for group in cedar()], CEDAR, ASKED)


def row(account_id, raw, normal=None, currency="USD"):
    normal = normal or (raw if account_id == "Cash" else str(-int(raw)))
    return {
        "account_id": account_id,
        "currency": currency,
        "normal_side": "debit" if account_id == "Cash" else "credit",
        "raw_balance_minor": raw,
        "normal_balance_minor": normal,
    }


RIGHT = [
    row("Ada", "-97600"),
    row("Ben", "0"),
    row("Cash", "100000"),
    row("Cora", "-2400"),
    row("Fees", "0"),
]


def folded(balances=RIGHT, currency="USD", through="5", visible="4"):
    coverage = {
        "stream_id": "S",
        "receipt_ref": "R-1",
        "head_sequence": through,
        "validated_through_sequence": through,
        "visible_through_sequence": visible,
        "checkpoint_id": None,
        "observed_at": "2025-10-30T00:00:00.000Z",
    }
    return Folded(
        currency,
        {"status": "ok", "code": "BALANCE_FOLDED", "coverage": coverage, "balances": balances},
    )


def rejected(code):
    return Folded("USD", {"status": "rejected", "code": code, "coverage": None, "balances": []})


def replaced(*rows):
    others = {each["account_id"]: each for each in rows}
    return [others.get(each["account_id"], each) for each in RIGHT]


def differing(report):
    """(account, expected raw, found raw, off by) of each difference."""
    return [
        (
            each.account_id,
            each.expected and each.expected.raw_balance_minor,
            each.found and each.found.raw_balance_minor,
            each.off_by_minor,
        )
        for each in report.differences
    ]


def test_pass():
    report = judge([folded()], oracle())
    assert json.loads(report.to_json()) == {
        "status": "PASS",
        "accepted": True,
        "boundary": {
            "ledger_id": "CB-GENERAL",
            "entity_id": "CB-A",
            "effective_cutoff": "2025-10-20T00:00:00.000Z",
            "knowledge_cutoff": "2025-10-22T00:00:00.000Z",
            "through_sequence": "5",
            "visible_through_sequence": "4",
            "account_count": 5,
            "contribution_count": 8,
        },
        "differences": [],
        "difference_count": 0,
        "trial_balance": [
            {
                "currency": "USD",
                "debits_minor": "107400",
                "credits_minor": "107400",
                "difference_minor": "0",
            }
        ],
        "distance": [],
        "not_compared": [
            {"what": "traces, checkpoints, receipts, and whether the export may be believed"}
        ],
        "errors": [],
    }


@pytest.mark.parametrize(
    ("balances", "expected"),
    [
        (replaced(row("Ada", "-97601")), [("Ada", "-97600", "-97601", "-1")]),
        (replaced(row("Ada", "97600")), [("Ada", "-97600", "97600", "195200")]),
        (replaced(row("Ada", "-97600", "-97600")), [("Ada", "-97600", "-97600", "0")]),
        (replaced(row("Ada", "-97600", currency="EUR")), [("Ada", "-97600", "-97600", "0")]),
        (replaced(row("Cash", "0100000")), [("Cash", "100000", "0100000", None)]),
        (replaced(row("Ben", "0", "-0")), [("Ben", "0", "0", "0")]),
        (RIGHT[1:], [("Ada", "-97600", None, "97600")]),
        (RIGHT[:-1], [("Fees", "0", None, "0")]),
        ([*RIGHT, row("Eve", "3")], [("Eve", None, "3", "3")]),
        ([*RIGHT, RIGHT[0]], [("Ada", None, "-97600", "-97600")]),
        ([], [("Cash", "100000", None, "-100000"), ("Ada", "-97600", None, "97600")]),
    ],
)
def test_drift_of_balances(balances, expected):
    report = judge([folded(balances)], oracle())
    assert (report.status, report.accepted) == (Status.DRIFT, False)
    assert differing(report)[: len(expected)] == expected
    assert (
        report.difference_count == len(report.differences) == max(len(expected), 5 * (not balances))
    )


def test_each_answer_is_about_its_currency():
    accounts = [*CEDAR, account("Kasse", "asset", "EUR")]
    both = compute([json.dumps(group).encode() for group in cedar()], accounts, ASKED)
    euros = [row("Kasse", "0", "0", currency="EUR")]
    assert judge([folded(), folded(euros, currency="EUR")], both).status is Status.PASS
    mixed = judge([folded([*RIGHT, *euros]), folded([], currency="EUR")], both)
    assert [(each.currency, each.account_id) for each in mixed.differences] == [
        ("EUR", "Kasse"),
        ("USD", "Kasse"),
    ]


@pytest.mark.parametrize("found", [None, -97600, -97600.0, True, ["x"]])
def test_an_amount_that_is_no_text_equals_nothing(found):
    odd = row("Ada", "-97600") | {"raw_balance_minor": found}
    report = judge([folded(replaced(odd))], oracle())
    assert (report.status, report.difference_count) == (Status.DRIFT, 1)
    assert report.differences[0].off_by_minor is None


def test_drift_of_the_cutoffs_reach():
    report = judge([folded(visible="2")], oracle())
    assert report.status is Status.DRIFT
    assert json.loads(report.to_json())["differences"] == [
        {
            "kind": "coverage",
            "currency": "USD",
            "account_id": None,
            "expected": {"visible_through_sequence": "4"},
            "found": {"visible_through_sequence": "2"},
            "off_by_minor": None,
        }
    ]


def test_the_worst_rows_come_first_and_all_are_counted():
    many = 3 * SHOWN_DIFFERENCES
    balances = tuple(
        AccountBalance(f"A-{number:03}", "USD", "debit", 10**29 + number, 10**29 + number, 1)
        for number in range(many)
    )
    expected = OracleResult(ASKED, balances, (CurrencyTotal("USD", 0, 0),), 1, 1, 1)
    found = [row(f"A-{number:03}", str(10**29 - number)) for number in range(many)]
    found[7]["raw_balance_minor"] = "?"
    report = judge([folded(found, through="1", visible="1")], expected)
    shown = [each.account_id for each in report.differences]
    assert shown == ["A-007", *(f"A-{number:03}" for number in range(149, 100, -1))]
    assert report.difference_count == many
    assert report.differences[1].off_by_minor == "-298"


def test_a_currency_that_does_not_add_up_is_drift_though_all_balances_agree():
    balances = (AccountBalance("A", "USD", "debit", 5, 5, 1),)
    expected = OracleResult(ASKED, balances, (CurrencyTotal("USD", 5, 3),), 1, 1, 1)
    found = [row("A", "5", "5")]
    report = judge([folded(found, through="1", visible="1")], expected)
    assert (report.status, report.difference_count) == (Status.DRIFT, 0)
    assert report.trial_balance[0].difference_minor == "2"


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ([rejected("SEQUENCE_GAP")], 'the fold says "SEQUENCE_GAP"'),
        ([], "no answer of the fold"),
        ([folded(currency="EUR")], "no answer of the fold"),
        (
            [folded(through="6")],
            "the fold covers sequences through 6, the oracle read through 5",
        ),
    ],
)
def test_incomplete_compares_nothing(answers, says):
    report = judge(answers, oracle())
    assert (report.status, report.accepted) == (Status.INCOMPLETE, False)
    assert [(each.currency, each.says) for each in report.distance] == [("USD", says)]
    assert report.differences == ()
    assert [each.what for each in report.not_compared] == [
        "anything: there are no two whole answers about one export"
    ]


def test_a_hole_that_only_the_oracle_sees_is_incomplete():
    groups = [json.dumps(group).encode() for place, group in enumerate(cedar()) if place != 1]
    report = judge([folded()], compute(groups, CEDAR, ASKED))
    assert report.status is Status.INCOMPLETE
    assert [each.says for each in report.distance] == [
        "the oracle read 4 journals through sequence 5"
    ]


def test_error_comes_before_all_others():
    report = judge([rejected("SEQUENCE_GAP")], None, ["oracle: expected an answer, found none"])
    assert (report.status, report.accepted, report.boundary) == (Status.ERROR, False, None)
    assert report.errors == ("oracle: expected an answer, found none",)
    assert report.trial_balance == ()
    gone = judge([folded([])], oracle(), ["the export went away"])
    assert (gone.status, gone.differences) == (Status.ERROR, ())
    assert gone.not_compared[0].what.startswith("anything")
    assert judge([folded()], None).status is Status.ERROR
