"""Faults that other ledgers were reported to have, each with the public report it comes from."""

from __future__ import annotations

from itertools import product

import pytest

from amends_pipeline.bank.fold import fold_balance
from amends_pipeline_tests.bank.written import account, at, context, correction, posting, query

ACCOUNTS = [account("X"), account("Y"), account("Cash", "asset")]
LONG = "123456789012345678901234567891"


def asked(groups, effective, known, account_id="X", accounts=ACCOUNTS):
    """What a fold answers: the normal balance, or the code of a refusal."""
    result = fold_balance(
        query(account_id, effective, known), groups, accounts, context(groups, observed=at(10**9))
    )
    return int(result["balance"]["normal_balance_minor"]) if result["balance"] else result["code"]


def answers(groups, *cutoffs):
    return [asked(groups, at(effective), at(known)) for effective, known in cutoffs]


def test_a_void_dated_at_its_original_repairs_the_past_and_one_dated_now_does_not():
    """https://github.com/flash-oss/medici/issues/117, https://github.com/GaloyMoney/cala/pull/744."""
    first = posting(1, "Cash +100, X -100", effective=at(0))
    wrong = posting(2, "Cash +250, X -250", effective=at(1_000))
    history = [first, wrong]
    for effective, then in ((1_000, 100), (5_000, 350)):
        void = correction(
            3,
            wrong["journals"][0],
            "Cash +250, Y -250",
            effective=at(effective),
            recorded=at(5_000),
        )
        groups = [*history, void]
        assert answers(groups, (1_000, 4_999), (1_000, 5_000)) == [350, then]
        assert answers(groups, (5_000, 4_999), (5_000, 5_000)) == [350, 100]


def test_two_voids_of_one_original_are_not_both_booked():
    """https://github.com/formancehq/stack/pull/217, https://github.com/JiRaska/open-bank-oss/pull/528."""
    wrong = posting(1, "Cash +250, X -250", effective=at(0))
    void = correction(2, wrong["journals"][0], "Cash +240, X -240", effective=at(0), recorded=at(9))
    reversal, replacement = void["journals"]

    def then(original):
        again = correction(4, original, "Cash +230, X -230", effective=at(0), recorded=at(99))
        return asked([wrong, void, again], at(99), at(99))

    assert then(wrong["journals"][0]) == "ALREADY_REVERSED"
    assert then(reversal) == "REVERSAL_OF_REVERSAL"
    assert then(replacement) == 230


@pytest.mark.parametrize(
    ("effective", "known", "counted"),
    [
        (0, 0, [(-1, -1), (-1, 0), (0, -1), (0, 0)]),
        (-1, -1, [(-1, -1)]),
        (-1, 1, [(-1, -1), (-1, 0), (-1, 1)]),
        (1, -1, [(-1, -1), (0, -1), (1, -1)]),
        (-2, 1, []),
        (1, -2, []),
    ],
)
def test_both_edges_are_included(effective, known, counted):
    """https://github.com/kufu/activerecord-bitemporal/pull/95, beancount issue 118."""
    edge, receipt = 10_000, 90_000
    pairs = list(product((-1, 0, 1), repeat=2))  # receipt first, since receipts never go back
    groups = [
        posting(
            number + 1,
            f"Cash +{2**number}, X -{2**number}",
            effective=at(edge + one),
            recorded=at(50_000),
            available=at(receipt + other),
        )
        for number, (other, one) in enumerate(pairs)
    ]
    total = asked(groups, at(edge + effective), at(receipt + known))
    assert total == sum(2 ** pairs.index((other, one)) for one, other in counted)


@pytest.mark.parametrize(
    ("last_digit", "answer"), [("1", int(LONG) - 1), ("0", "INVALID_REVERSAL")]
)
def test_a_reversal_of_30_digits_is_told_from_a_forged_one(last_digit, answer):
    """https://github.com/python/cpython/issues/139369, stellar/django-polaris issue 536."""
    first = posting(1, f"Cash +{LONG}, X -{LONG}", effective=at(0))
    void = correction(
        2,
        first["journals"][0],
        f"Cash +{int(LONG) - 1}, X -{int(LONG) - 1}",
        effective=at(0),
        recorded=at(9),
    )
    for leg in void["journals"][0]["command"]["legs"]:
        leg["amount_minor"] = LONG[:-1] + last_digit
    assert asked([first, void], at(9), at(9)) == answer


