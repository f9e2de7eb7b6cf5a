from __future__ import annotations

import pytest

from amends_pipeline.bank.codes import Code, Rejection
from amends_pipeline.kernel.errors import UnknownStream
from amends_pipeline_tests.contracts.bank_bench import NOON, account, plain

LAST_MOMENT = "2025-10-20T12:00:00.001Z"
THIRTY = "123456789012345678901234567890"


def test_the_first_posting_is_group_1_with_a_receipt(bank):
    booking = bank.posted("fund", "CASH ADA 100000")
    assert not booking.repeated
    group = plain(booking.group)
    assert group["group_id"] == "G-1"
    assert (group["kind"], group["correction"], group["available_at"]) == ("posting", None, NOON)
    [journal] = group["journals"]
    assert (journal["sequence"], journal["recorded_at"]) == ("1", NOON)
    assert bank.export().groups == [group]


def test_the_story_of_ada(bank):
    """Funding, an error, its correction, a fee: what was known when stays so."""
    bank.set_clock("2025-10-20T12:00:00.000Z", step_ms=1_000)
    funded = bank.posted("fund", "CASH ADA 100000").group.available_at
    paid = bank.posted("pay", "ADA BEN 2500").group.available_at
    corrected = bank.corrected("redo", "pay", "ADA CORA 2400").group
    fee = bank.posted("fee", "ADA FEES 250").group.available_at
    export = bank.export()
    told = [
        (funded, 100_000),
        (paid, 97_500),
        (corrected.journals[0].recorded_at, 97_500),
        (corrected.journals[1].recorded_at, 97_500),
        (corrected.available_at, 97_600),
        (fee, 97_350),
    ]
    assert [(each, export.balance("ADA", each)) for each, _ in told] == told
    assert [export.balance(each) for each in ("CASH", "BEN", "CORA", "FEES")] == [
        100_000,
        0,
        2_400,
        250,
    ]


def test_a_correction_is_one_group_of_reversal_and_replacement(bank):
    bank.posted("pay", "ADA BEN 2500,CASH ADA 1")
    group = plain(bank.corrected("redo", "pay", "ADA CORA 2400").group)
    reversal, replacement = group["journals"]
    assert [journal["sequence"] for journal in group["journals"]] == ["2", "3"]
    assert [
        (leg["account_id"], leg["side"], leg["amount_minor"]) for leg in reversal["command"]["legs"]
    ] == [
        ("ADA", "credit", "2500"),
        ("BEN", "debit", "2500"),
        ("CASH", "credit", "1"),
        ("ADA", "debit", "1"),
    ]
    assert reversal["command"]["journal_id"] == "J-redo-undo"
    assert reversal["command"]["business_operation_id"] == "B-redo-undo"
    assert replacement["command"]["journal_id"] == "J-redo"
    assert group["correction"]["original_journal_id"] == "J-pay"


def test_a_replacement_can_be_corrected_again(bank):
    bank.posted("a", "CASH ADA 1")
    bank.corrected("b", "a", "CASH ADA 2")
    bank.corrected("c", "b", "CASH ADA 3")
    export = bank.export()
    assert export.balance("ADA") == 3
    assert export.head["head_sequence"] == "5"


def test_what_is_hard_to_store_comes_back_as_it_was(bank):
    reason = 'nul \x00, \\0, \\\\, "quotes", \u00a0Caf\u00e9\u2003 \U0001f4b6\t'
    of_link = "\\0\x00\\\\\u00e9" + "\U0001f4b6" * 200
    thirty_two = ",".join(f"CASH ADA {number}" for number in range(1, 17))
    bank.posted("old", f"CASH ADA {THIRTY}", booking_period="2025-11", reason=reason)
    bank.posted(
        "wide",
        thirty_two,
        effective_at="0001-01-01T00:00:00.000Z",
        booking_period="0001-01",
        source_available_at="0001-01-01T00:00:00.000Z",
    )
    bank.corrected(
        "redo", "old", f"CASH ADA {THIRTY}", late=reason, booking_period="2025-12", reason=of_link
    )
    groups = bank.export().groups
    assert groups[0]["journals"][0]["adjustment_reason"] == reason
    assert groups[0]["journals"][0]["command"]["legs"][0]["amount_minor"] == THIRTY
    assert [leg["amount_minor"] for leg in groups[1]["journals"][0]["command"]["legs"]] == [
        str(number) for number in range(1, 17) for _ in "ab"
    ]
    assert [each["adjustment_reason"] for each in groups[2]["journals"]] == [reason, reason]
    assert groups[2]["correction"]["reason"] == of_link


