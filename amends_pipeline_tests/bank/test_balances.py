from __future__ import annotations

import copy
import io
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.bank import batches
from amends_pipeline.bank.balances import (
    fold_balances,
    fold_balances_bytes,
    judge_all_balances,
    judge_balances,
    judge_balances_bytes,
)
from amends_pipeline.bank.fold import fold_balance, judge
from amends_pipeline.kernel.errors import StrictJsonError
from amends_pipeline_tests.bank.situations import damages, genesis
from amends_pipeline_tests.bank.strategies import aggregate_query, exports, queries

# What only a query about one account can have wrong.
ONE_ACCOUNT = {
    "the account asked for is a number",
    "the account asked for is empty",
    "the account asked for is unknown",
    "the account asked for is written in small letters",
    "the account asked for belongs to another entity",
    "the query has no checkpoint member at all",
    "the checkpoint asked for is an identifier alone",
    "the query asks in another currency than the account's",
    "the query asks in a withdrawn currency",
    "there are no accounts",
}
DAMAGES = [each for each in damages() if each.start == "genesis" and each.wrong not in ONE_ACCOUNT]


def aggregate(query):
    return aggregate_query(query) if isinstance(query, dict) else query


def lines(groups):
    return [json.dumps(group).encode() + b"\n" for group in groups]


def test_the_canonical_history_has_the_stated_balances():
    situation = genesis()
    result = fold_balances(aggregate(situation.query), *situation[1:])
    assert result == {
        "status": "ok",
        "code": "BALANCE_FOLDED",
        "coverage": {
            "stream_id": "CEDAR-1",
            "receipt_ref": "RECEIPT-5",
            "head_sequence": "5",
            "validated_through_sequence": "5",
            "visible_through_sequence": "5",
            "checkpoint_id": None,
            "observed_at": "2025-10-25T00:00:00.000Z",
        },
        "balances": [
            {
                "account_id": account_id,
                "currency": "USD",
                "normal_side": side,
                "raw_balance_minor": raw,
                "normal_balance_minor": normal,
            }
            for account_id, side, raw, normal in [
                ("ADA", "credit", "-97350", "97350"),
                ("BEN", "credit", "0", "0"),
                ("CASH", "debit", "100000", "100000"),
                ("CORA", "credit", "-2400", "2400"),
                ("FEES", "credit", "-250", "250"),
            ]
        ],
    }


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: f"{damage.code}: {damage.wrong}")
def test_every_damage_is_refused_as_the_reference_refuses_it(damage):
    situation = damage.situation()
    expected = judge(*situation).rejection
    query = aggregate(situation.query)
    before = copy.deepcopy(situation)
    result, rejection = judge_balances(query, *situation[1:])
    assert result == {"status": "rejected", "code": damage.code, "coverage": None, "balances": []}
    assert rejection._replace(expected="") == expected._replace(expected="")
    assert situation == before
    if isinstance(situation.groups, list):
        written, where = judge_balances_bytes(query, lines(situation.groups), *situation[2:])
        assert written == result
        # JSON with no one meaning has no sequence to name.
        assert re.split("[,:]", where.where)[0] == re.split("[,:]", expected.where)[0]


@given(st.data())
def test_every_balance_equals_the_reference(data):
    export = data.draw(exports(max_groups=6))
    query = data.draw(queries(export))
    context = export.context()
    result = fold_balances(aggregate(query), iter(export.groups), export.accounts, context)
    own = [each for each in export.own_accounts if each["currency"] == query["currency"]]
    folded = [
        fold_balance(
            {**query, "account_id": each["account_id"]}, export.groups, export.accounts, context
        )
        for each in sorted(own, key=lambda each: each["account_id"])
    ]
    assert result["balances"] == [each["balance"] for each in folded]
    assert all(each["coverage"] == result["coverage"] for each in folded)
    read = fold_balances_bytes(aggregate(query), lines(export.groups), export.accounts, context)
    assert read == result


@given(st.data())
def test_the_trial_balance_of_a_currency_is_zero_at_every_cutoff(data):
    export = data.draw(exports())
    query = aggregate(data.draw(queries(export)))
    for currency in sorted({each["currency"] for each in export.accounts}):
        result = fold_balances(
            {**query, "currency": currency}, export.groups, export.accounts, export.context()
        )
        assert result["status"] == "ok"
        assert sum(int(each["raw_balance_minor"]) for each in result["balances"]) == 0


