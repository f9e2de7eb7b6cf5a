from __future__ import annotations

import copy
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from amends_pipeline.bank.fold import fold_balance, judge
from amends_pipeline_tests.bank.situations import CANONICAL, fixture, genesis, resumed

ANSWERS = fixture(CANONICAL / "answers.json")
TRACE_LINE = (
    "group_id",
    "first_sequence",
    "last_sequence",
    "selected_journal_ids",
    "raw_delta_minor",
    "raw_balance_minor",
    "normal_balance_minor",
)


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer["asked"])
def test_the_canonical_history_has_the_stated_answers(answer):
    situation = genesis()
    situation.query["account_id"] = answer["account"]
    situation.query["effective_cutoff"] = answer["effective"]
    situation.query["knowledge_cutoff"] = answer["knowledge"]
    result = fold_balance(*situation)
    assert (result["status"], result["code"]) == ("ok", "BALANCE_FOLDED")
    assert result["balance"]["raw_balance_minor"] == answer["raw"]
    assert result["balance"]["normal_balance_minor"] == answer["normal"]
    assert result["coverage"]["visible_through_sequence"] == answer["visible_through"]
    assert result["coverage"]["validated_through_sequence"] == "5"
    assert [[line[name] for name in TRACE_LINE] for line in result["trace"]] == answer["trace"]
    assert result["checkpoint"]["through_sequence"] == answer["visible_through"]
    assert result["checkpoint"]["raw_balance_minor"] == answer["raw"]


def test_a_resumed_fold_answers_as_stated_in_full():
    situation = resumed()
    situation.query["knowledge_cutoff"] = "2025-10-21T10:00:01.000Z"
    expected = fixture(CANONICAL / "resumed.json")
    whole_prefix = {
        "checkpoint": expected["checkpoint"],
        "prefix_groups": fixture(CANONICAL / "groups.json")[:3],
    }
    assert fold_balance(*situation) == {**expected, "checkpoint_registry_entry": whole_prefix}


def test_nothing_new_after_a_checkpoint_gives_the_checkpoint_again():
    situation = resumed()
    situation.query["knowledge_cutoff"] = "2025-10-10T12:00:02.000Z"
    result = fold_balance(*situation)
    assert result["trace"] == []
    assert result["balance"]["raw_balance_minor"] == "-97500"
    registered = fixture(CANONICAL / "checkpoint.json")
    assert result["checkpoint"] == {**registered, "provenance_ref": "RECEIPT-5"}


def test_a_checkpoint_gives_the_next_one_and_so_on():
    """Each answer's registry entry is what the next fold resumes from."""
    whole = genesis()
    whole.query["effective_cutoff"] = "2025-10-20T23:59:59.999Z"
    expected = fold_balance(*whole)
    entry = None
    for count, knowledge in enumerate(
        ["2025-10-01T09:00:02.000Z", "2025-10-10T12:00:02.000Z", "2025-10-21T10:00:01.000Z"]
    ):
        situation = genesis()
        situation.query.update(
            effective_cutoff="2025-10-20T23:59:59.999Z",
            knowledge_cutoff=knowledge,
            checkpoint=entry and entry["checkpoint"],
        )
        context = {**situation.context, "checkpoint_registry": [entry] if entry else []}
        result = fold_balance(
            situation.query, situation.groups[count:], situation.accounts, context
        )
        assert len(result["trace"]) == 1
        entry = result["checkpoint_registry_entry"]
    last = genesis()
    last.query.update(whole.query, checkpoint=entry["checkpoint"])
    resumed_result = fold_balance(
        last.query, last.groups[3:], last.accounts, {**last.context, "checkpoint_registry": [entry]}
    )
    for name in ("balance", "checkpoint", "checkpoint_registry_entry"):
        assert resumed_result[name] == expected[name]