# --- the same again


def test_the_same_command_again_is_answered_with_its_group(bank):
    first = bank.posted("pay", "ADA BEN 5", reason="late", booking_period="2025-09")
    bank.posted("other")
    again = bank.posted("pay", "ADA BEN 5", reason="late", booking_period="2025-09")
    assert again == (first.group, True)
    assert bank.export().head["head_sequence"] == "2"


def test_the_same_correction_again_is_answered_with_its_group(bank):
    bank.posted("pay")
    first = bank.corrected("redo", "pay")
    bank.posted("other")
    assert bank.corrected("redo", "pay") == (first.group, True)
    assert bank.export().head["head_sequence"] == "4"


# --- refusals

POSTS = {
    "another command under a journal id": (
        Code.DUPLICATE_JOURNAL,
        lambda bank: bank.post("pay", "ADA CORA 100"),
    ),
    "the same command for another reason": (
        Code.DUPLICATE_JOURNAL,
        lambda bank: bank.post("late", booking_period="2025-11", reason="very late"),
    ),
    "a business operation booked before": (
        Code.DUPLICATE_BUSINESS_OPERATION,
        lambda bank: bank.post("new", business_operation_id="B-pay"),
    ),
    "the name of a reversal": (Code.DUPLICATE_JOURNAL, lambda bank: bank.post("redo-undo")),
    "debits unlike credits": (
        Code.INVALID_GROUP,
        lambda bank: bank.post(
            "new",
            legs=[
                {"account_id": "CASH", "side": "debit", "amount_minor": "2"},
                {"account_id": "ADA", "side": "credit", "amount_minor": "1"},
            ],
        ),
    ),
    "one account only": (Code.INVALID_GROUP, lambda bank: bank.post("new", "ADA ADA 1")),
    "no legs": (Code.INVALID_GROUP, lambda bank: bank.post("new", legs=[])),
    "33 legs": (
        Code.INVALID_GROUP,
        lambda bank: bank.post("new", ",".join(["CASH ADA 1"] * 17)),
    ),
    "no reason for another month": (
        Code.INVALID_GROUP,
        lambda bank: bank.post("new", booking_period="2025-11", reason=" \u2003"),
    ),
    "a reason for the same month": (
        Code.INVALID_GROUP,
        lambda bank: bank.post("new", reason="because"),
    ),
    "a reason that is no text": (Code.INVALID_SCHEMA, lambda bank: bank.post("new", reason=None)),
    "half a character": (
        Code.INVALID_SCHEMA,
        lambda bank: bank.post("new", booking_period="2025-11", reason="\ud800"),
    ),
    "an unknown account": (Code.INVALID_ACCOUNTS, lambda bank: bank.post("new", "CASH EVE 1")),
    "an account of another currency": (
        Code.CURRENCY_MISMATCH,
        lambda bank: bank.post("new", "CASH DORA 1"),
    ),
    "a currency that never was": (
        Code.UNSUPPORTED_CURRENCY,
        lambda bank: bank.post("new", currency="XYZ"),
    ),
    "another entity": (Code.SCOPE_MISMATCH, lambda bank: bank.post("new", entity_id="CB-B")),
    "a member too many": (Code.INVALID_SCHEMA, lambda bank: bank.post("new", mood="good")),
    "an amount of nothing": (Code.INVALID_AMOUNT, lambda bank: bank.post("new", "CASH ADA 0")),
    "a hostile name": (
        Code.INVALID_IDENTIFIER,
        lambda bank: bank.post("new", journal_id="J'; --"),
    ),
    "a day that is none": (
        Code.INVALID_TIMESTAMP,
        lambda bank: bank.post("new", effective_at="2025-02-30T00:00:00.000Z"),
    ),
    "an effect after its recording": (
        Code.CLOCK_ORDER_VIOLATION,
        lambda bank: bank.post("new", effective_at=LAST_MOMENT),
    ),
    "evidence after its recording": (
        Code.CLOCK_ORDER_VIOLATION,
        lambda bank: bank.post("new", source_available_at=LAST_MOMENT),
    ),
}
CORRECTIONS = {
    "a second reversal": (Code.ALREADY_REVERSED, lambda bank: bank.correct("new", "pay")),
    "a reversal of a reversal": (
        Code.REVERSAL_OF_REVERSAL,
        lambda bank: bank.correct("new", "redo-undo"),
    ),
    "an unknown original": (
        Code.INVALID_CORRECTION_LINK,
        lambda bank: bank.correct("new", "nothing"),
    ),
    "itself": (Code.INVALID_CORRECTION_LINK, lambda bank: bank.correct("new", "new")),
    "a correction id again": (
        Code.INVALID_CORRECTION_LINK,
        lambda bank: bank.correct("new", "late", correction_id="C-redo"),
    ),
    "another replacement than named": (
        Code.INVALID_CORRECTION_LINK,
        lambda bank: bank.correct("new", "late", replacement_journal_id="J-else"),
    ),
    "no reason": (
        Code.INVALID_CORRECTION_LINK,
        lambda bank: bank.correct("new", "late", reason=" "),
    ),
    "members of one name": (
        Code.DUPLICATE_JOURNAL,
        lambda bank: bank.correct("new", "late", reversal_journal_id="J-new"),
    ),
    "members of one operation": (
        Code.DUPLICATE_BUSINESS_OPERATION,
        lambda bank: bank.correct("new", "late", operation="B-new"),
    ),
    "an operation that is no name": (
        Code.INVALID_IDENTIFIER,
        lambda bank: bank.correct("new", "late", operation="-"),
    ),
    "a replacement in another currency": (
        Code.CURRENCY_MISMATCH,
        lambda bank: bank.correct("new", "late", "KASSE DORA 1", currency="EUR"),
    ),
}


