"""Receipts, observations and recordings, whatever the clock of the server does."""

from __future__ import annotations

import pytest

from amends_pipeline.bank.fold import fold_balance
from amends_pipeline.bank.posting import Booking, decide, parse_posting, parse_replacement
from amends_pipeline.flows.bank_export import looking
from amends_pipeline.flows.bank_stamp import stamp
from amends_pipeline.store import bank_locked, memory_bank
from amends_pipeline_tests.contracts.bank_bench import NOON, Exported, command, link

LATER = "2025-10-20T13:00:00.000Z"
EARLIER = "2025-10-20T11:00:00.000Z"


def commit_only(bank, name):
    """What a poster does whose process ends before it can give a receipt."""
    _commit(bank, parse_posting(command(name)))


def correct_only(bank, name, original):
    """The same for a correction."""
    request = parse_replacement(link(name, original), command(name), f"B-{name}-undo")
    _commit(bank, request)


def _commit(bank, request):
    with bank.journal.locked(bank.stream_id) as stream:
        decided = decide(stream.standing, stream.facts(request.asked), request)
        assert isinstance(decided, Booking)
        stream.append(decided.group)


def test_each_member_of_a_correction_is_recorded_at_a_moment_of_its_own(bank):
    bank.posted("pay")
    bank.set_clock(LATER, step_ms=5)
    group = bank.corrected("redo", "pay").group
    assert [each.recorded_at for each in group.journals] == [LATER, "2025-10-20T13:00:00.005Z"]
    assert group.available_at > "2025-10-20T13:00:00.005Z"


def test_a_clock_that_moves_back_moves_nothing_back(bank):
    bank.set_clock(LATER)
    bank.posted("a")
    bank.set_clock(EARLIER)
    bank.posted("b", "CASH ADA 1")
    bank.corrected("c", "b")
    export = bank.export()
    assert export.recordings == [LATER] * 4
    assert export.receipts == [LATER] * 3
    assert export.head["observed_at"] == LATER
    assert export.fold()["status"] == "ok"


def test_a_receipt_is_strictly_after_every_observation(bank):
    """Also where the clock stands still, or moves back."""
    bank.posted("a", "CASH ADA 1")
    seen = []
    for at, (name, clock) in enumerate([("b", NOON), ("c", EARLIER), ("d", NOON), ("e", NOON)]):
        export = bank.export()
        seen.append((export.head["observed_at"], at + 1))
        bank.set_clock(clock)
        bank.posted(name, "CASH ADA 1")
    last = bank.export()
    assert last.receipts == [
        NOON,
        "2025-10-20T12:00:00.001Z",
        "2025-10-20T12:00:00.002Z",
        "2025-10-20T12:00:00.003Z",
        "2025-10-20T12:00:00.004Z",
    ]
    assert [(each, last.balance("ADA", each)) for each, _ in seen] == seen


def test_two_exports_of_one_moment_are_one_head(bank):
    bank.posted("a")
    assert bank.export().context == bank.export().context
    with bank.journal.snapshot(bank.stream_id) as snapshot:
        assert len(snapshot.heads()) == 1


def test_an_empty_stream_has_an_empty_export(bank):
    export = bank.export()
    assert (export.groups, export.head["head_sequence"]) == ([], "0")
    assert export.balance("ADA") == 0
    bank.posted("a", "CASH ADA 7")
    assert bank.export().balance("ADA", export.head["observed_at"]) == 0


def test_a_group_without_a_receipt_is_in_no_export_and_the_next_poster_gives_it_one(bank):
    commit_only(bank, "a")
    with bank.journal.snapshot(bank.stream_id) as snapshot:
        assert (snapshot.standing.last_sequence, snapshot.standing.stamped_sequence) == (1, 0)
        assert list(snapshot.groups(1)) == []
    bank.set_clock(LATER)
    commit_only(bank, "b")
    assert bank.reopened().posted("c").group.available_at == LATER
    export = bank.export()
    assert export.receipts == [LATER] * 3
    assert export.recordings == [NOON, LATER, LATER]
    assert export.balance("ADA") == 300