def test_an_empty_history_has_balance_zero_and_an_empty_checkpoint_to_resume_from():
    situation = genesis()
    context = copy.deepcopy(situation.context)
    context["head"]["head_sequence"] = "0"
    context["checkpoint_registry"] = []
    result = fold_balance(situation.query, [], situation.accounts, context)
    assert result["balance"]["raw_balance_minor"] == "0"
    assert result["balance"]["normal_balance_minor"] == "0"
    assert result["coverage"]["visible_through_sequence"] == "0"
    checkpoint = result["checkpoint"]
    assert checkpoint["checkpoint_id"] == "CP-0-20251025T000000000Z"
    assert [checkpoint[name] for name in ("through_sequence", "raw_balance_minor")] == ["0", "0"]
    for name in ("last_group_id", "last_recorded_at", "last_available_at"):
        assert checkpoint[name] is None
    entry = result["checkpoint_registry_entry"]
    assert entry == {"checkpoint": checkpoint, "prefix_groups": []}

    resumed_context = {**situation.context, "checkpoint_registry": [entry]}
    query = {**situation.query, "checkpoint": checkpoint}
    again = fold_balance(query, situation.groups, situation.accounts, resumed_context)
    assert again["balance"]["raw_balance_minor"] == "-97350"
    assert again["coverage"]["checkpoint_id"] == "CP-0-20251025T000000000Z"


@pytest.mark.parametrize(
    ("funding", "ada"),
    [
        ("123456789012345678901234567891", "123456789012345678901234565241"),
        ("999999999999999999999999999999", "999999999999999999999999997349"),
        ("9007199254740993", "9007199254738343"),
        ("2651", "1"),
        ("2650", "0"),
        ("1", "-2649"),
    ],
)
def test_funding_of_any_size_is_exact(funding, ada):
    situation = genesis()
    situation.context["checkpoint_registry"] = []
    for leg in situation.groups[0]["journals"][0]["command"]["legs"]:
        leg["amount_minor"] = funding
    balance = fold_balance(*situation)["balance"]
    assert balance["normal_balance_minor"] == ada


def test_two_amounts_of_30_digits_make_31_and_32_legs_make_a_journal():
    situation = genesis()
    nines = "9" * 30
    legs = [{"account_id": "CASH", "side": "debit", "amount_minor": nines} for _ in range(16)]
    legs += [{"account_id": "ADA", "side": "credit", "amount_minor": nines} for _ in range(16)]
    situation.groups[0]["journals"][0]["command"]["legs"] = legs
    situation.context["checkpoint_registry"] = []
    balance = fold_balance(*situation)["balance"]
    assert balance["normal_balance_minor"] == "15999999999999999999999999997334"


def test_another_booking_month_keeps_the_bytes_of_its_reason():
    situation = genesis()
    situation.groups[0]["journals"][0]["command"]["booking_period"] = "2025-09"
    situation.groups[0]["journals"][0]["adjustment_reason"] = " \u00a0late\t"
    situation.context["checkpoint_registry"] = []
    prefix = fold_balance(*situation)["checkpoint_registry_entry"]["prefix_groups"]
    assert prefix[0]["journals"][0]["adjustment_reason"] == " \u00a0late\t"


def test_the_order_of_members_and_the_kind_of_array_do_not_matter():
    situation = genesis()

    def turned(value):
        if isinstance(value, dict):
            return {name: turned(value[name]) for name in reversed(value)}
        return tuple(map(turned, value)) if isinstance(value, list) else value

    groups = [*situation.groups[:1], *turned(situation.groups[1:])]
    result = fold_balance(
        turned(situation.query), groups, turned(situation.accounts), situation.context
    )
    assert result == fold_balance(*situation)
    again = fold_balance(
        situation.query, [groups[0], turned(groups[0])], situation.accounts, situation.context
    )
    assert again["code"] == "DUPLICATE_GROUP"


def test_inputs_are_not_changed_and_results_share_nothing_with_them():
    for start in (genesis, resumed):
        situation = start()
        before = copy.deepcopy(situation)
        result = fold_balance(*situation)
        assert situation == before
        result["checkpoint_registry_entry"]["prefix_groups"][0]["journals"].clear()
        result["checkpoint"].clear()
        assert situation == before


def test_4096_groups_are_taken_and_one_more_is_not():
    groups, head = many(4096)
    situation = genesis()
    context = {"head": {**situation.context["head"], **head}, "checkpoint_registry": []}
    result = fold_balance(situation.query, groups, situation.accounts, context)
    assert result["balance"]["raw_balance_minor"] == "-4096"

    more, more_head = many(4097)
    more_context = {**context, "head": {**context["head"], **more_head}}
    refused = judge(situation.query, more, situation.accounts, more_context)
    assert refused.result["code"] == "INVALID_GROUP"
    assert refused.rejection.found == "4097"

    entry = result["checkpoint_registry_entry"]
    registry = {**more_context, "checkpoint_registry": [entry]}
    query = {**situation.query, "checkpoint": entry["checkpoint"]}
    together = fold_balance(query, more[4096:], situation.accounts, registry)
    assert together["code"] == "INVALID_GROUP"
    entry["prefix_groups"].append(more[4096])
    unused = fold_balance(situation.query, groups, situation.accounts, registry)
    assert unused["code"] == "INVALID_CONTEXT"


