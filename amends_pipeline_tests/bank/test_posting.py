"""What may be posted is exactly what an export may show: two ways to the same code."""

from __future__ import annotations

import copy

from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from amends_pipeline.bank.codes import Rejection
from amends_pipeline.bank.fold import fold_balance
from amends_pipeline.bank.heads import Stream
from amends_pipeline.bank.values import plain
from amends_pipeline.flows.bank_correct import correct
from amends_pipeline.flows.bank_open import open_stream
from amends_pipeline.flows.bank_post import post
from amends_pipeline.store.memory_bank import BankTables, MemoryBank
from amends_pipeline_tests.bank.strategies import (
    CURRENCIES,
    ENTITY,
    LEDGER,
    MAX_MILLISECOND,
    STREAM,
    exports,
    millisecond_of,
    reversal_of,
    stamp,
)


class Readings:
    """A clock that says what the recordings of a history say."""

    def __init__(self):
        self.left = []

    def __call__(self):
        return self.left.pop(0) if len(self.left) > 1 else self.left[0]


class Live:
    """A live journal into which a drawn history is posted, one member's reason for both."""

    def __init__(self, export):
        self.clock = Readings()
        self.journal = MemoryBank(BankTables(self.clock))
        self.accounts = [each for each in export.accounts if each["entity_id"] == ENTITY]
        assert open_stream(self.journal, Stream(STREAM, LEDGER, ENTITY), self.accounts) is True
        self.groups = []

    def book(self, group, clocks):
        """Post what a group of an export holds; return the group made, or the code of refusal.

        None of a command that was answered with the group it had made before.
        """
        *_, journal = group["journals"]
        self.clock.left = list(clocks)
        if group["correction"] is None:
            arguments = (journal["command"], journal["adjustment_reason"])
            done = post(self.journal, STREAM, *arguments)
        else:
            done = correct(
                self.journal,
                STREAM,
                group["correction"],
                journal["command"],
                reversal_business_operation_id=group["journals"][0]["command"][
                    "business_operation_id"
                ],
                adjustment_reason=journal["adjustment_reason"],
            )
        if isinstance(done, Rejection):
            return done.code
        if done.repeated:
            return None
        self.groups.append(plain(done.group))
        return self.groups[-1]


def recordings(group):
    return [journal["recorded_at"] for journal in group["journals"]]


def one_reason(group):
    """A live correction has one reason for both members."""
    group = copy.deepcopy(group)
    for journal in group["journals"]:
        journal["adjustment_reason"] = group["journals"][-1]["adjustment_reason"]
    return group


@given(exports())
def test_every_valid_history_can_be_posted_and_is_exported_as_it_was(export):
    live = Live(export)
    for group in map(one_reason, export.groups):
        made = live.book(group, [*recordings(group), group["available_at"]])
        assert made == {
            **group,
            "group_id": f"G-{group['journals'][0]['sequence']}",
            "available_at": max(made["available_at"], group["available_at"]),
        }


MEMBERS = (
    "schema_version",
    "ledger_id",
    "entity_id",
    "journal_id",
    "business_operation_id",
    "currency",
    "effective_at",
    "source_available_at",
    "booking_period",
)


@st.composite
def damaged(draw, export, groups):
    """A group that comes next, most often wrong in one or two places."""
    *_, like = groups
    group = one_reason(draw(st.sampled_from([like, draw(st.sampled_from(groups))])))
    last = group["journals"][-1]
    if draw(st.integers(0, 3)):
        for number, journal in enumerate(group["journals"]):
            journal["command"]["journal_id"] = f"J-new-{number}"
            journal["command"]["business_operation_id"] = f"B-new-{number}"
    link = group["correction"]
    if link is not None:
        every = [each["command"]["journal_id"] for one in groups for each in one["journals"]]
        link["original_journal_id"] = draw(st.sampled_from([*every, "J-nowhere"]))
        if draw(st.integers(0, 3)):
            link["correction_id"] = "C-new"
        link["reversal_journal_id"], link["replacement_journal_id"] = (
            each["command"]["journal_id"] for each in group["journals"]
        )
    for _ in range(draw(st.integers(0, 2))):
        draw(damages(export, groups))(last["command"], last, link)
    return group


