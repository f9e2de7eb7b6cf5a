"""What is remembered of a stream: heads, and balances to start from."""

from __future__ import annotations

import msgspec
import pytest

from amends_pipeline.bank.codes import Code, HeadCode
from amends_pipeline.bank.export import parse_context, parse_groups
from amends_pipeline.bank.heads import Stream, prefixes
from amends_pipeline.flows.bank_checkpoints import Wanted, keep, registry
from amends_pipeline.flows.bank_export import looking
from amends_pipeline.flows.bank_heads import accept, judge
from amends_pipeline.kernel.errors import InputError, UnknownStream
from amends_pipeline.ports.bank import CheckpointSet, KeptSet
from amends_pipeline_tests.contracts.bank_bench import NOON, STREAM

CUTOFF = "2025-10-20T00:00:00.000Z"


@pytest.fixture
def exports(bank):
    """Exports after one, two and three groups; the last group is a correction."""
    bank.set_clock(NOON, step_ms=10)
    bank.posted("fund", "CASH ADA 100000")
    one = bank.export()
    bank.posted("pay", "ADA BEN 2500")
    two = bank.export()
    bank.corrected("redo", "pay", "ADA CORA 2400")
    return one, two, bank.export()


def offer(bank, export, groups=None, **changes):
    head = msgspec.structs.replace(parse_context(export.context).head, **changes)
    offered = parse_groups(export.groups if groups is None else groups)
    stream = Stream(head.stream_id, head.ledger_id, head.entity_id)
    return accept(bank.journal, head, prefixes(stream, offered))


def heads(bank):
    with bank.journal.snapshot(bank.stream_id) as snapshot:
        return [(head.head_sequence, head.observed_at) for head in snapshot.heads()]


def test_every_exported_head_is_remembered(bank, exports):
    assert heads(bank) == [
        (int(each.head["head_sequence"]), each.head["observed_at"]) for each in exports
    ]
    assert [sequence for sequence, _ in heads(bank)] == [1, 2, 4]


def test_the_latest_export_is_accepted_again_and_earlier_ones_are_stale(bank, exports):
    one, two, three = exports
    before = heads(bank)
    assert offer(bank, three) is None
    assert offer(bank, one).code == offer(bank, two).code == HeadCode.STALE_HEAD
    assert heads(bank) == before


def test_a_look_makes_no_export_stale_and_what_it_said_stays_true(bank, exports):
    before = heads(bank)
    with looking(bank.journal, bank.stream_id) as seen:
        groups = [group.group_id for group in seen.groups]
    assert (groups, seen.head.head_sequence) == (["G-1", "G-2", "G-3"], "4")
    assert seen.head.receipt_ref == exports[2].head["receipt_ref"]
    assert seen.head.observed_at > exports[2].head["observed_at"]
    assert heads(bank) == before
    assert offer(bank, exports[2]) is None
    bank.set_clock(NOON)
    assert bank.posted("fee", "ADA FEES 250").group.available_at > seen.head.observed_at


def test_a_head_is_judged_alone(bank, exports):
    parsed = [parse_context(each.context).head for each in exports]
    assert [judge(bank.journal, head) is None for head in parsed] == [False, False, True]


def test_a_head_of_the_same_history_that_was_observed_earlier_is_stale(bank, exports):
    refused = offer(bank, exports[2], observed_at=exports[1].head["observed_at"])
    assert refused.code == HeadCode.STALE_HEAD
    assert str(refused).startswith("STALE_HEAD at observed_at: expected at or after")


def changed_amount(groups):
    groups[0]["journals"][0]["command"]["legs"][0]["amount_minor"] = "1"


def changed_receipt(groups):
    groups[1]["available_at"] = groups[0]["available_at"]


def joined(groups):
    """The same sequences, with the end of a group where no head saw one."""
    groups[0]["journals"] += groups.pop(1)["journals"]


