from __future__ import annotations

import copy

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.bank.admission import History
from amends_pipeline.bank.codes import Code, RefusedError
from amends_pipeline.bank.export import (
    parse_accounts,
    parse_command,
    parse_correction,
    parse_group,
    parse_groups,
)
from amends_pipeline.bank.journal import is_reversal, reverse
from amends_pipeline.bank.values import digest, plain
from amends_pipeline_tests.bank.situations import genesis
from amends_pipeline_tests.bank.strategies import exports, reversal_of


def history_of(groups, accounts, observed_at=None):
    history = History("CB-GENERAL", "CB-A", parse_accounts(accounts), observed_at)
    rejections = [history.admit(group) for group in parse_groups(groups)]
    assert rejections == [None] * len(groups)
    return history


def state(history):
    return copy.deepcopy(
        {name: value for name, value in vars(history).items() if name != "_accounts"}
    )


def test_a_history_knows_what_it_has_taken():
    situation = genesis()
    history = history_of(situation.groups, situation.accounts)
    assert sorted(history.groups) == ["G-FEE", "G-FIX", "G-FUND", "G-PAY"]
    assert sorted(history.journals) == ["J-FEE", "J-FUND", "J-PAY", "J-REDO", "J-UNDO"]
    assert history.operations == {"OP-FEE", "OP-FUND", "OP-PAY", "OP-REDO", "OP-UNDO"}
    assert (history.corrections, history.reversals, history.reversed) == (
        {"C-1"},
        {"J-UNDO"},
        {"J-PAY"},
    )
    assert history.last_sequence == 5
    assert history.last_recorded_at == "2025-10-23T08:00:01.000Z"
    assert history.last_available_at == "2025-10-23T08:00:02.000Z"


@given(st.data())
def test_a_group_that_is_refused_leaves_no_trace(data):
    export = data.draw(exports().filter(lambda drawn: drawn.groups))
    history = history_of(export.groups, export.accounts)
    before = state(history)
    group = parse_group(data.draw(st.sampled_from(export.groups)))
    assert history.admit(group).code == Code.DUPLICATE_GROUP
    renamed = msgspec.structs.replace(group, group_id="new")
    assert history.admit(renamed).code == Code.OUT_OF_ORDER_GROUP
    assert state(history) == before


def test_a_live_journal_judges_one_group_by_the_entries_that_it_names():
    """The correction of the canonical history, with only what it touches looked up."""
    situation = genesis()
    fix = parse_group(situation.groups[2])
    history = History("CB-GENERAL", "CB-A", parse_accounts(situation.accounts))
    history.last_sequence = 2
    history.last_recorded_at = "2025-10-10T12:00:01.000Z"
    history.know(parse_group(situation.groups[1]))
    assert history.admit(fix, stamped=False) is None
    assert history.last_available_at == ""
    again = msgspec.structs.replace(fix, group_id="G-AGAIN")
    assert history.admit(again, stamped=False).code == Code.OUT_OF_ORDER_GROUP


def test_a_group_without_receipt_may_hold_any_receipt():
    situation = genesis()
    funding = parse_group(situation.groups[0])
    late = msgspec.structs.replace(funding, available_at="0001-01-01T00:00:00.000Z")
    stamped, unstamped = (
        History("CB-GENERAL", "CB-A", parse_accounts(situation.accounts)) for _ in range(2)
    )
    assert stamped.admit(late).code == Code.CLOCK_ORDER_VIOLATION
    assert unstamped.admit(late, stamped=False) is None


@given(st.data())
def test_reversing_twice_is_the_original(data):
    export = data.draw(exports().filter(lambda drawn: drawn.groups))
    for group in parse_groups(export.groups):
        for journal in group.journals:
            command = journal.command
            once = reverse(command)
            assert [plain(leg) for leg in once] == reversal_of(plain(command)["legs"])
            assert is_reversal(once, command.legs)
            assert not is_reversal(command.legs, command.legs)
            assert reverse(msgspec.structs.replace(command, legs=once)) == command.legs


@given(st.data())
def test_a_digest_tells_groups_apart_and_ignores_the_order_of_members(data):
    export = data.draw(exports())
    groups = parse_groups(export.groups)
    assert len({digest(group) for group in groups}) == len(groups)
    for value, group in zip(export.groups, groups, strict=True):
        assert plain(group) == value
        turned = {name: value[name] for name in reversed(value)}
        assert digest(parse_group(turned)) == digest(group)


@pytest.mark.parametrize(
    ("changes", "code", "where"),
    [
        ({}, None, ""),
        ({"currency": 7}, "INVALID_SCHEMA", "command: currency"),
        ({"legs": []}, "INVALID_GROUP", "command: legs"),
        ({"booking_period": "2025-1"}, "INVALID_TIMESTAMP", "command: booking_period"),
        ({"sequence": "1"}, "INVALID_SCHEMA", "command"),
    ],
)
def test_a_command_is_read_alone(changes, code, where):
    value = {**genesis().groups[0]["journals"][0]["command"], **changes}
    if code is None:
        assert plain(parse_command(value)) == value
        return
    with pytest.raises(RefusedError) as refused:
        parse_command(value)
    assert (refused.value.rejection.code, refused.value.rejection.where) == (code, where)


@pytest.mark.parametrize(
    ("changes", "code", "where"),
    [
        ({}, None, ""),
        ({"reason": " x"}, "INVALID_CORRECTION_LINK", "correction: reason"),
        ({"reason": None}, "INVALID_SCHEMA", "correction: reason"),
        ({"correction_id": "_"}, "INVALID_IDENTIFIER", "correction: correction_id"),
    ],
)
def test_a_correction_is_read_alone(changes, code, where):
    value = {**genesis().groups[2]["correction"], **changes}
    if code is None:
        assert plain(parse_correction(value)) == value
        return
    with pytest.raises(RefusedError) as refused:
        parse_correction(value)
    assert (refused.value.rejection.code, refused.value.rejection.where) == (code, where)


def test_a_rejection_is_safe_to_show():
    situation = genesis()
    situation.groups[0]["group_id"] = "G\x1b[31m\u202e\n"
    with pytest.raises(RefusedError) as refused:
        parse_groups(situation.groups)
    assert str(refused.value.rejection).isprintable()