@given(st.data())
def test_all_currencies_together_are_what_each_of_them_is(data):
    export = data.draw(exports())
    query = aggregate(data.draw(queries(export)))
    arguments = (export.accounts, export.context())
    cutoffs = (query["effective_cutoff"], query["knowledge_cutoff"])
    together = judge_all_balances(*cutoffs, lambda: batches.read_values(export.groups), *arguments)
    alone = [
        fold_balances({**query, "currency": currency}, export.groups, *arguments)
        for currency in {each["currency"] for each in export.accounts}
    ]
    balances = [each for result in alone for each in result["balances"]]
    assert together.result["balances"] == sorted(balances, key=lambda each: each["account_id"])
    assert all(result["coverage"] == together.result["coverage"] for result in alone)


def test_all_currencies_together_are_asked_for_at_the_head_unless_somebody_says_when():
    _, groups, accounts, context = genesis()

    def ask(effective=None, knowledge=None):
        return judge_all_balances(
            effective, knowledge, lambda: batches.read_values(groups), accounts, context
        )

    def ada(judged):
        return next(each for each in judged.result["balances"] if each["account_id"] == "ADA")

    assert ada(ask())["normal_balance_minor"] == "97350"
    assert ada(ask("2025-10-20T23:59:59.999Z"))["normal_balance_minor"] == "97600"
    assert ada(ask(None, "2025-10-21T10:00:00.999Z"))["normal_balance_minor"] == "97500"
    for wrong, code, where in (
        (("today", None), "INVALID_TIMESTAMP", "query: effective_cutoff"),
        ((None, ""), "INVALID_TIMESTAMP", "query: knowledge_cutoff"),
        ((7, None), "INVALID_SCHEMA", "query: effective_cutoff"),
        ((None, "2025-10-25T00:00:00.001Z"), "KNOWLEDGE_BEYOND_EXPORT", "query: knowledge_cutoff"),
    ):
        judged = ask(*wrong)
        assert (judged.result["code"], judged.rejection.where) == (code, where)
        assert judged.result["balances"] == []


@given(st.data(), st.integers(1, 3))
def test_where_batches_end_does_not_matter(data, size):
    export = data.draw(exports())
    query = aggregate(data.draw(queries(export)))
    groups = export.groups
    if groups and data.draw(st.booleans()):
        groups = [*groups, groups[data.draw(st.integers(0, len(groups) - 1))]]
    arguments = (export.accounts, export.context())
    expected = judge_balances(query, groups, *arguments)
    expected_of_lines = judge_balances_bytes(query, lines(groups), *arguments)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "BATCH", size)
        assert judge_balances(query, groups, *arguments) == expected
        assert judge_balances_bytes(query, lines(groups), *arguments) == expected_of_lines
    assert expected == expected_of_lines


@given(st.data())
def test_the_fast_reader_reads_valid_groups_without_help(data):
    groups = data.draw(exports(max_groups=4)).groups
    if groups:
        typed = batches._typed_values(groups)  # noqa: SLF001 - it alone, without the careful reader
        assert typed is not None
        written = [json.dumps(group, ensure_ascii=False).encode() for group in groups]
        if not any(b"\\" in line for line in written):
            lines_read = batches._typed_lines(written)  # noqa: SLF001 - as above
            assert lines_read.groups == typed.groups


def test_a_structural_fault_at_the_end_comes_before_a_gap_at_the_start(monkeypatch):
    monkeypatch.setattr(batches, "BATCH", 1)
    situation = genesis()
    groups = situation.groups[1:]
    groups[-1]["journals"][0]["command"]["legs"][0]["amount_minor"] = "0"
    query = aggregate(situation.query)
    assert judge(situation.query, groups, *situation[2:]).rejection.code == "INVALID_AMOUNT"
    for result, rejection in (
        judge_balances(query, iter(groups), *situation[2:]),
        judge_balances_bytes(query, lines(groups), *situation[2:]),
    ):
        assert result["code"] == "INVALID_AMOUNT"
        assert (rejection.group_id, rejection.sequence) == ("G-FEE", "5")