@pytest.fixture
def busy(bank):
    bank.posted("pay")
    bank.posted("late", booking_period="2025-11", reason="late")
    bank.corrected("redo", "pay")
    bank.export()
    return bank


@pytest.mark.parametrize(("code", "act"), (POSTS | CORRECTIONS).values(), ids=POSTS | CORRECTIONS)
def test_what_is_refused_leaves_nothing_behind(busy, code, act):
    before = busy.everything()
    refused = act(busy)
    assert isinstance(refused, Rejection)
    assert refused.code == code, str(refused)
    assert busy.everything() == before


def test_a_stream_that_was_never_opened_is_unknown(bank):
    bank.stream_id = "NOWHERE"
    for act in (lambda: bank.post("a"), lambda: bank.correct("a", "b"), bank.export):
        with pytest.raises(UnknownStream, match='stream "NOWHERE"'):
            act()


# --- accounts


def test_accounts_are_added_and_never_changed(bank):
    added = account("EVE", "liability")
    assert bank.post("early", "CASH EVE 1").code == Code.INVALID_ACCOUNTS
    assert bank.open(accounts=[added]) is False
    assert bank.open(accounts=[added, account("CASH", "asset")]) is False
    bank.posted("early", "CASH EVE 1")
    before = bank.everything()
    with pytest.raises(Exception, match='account "EVE": expected the definition it was registered'):
        bank.open(accounts=[account("FOX", "asset"), account("EVE", "equity")])
    assert bank.everything() == before
    assert bank.reopened().export().balance("EVE") == 1


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        (Code.INVALID_ACCOUNTS, account("EVE", "asset") | {"normal_side": "credit"}),
        (Code.INVALID_ACCOUNTS, account("EVE", "asset", "XYZ")),
        (Code.SCOPE_MISMATCH, account("EVE", "asset") | {"entity_id": "CB-B"}),
        (Code.INVALID_SCHEMA, "EVE"),
    ],
)
def test_an_account_that_breaks_its_rules_is_refused(bank, code, wrong):
    before = bank.everything()
    assert bank.open(accounts=[wrong]).code == code
    assert bank.everything() == before