@pytest.mark.parametrize("change", [changed_amount, changed_receipt, joined])
def test_another_history_up_to_a_remembered_head_is_a_fork(bank, exports, change):
    groups = msgspec.json.decode(msgspec.json.encode(exports[2].groups))
    before = heads(bank)
    if change is joined:
        groups[0]["kind"], groups[0]["correction"] = "correction", groups[2]["correction"]
    change(groups)
    refused = offer(bank, exports[2], groups)
    assert refused.code == HeadCode.FORKED_HEAD
    assert heads(bank) == before


def test_a_new_group_that_a_remembered_head_should_have_seen_is_a_fork(bank, exports):
    """An older journal, restored, goes on: its next group has the place but not the time."""
    late = msgspec.json.decode(msgspec.json.encode(exports[2].groups))
    late.append(
        {**late[1], "group_id": "G-5", "journals": [{**late[1]["journals"][0], "sequence": "5"}]}
    )
    late[-1]["available_at"] = exports[2].head["observed_at"]
    refused = offer(bank, exports[2], late, head_sequence="5")
    assert refused.code == HeadCode.FORKED_HEAD
    assert "available_at after" in str(refused)
    late[-1]["available_at"] = "2025-10-20T23:00:00.000Z"
    ahead = offer(bank, exports[2], late, head_sequence="5", observed_at="2025-10-20T23:00:00.000Z")
    assert (ahead.code, ahead.where) == (HeadCode.FORKED_HEAD, "head")
    assert ahead.expected == "a head that the live journal handed out"
    assert heads(bank)[-1][0] == 4


def test_an_empty_history_is_remembered_too(bank):
    empty = bank.export()
    bank.set_clock("2025-10-20T13:00:00.000Z")
    bank.posted("a")
    full = bank.export()
    assert offer(bank, full) is None
    groups = [{**full.groups[0], "available_at": empty.head["observed_at"]}]
    assert offer(bank, full, groups).code == HeadCode.FORKED_HEAD


def test_a_head_of_another_scope_is_refused(bank, exports):
    assert offer(bank, exports[2], entity_id="CB-B").code == Code.SCOPE_MISMATCH


ELSEWHERE = {"stream_id": "ELSEWHERE"}


def test_heads_of_a_stream_that_is_kept_elsewhere_are_remembered_when_accepted(bank, exports):
    one, two, three = exports
    head = msgspec.structs.replace(parse_context(two.context).head, **ELSEWHERE)
    assert judge(bank.journal, msgspec.structs.replace(head, entity_id="CB-B")) is None
    assert offer(bank, two, **ELSEWHERE) is None
    assert offer(bank.reopened(), one, **ELSEWHERE).code == HeadCode.STALE_HEAD
    forked = msgspec.json.decode(msgspec.json.encode(three.groups))
    changed_amount(forked)
    assert offer(bank, three, forked, **ELSEWHERE).code == HeadCode.FORKED_HEAD
    assert offer(bank, three, **ELSEWHERE) is None
    assert offer(bank, three, **ELSEWHERE) is None
    assert offer(bank, two, **ELSEWHERE).code == HeadCode.STALE_HEAD
    assert judge(bank.journal, head).code == HeadCode.STALE_HEAD
    with pytest.raises(InputError, match="stream ELSEWHERE: expected ledger CB-GENERAL"):
        offer(bank, three, entity_id="CB-B", **ELSEWHERE)
    with pytest.raises(UnknownStream):
        bank.journal.standing("ELSEWHERE")


def test_sequences_of_others_may_be_long(bank, exports):
    long = "9" * 30
    groups = msgspec.json.decode(msgspec.json.encode(exports[0].groups))
    groups[0]["journals"][0]["sequence"] = long
    assert offer(bank, exports[0], groups, head_sequence=long, **ELSEWHERE) is None
    assert offer(bank, exports[1], **ELSEWHERE).code == HeadCode.STALE_HEAD
    assert offer(bank, exports[0], groups, head_sequence=long, **ELSEWHERE) is None