def test_an_export_gives_the_missing_receipts(bank):
    commit_only(bank, "a")
    commit_only(bank, "b")
    bank.set_clock(LATER)
    export = bank.reopened().export()
    assert export.receipts == [LATER, LATER]
    assert export.head["observed_at"] == LATER
    assert export.balance("ADA") == 200


@pytest.mark.parametrize("ending", ["stamp", "post", "export", "look"])
def test_many_groups_get_their_receipts_some_at_a_time(bank, monkeypatch, ending):
    for store in (bank_locked, memory_bank):
        monkeypatch.setattr(store, "STAMPED_AT_ONCE", 2)
    commit_only(bank, "a")
    correct_only(bank, "b", "a")  # sequences 2 and 3: two rows from the first on cut it in half
    for name in "cde":
        commit_only(bank, name)
    bank.set_clock(LATER)
    if ending == "stamp":
        assert stamp(bank.journal, bank.stream_id) == 5
    elif ending == "post":
        assert bank.posted("f").group.available_at == LATER
    elif ending == "look":
        with looking(bank.journal, bank.stream_id) as export:
            assert export.head.head_sequence == "6"
            assert [group.available_at for group in export.groups] == [LATER] * 5
    export = bank.export()
    assert export.receipts == [LATER] * (6 if ending == "post" else 5)
    assert export.fold()["status"] == "ok"
    standing, _, heads, _ = bank.everything()
    assert standing.stamped_sequence == standing.last_sequence
    assert len(heads) == 1


def test_the_same_command_gives_the_receipt_that_is_missing(bank):
    commit_only(bank, "a")
    bank.set_clock(LATER)
    booking = bank.posted("a")
    assert (booking.repeated, booking.group.available_at) == (True, LATER)
    assert bank.export().receipts == [LATER]


def test_an_answer_at_a_moment_is_the_same_ever_after(bank):
    bank.set_clock(NOON, step_ms=1)
    asked = []
    for number in range(6):
        export = bank.export()
        query = {
            "schema_version": "d30-balance-fold-v1",
            "ledger_id": "CB-GENERAL",
            "entity_id": "CB-A",
            "account_id": "ADA",
            "currency": "USD",
            "effective_cutoff": LATER,
            "knowledge_cutoff": export.head["observed_at"],
            "checkpoint": None,
        }
        asked.append((query, export))
        bank.posted(f"n{number}", f"CASH ADA {number + 1}")
        if number % 2:
            bank.corrected(f"c{number}", f"n{number}", "CASH ADA 50")
    last = bank.export()
    for query, export in asked:
        then = fold_balance(query, export.groups, export.accounts, export.context)
        now = fold_balance(query, last.groups, last.accounts, last.context)
        assert then["status"] == now["status"] == "ok"
        assert (now["balance"], now["trace"]) == (then["balance"], then["trace"])


@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_an_export_is_files_that_are_there_whole(bank, suffix):
    bank.posted("a")
    bank.posted("b")
    export = bank.export(suffix=suffix)
    assert export.names == ["a.json", "c.json", f"groups{suffix}"]
    assert [group["group_id"] for group in export.groups] == ["G-1", "G-2"]
    assert (export.done.groups, export.done.accounts, export.told) == (2, 8, [1, 1])
    assert len(export.raw.splitlines()) == 2
    assert export.raw.endswith(b"\n")
    assert export.fold()["status"] == "ok"


@pytest.mark.parametrize(("suffix", "empty"), [(".json", b"[]\n"), (".jsonl", b"")])
def test_an_export_of_nothing_is_a_file_too(bank, suffix, empty):
    assert Exported(bank.journal, suffix=suffix).raw == empty