@st.composite
def damages(draw, export, groups):
    """One change of the command, the journal or the link."""
    names = [each["account_id"] for each in export.accounts]
    commands = [each["command"] for group in groups for each in group["journals"]]
    name = draw(st.sampled_from(MEMBERS))
    value = draw(st.sampled_from(commands))[name]
    moment = draw(st.sampled_from(["0001-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z"]))
    currency = draw(st.sampled_from([*CURRENCIES, "XXY"]))
    account_id = draw(st.sampled_from([*names, "NOBODY"]))
    text = draw(st.sampled_from(["", " ", "a", "a" * 300, "a ", None, 1, "\ud800"]))
    place = draw(st.integers(0, 31))

    def of_leg(**members):
        def change(command, *_):
            if command["legs"]:
                command["legs"][place % len(command["legs"])].update(members)

        return change

    def drop_leg(command, *_):
        del command["legs"][place % max(1, len(command["legs"])) :]

    def of_link(_command, _journal, link):
        if link is not None:
            member = sorted(link)[place % len(link)]
            link[member] = text

    return draw(
        st.sampled_from(
            [
                lambda command, *_: command.update({name: value}),
                lambda command, *_: command.update({name: text}),
                lambda command, *_: command.update(effective_at=moment),
                lambda command, *_: command.update(source_available_at=moment),
                lambda command, *_: command.update(currency=currency),
                lambda command, *_: command.pop(name, None),
                lambda command, *_: command.update(booking_period=moment[:7]),
                lambda _, journal, __: journal.update(adjustment_reason=text),
                of_leg(account_id=account_id),
                of_leg(side="debit"),
                of_leg(amount_minor=str(place)),
                drop_leg,
                of_link,
            ]
        )
    )


def as_exported(group, groups, clock, stand_in):
    """The group as the journal would show it: the reversal follows from the original.

    stand_in: the legs of the reversal of an original that is not there; None: the replacement's.
    """
    group = copy.deepcopy(group)
    last_sequence = int(groups[-1]["journals"][-1]["sequence"])
    recorded_at = groups[-1]["journals"][-1]["recorded_at"]
    *reversals, replacement = group["journals"]
    link = group["correction"]
    for reversal in reversals:
        originals = {
            each["command"]["journal_id"]: each["command"]
            for one in groups
            for each in one["journals"]
        }
        command = replacement["command"]
        original = originals.get(link.get("original_journal_id"), {"legs": stand_in})
        legs = original["legs"] or command.get("legs", [])
        reversal["command"] = {
            **command,
            "journal_id": link["reversal_journal_id"],
            "business_operation_id": reversal["command"]["business_operation_id"],
            "legs": reversal_of(legs),
        }
        if reversal["command"]["journal_id"] is None:
            reversal["command"]["journal_id"] = "X"
        reversal["adjustment_reason"] = replacement["adjustment_reason"]
    for number, journal in enumerate(group["journals"], start=last_sequence + 1):
        journal["sequence"] = str(number)
        journal["recorded_at"] = recorded_at = max(recorded_at, clock)
    received = max(recorded_at, groups[-1]["available_at"])
    return {**group, "group_id": f"G-{last_sequence + 1}", "available_at": received}


def code_of_export(export, groups):
    """What the validator says of these groups, under a head that knows them all."""
    last = groups[-1]
    head = {
        **export.head,
        "observed_at": last["available_at"],
        "head_sequence": last["journals"][-1]["sequence"],
    }
    account = next(each for each in export.accounts if each["entity_id"] == ENTITY)
    query = export.query(account["account_id"], last["available_at"], last["available_at"])
    accounts = [each for each in export.accounts if each["entity_id"] == ENTITY]
    context = {"head": head, "checkpoint_registry": []}
    return fold_balance(query, groups, accounts, context)["code"]


STRUCTURAL = {
    "INVALID_SCHEMA",
    "INVALID_IDENTIFIER",
    "INVALID_TIMESTAMP",
    "INVALID_AMOUNT",
    "INVALID_SEQUENCE",
}


@settings(max_examples=300)
@given(st.data())
def test_a_command_is_refused_exactly_as_the_group_that_it_would_make(data):
    export = data.draw(exports(max_groups=6))
    assume(export.groups)
    live = Live(export)
    for group in map(one_reason, export.groups):
        assert isinstance(live.book(group, [*recordings(group), group["available_at"]]), dict)
    wanted = data.draw(damaged(export, live.groups))
    last = millisecond_of(live.groups[-1]["available_at"])
    clock = stamp(min(MAX_MILLISECOND, last + data.draw(st.sampled_from([0, 1, 10**9]))))

    some_legs = live.groups[0]["journals"][0]["command"]["legs"]
    shown = as_exported(wanted, live.groups, clock, some_legs)
    expected = code_of_export(export, [*live.groups, shown])
    if expected not in STRUCTURAL:
        shown = as_exported(wanted, live.groups, clock, None)
        expected = code_of_export(export, [*live.groups, shown])
    event(expected)
    made = live.book(wanted, [clock])
    if made is None:  # not damaged at all: the same command again
        assert expected in {"DUPLICATE_JOURNAL", "DUPLICATE_BUSINESS_OPERATION"}
    elif isinstance(made, dict):
        assert expected == "BALANCE_FOLDED"
        assert made == shown
    else:
        assert made == expected