def test_a_reference_follows_from_the_content_alone(bank, exports):
    references = [each.head["receipt_ref"] for each in exports]
    assert len(set(references)) == 3
    bank.set_clock("2025-10-20T14:00:00.000Z")
    assert bank.reopened().export().head["receipt_ref"] == references[2]
    assert references[2].startswith("R-4-")


# --- checkpoints


def test_checkpoints_become_registry_entries_when_asked_for(bank, exports):
    _, two, _ = exports
    reference = two.head["receipt_ref"]
    balances = {"ADA": -97_500, "BEN": -2_500, "CASH": 100_000, "FEES": -(10**60)}
    kept = CheckpointSet(2, CUTOFF, reference, balances)
    keep(bank.journal, bank.stream_id, kept)
    journal = bank.reopened().journal
    [only] = journal.checkpoints(bank.stream_id)
    assert only == KeptSet(2, CUTOFF, reference, accounts=4)
    assert journal.checkpoint_set(bank.stream_id, only) == kept

    export = bank.export(registry=registry([Wanted(kept, ["ADA", "FEES"])]))
    ada, fees = (each["checkpoint"] for each in export.context["checkpoint_registry"])
    assert ada["checkpoint_id"] == "CP-2-20251020T000000000Z"
    assert (ada["raw_balance_minor"], ada["provenance_ref"]) == ("-97500", reference)
    resumed = {"effective": CUTOFF, "checkpoint": ada}
    export.groups = export.groups[2:]
    assert export.balance("ADA", **resumed) == 97_600
    assert export.fold("FEES", **resumed | {"checkpoint": fees})["code"] == (
        Code.CHECKPOINT_BALANCE_MISMATCH
    )


def test_a_checkpoint_of_nothing_has_no_last_group(bank):
    empty = bank.export()
    bank.posted("a", "CASH ADA 5")
    kept = CheckpointSet(0, CUTOFF, empty.head["receipt_ref"], {"ADA": 0})
    export = bank.export(registry=registry([Wanted(kept)]))
    [entry] = export.context["checkpoint_registry"]
    assert (entry["prefix_groups"], entry["checkpoint"]["last_group_id"]) == ([], None)
    assert export.balance("ADA", effective=CUTOFF, checkpoint=entry["checkpoint"]) == 5


def test_balances_kept_again_replace_those_of_their_set(bank):
    bank.posted("a")
    for raw in (1, 2):
        keep(bank.journal, STREAM.stream_id, CheckpointSet(1, CUTOFF, "R-1", {"ADA": raw}))
    keep(bank.journal, STREAM.stream_id, CheckpointSet(1, CUTOFF, "R-2", {"BEN": 3}))
    sets = bank.journal.checkpoints(STREAM.stream_id)
    assert [bank.journal.checkpoint_set(STREAM.stream_id, each) for each in sets] == [
        CheckpointSet(1, CUTOFF, "R-1", {"ADA": 2}),
        CheckpointSet(1, CUTOFF, "R-2", {"BEN": 3}),
    ]
    nowhere = KeptSet(7, CUTOFF, "R-1", 1)
    assert bank.journal.checkpoint_set(STREAM.stream_id, nowhere).raw_balances == {}


def test_a_balance_of_an_unknown_account_is_refused_with_all_others(bank):
    with pytest.raises(InputError, match="expected balances of 2 registered accounts, found 1"):
        keep(bank.journal, bank.stream_id, CheckpointSet(1, CUTOFF, "R", {"ADA": 1, "EVE": 1}))
    assert bank.journal.checkpoints(bank.stream_id) == []
    kept = CheckpointSet(0, CUTOFF, "R", {"ADA": 0})
    with pytest.raises(InputError, match='expected an account of the set, found "BEN"'):
        bank.export(registry=registry([Wanted(kept, ["BEN"])]))