def many(count):
    """Funding of one cent, again and again."""
    first = genesis().groups[0]
    groups = []
    for number in range(1, count + 1):
        group = copy.deepcopy(first)
        group["group_id"] = f"G-{number}"
        [journal] = group["journals"]
        journal["sequence"] = str(number)
        journal["command"]["journal_id"] = f"J-{number}"
        journal["command"]["business_operation_id"] = f"OP-{number}"
        for leg in journal["command"]["legs"]:
            leg["amount_minor"] = "1"
        groups.append(group)
    return groups, {"head_sequence": str(count)}


def deep(levels=100_000):
    value = []
    for _ in range(levels):
        value = [value]
    return value


HOSTILE = {
    "null": None,
    "true": True,
    "zero": 0,
    "a huge integer": 10**5_000,
    "a fraction": 1.5,
    "not a number": math.nan,
    "infinity": math.inf,
    "empty text": "",
    "half a character": "\ud800",
    "long text": "x" * 1_000_000,
    "many digits": "1" * 5_000,
    "an empty array": [],
    "an array": [[]],
    "an empty object": {},
    "an object": {"": None},
    "half a name": {"\udfff": 1},
    "names that are no text": {1: 2, None: 3},
    "100,000 levels": deep(),
    "an object and 100,000 levels": {"deep": deep()},
    "bytes": b"{}",
    "no JSON": object(),
    "a set": {1, 2},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_value_in_any_place_escapes_as_an_exception(name):
    value = HOSTILE[name]
    for start in (genesis, resumed):
        situation = start()
        for path in places(situation._asdict()):
            damaged = copy.copy(situation._asdict())
            parent = damaged
            for step in path[:-1]:
                parent[step] = copy.copy(parent[step])
                parent = parent[step]
            parent[path[-1]] = value
            result = fold_balance(**damaged)
            assert result["status"] in {"ok", "rejected"}
            if result["status"] == "ok":
                assert value in ([], None, "") or path[0] == "context"
            assert type(result["code"]) is str
            json.dumps(result)


def places(value, path=()):
    if path:
        yield path
    if isinstance(value, dict):
        for name in value:
            yield from places(value[name], (*path, name))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from places(each, (*path, index))


PROGRAM = """
import json, locale, sys
from amends_pipeline.bank.balances import judge_balances
from amends_pipeline.bank.fold import judge
from amends_pipeline.bank.statement import judge_change, judge_statement
from amends_pipeline_tests.bank.situations import damages, genesis, resumed
from amends_pipeline_tests.bank.strategies import aggregate_query
try:
    locale.setlocale(locale.LC_ALL, "")
except locale.Error:
    pass
for situation in [genesis(), resumed(), *(damage.situation() for damage in damages())]:
    for result, rejection in [
        judge(*situation),
        judge_statement(*situation, collapse=True),
        judge_change(situation.query, *situation),
        judge_balances(aggregate_query(situation.query or {}), *situation[1:]),
    ]:
        sys.stdout.buffer.write((json.dumps(result) + repr(rejection)).encode())
"""


def test_equal_inputs_give_equal_bytes_under_any_locale_zone_and_hash_seed():
    answers = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, **variables},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            check=True,
        ).stdout
        for variables in [
            {"PYTHONHASHSEED": "0"},
            {"PYTHONHASHSEED": "1", "TZ": "Asia/Kolkata", "LC_ALL": "C"},
            {"PYTHONHASHSEED": "2", "TZ": "Pacific/Kiritimati", "LC_ALL": "C.UTF-8"},
            {"PYTHONHASHSEED": "3", "LC_ALL": "tr_TR.UTF-8", "PYTHONUTF8": "0"},
            {"PYTHONHASHSEED": "4", "PYTHONINTMAXSTRDIGITS": "640"},
        ]
    }
    assert len(answers) == 1
    # Of a whole history: a fold, a statement and a change from either start, and all balances.
    assert answers.pop().count(b"BALANCE_FOLDED") >= 7