@pytest.mark.parametrize(
    ("find", "put"),
    [
        (b'"side":"debit"', b'"side":"credit","side":"debit"'),
        (b'"kind":"posting"', b'"kind":"posting","kind":"posting"'),
        (b'"amount_minor":"250"', b'"amount_minor":"999","amount_minor":"250"'),
        (b'"amount_minor":"250"', b'"amount_minor":"250","\\u0061mount_minor":"999"'),
        (b'"reason":"wrong payee', b'"reason":"\\ud83d wrong payee'),
        (b'"adjustment_reason":""', b'"adjustment_reason":12e3'),
        (b'"adjustment_reason":""', b'"adjustment_reason":' + b"1" * 5_000),
        (b'"adjustment_reason":""', b'"adjustment_reason":' + b"[" * 100_000 + b"]" * 100_000),
        (b'"correction":null', b'"correction":{}'),
        (b'"correction":null', b'"correction":null,"more":1'),
    ],
)
def test_ambiguous_json_in_a_line_is_an_invalid_schema_at_its_place(find, put):
    situation = genesis()
    written = [json.dumps(each, separators=(",", ":")).encode() for each in situation.groups]
    number = next(number for number, line in enumerate(written) if find in line)
    written[number] = written[number].replace(find, put, 1)
    result, rejection = judge_balances_bytes(aggregate(situation.query), written, *situation[2:])
    assert result["code"] == "INVALID_SCHEMA"
    assert rejection.where.startswith(f"group {number + 1}")


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"   \n",
        b"{",
        b"[" * 99,
        b"nul\n",
        b"NaN",
        b"\xff\xfe",
        b"{} {}\n",
        '{"group_id": "G"}\n'.encode("utf-16"),
        b"\xef\xbb\xbf{}",
        b"{}\r\n",
        b'{"a": NaN}',
        b'{"a": "\n"}',
    ],
)
@pytest.mark.parametrize("place", [0, 2, 4])
def test_a_line_that_cannot_be_read_is_no_verdict(line, place):
    situation = genesis()
    written = lines(situation.groups)
    written.insert(place, line)
    query = aggregate(situation.query)
    with pytest.raises(StrictJsonError, match=f"^groups, line {place + 1}"):
        fold_balances_bytes(query, written, *situation[2:])
    # Not even where a group before it is wrong.
    if place:
        written[0] = b"{}\n"
        with pytest.raises(StrictJsonError, match=f"^groups, line {place + 1}"):
            fold_balances_bytes(query, written, *situation[2:])


def test_a_file_with_carriage_returns_is_not_read_and_one_without_a_last_line_end_is():
    situation = genesis()
    raw = b"".join(lines(situation.groups))
    query = aggregate(situation.query)
    assert fold_balances_bytes(query, io.BytesIO(raw[:-1]), *situation[2:])["status"] == "ok"
    with pytest.raises(StrictJsonError, match="carriage return"):
        fold_balances_bytes(query, io.BytesIO(raw.replace(b"\n", b"\r\n")), *situation[2:])


def test_nothing_is_read_when_the_question_is_refused():
    def never():
        raise AssertionError
        yield

    situation = genesis()
    query = {**aggregate(situation.query), "currency": "AAA"}
    for fold in (fold_balances, fold_balances_bytes):
        assert fold(query, never(), *situation[2:])["code"] == "UNSUPPORTED_CURRENCY"


@pytest.mark.parametrize("groups", [None, 7, "[]", b"[]", {}, {"a": 1}, [None], ["", 0]], ids=repr)
def test_what_yields_no_groups_is_an_invalid_schema(groups):
    situation = genesis()
    result = fold_balances(aggregate(situation.query), groups, *situation[2:])
    assert result["code"] == "INVALID_SCHEMA"


def test_a_query_about_one_account_is_no_query_about_all():
    situation = genesis()
    assert fold_balances(*situation)["code"] == "INVALID_SCHEMA"
    assert fold_balance(aggregate(situation.query), *situation[1:])["code"] == "INVALID_SCHEMA"


def test_two_lines_in_one_identifier_are_not_two_identifiers():
    situation = genesis()
    situation.groups[1]["group_id"] = "G-1\nG-2"
    result = fold_balances(aggregate(situation.query), *situation[1:])
    assert result["code"] == "INVALID_IDENTIFIER"


def test_more_groups_than_the_reference_takes():
    groups, count = [], 5_000
    first = genesis().groups[0]
    for number in range(1, count + 1):
        group = copy.deepcopy(first)
        group["group_id"] = f"G-{number}"
        [journal] = group["journals"]
        journal["sequence"] = str(number)
        journal["command"]["journal_id"] = f"J-{number}"
        journal["command"]["business_operation_id"] = f"OP-{number}"
        groups.append(group)
    situation = genesis()
    situation.context["head"]["head_sequence"] = str(count)
    assert fold_balance(situation.query, groups, *situation[2:])["code"] == "INVALID_GROUP"
    result = fold_balances(aggregate(situation.query), groups, *situation[2:])
    raw = {each["account_id"]: each["raw_balance_minor"] for each in result["balances"]}
    assert raw["ADA"] == "-500000000"