def test_two_amounts_of_30_digits_add_up_to_31():
    """As above; whole in any order."""
    nines = "9" * 30
    groups = [posting(n, f"Cash +{nines}, X -{nines}", effective=at(n)) for n in (1, 2)]
    assert asked(groups, at(9), at(9)) == 1_999_999_999_999_999_999_999_999_999_998
    mixed = [
        posting(1, f"Cash +{nines}, X -{nines}", effective=at(1)),
        posting(2, "X +1, Cash -1", effective=at(1)),
        posting(3, f"X +{nines}, Cash -{nines}", effective=at(1)),
    ]
    assert asked(mixed, at(9), at(9)) == -1


def test_a_cut_tail_does_not_pass_for_the_whole():
    """https://github.com/maziyarpanahi/openmed/pull/1644, risa-labs-inc/BossConsole pull 998."""
    groups = [posting(n, f"Cash +{n}, X -{n}", effective=at(n)) for n in (1, 2, 3)]
    whole = context(groups, observed=at(10**9))
    cut = fold_balance(query("X", at(9), at(9)), groups[:2], ACCOUNTS, whole)
    assert (cut["code"], cut["balance"]) == ("INCOMPLETE_EXPORT", None)
    del whole["head"]
    headless = fold_balance(query("X", at(9), at(9)), groups, ACCOUNTS, whole)
    assert (headless["code"], headless["balance"]) == ("INVALID_SCHEMA", None)


def test_two_groups_in_one_millisecond_are_both_counted_once():
    """https://github.com/xtdb/xtdb/issues/1837."""
    groups = [posting(n, "Cash +5, X -5", effective=at(7)) for n in (1, 2)]
    assert answers(groups, (6, 7), (7, 6), (7, 7)) == [0, 0, 10]


@pytest.mark.parametrize("known", [19, 20, 10**9])
def test_every_checkpoint_of_twenty_groups_leads_to_the_same_balance(known):
    """https://github.com/beancount/beancount/issues/770."""
    groups = [posting(n, f"Cash +{2**n}, X -{2**n}", effective=at(n)) for n in range(1, 21)]
    trusted = context(groups, observed=at(10**9))
    whole = fold_balance(query("X", at(15), at(known)), groups, ACCOUNTS, trusted)
    assert whole["balance"]["normal_balance_minor"] == str(2**16 - 2)
    for split in range(20):
        head = context(groups[:split], observed=at(split))
        entry = fold_balance(query("X", at(15), at(split)), groups[:split], ACCOUNTS, head)[
            "checkpoint_registry_entry"
        ]
        resumed = fold_balance(
            query("X", at(15), at(known), checkpoint=entry["checkpoint"]),
            groups[split:],
            ACCOUNTS,
            {**trusted, "checkpoint_registry": [entry]},
        )
        assert resumed["balance"] == whole["balance"]
        assert resumed["checkpoint"] == whole["checkpoint"]


def test_the_ends_of_the_calendar_are_times_like_others():
    """https://github.com/open-policy-agent/opa/issues/4098, psycopg2 issue 1469."""
    first, last = "0001-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z"
    groups = [
        posting(1, "Cash +1, X -1", effective=first),
        posting(2, "Cash +2, X -2", effective=last),
    ]
    for effective, known, total in [
        (first, first, 1),
        (last, first, 1),
        (first, last, 1),
        (last, last, 3),
    ]:
        result = fold_balance(query("X", effective, known), groups, ACCOUNTS, context(groups))
        assert result["balance"]["normal_balance_minor"] == str(total)
        assert result["checkpoint"]["effective_cutoff"] == effective


def test_composed_and_decomposed_names_are_never_one_account():
    """https://github.com/pgaskin/kepubify/pull/111: here neither is a name at all."""
    for name in ("Caf\u00e9", "Cafe\u0301"):
        groups = [posting(1, f"Cash +1, {name} -1", effective=at(0))]
        accounts = [*ACCOUNTS, account(name)]
        assert asked(groups, at(9), at(9), "X", accounts) == "INVALID_ACCOUNTS"
        assert asked(groups, at(9), at(9), "X") == "INVALID_IDENTIFIER"
