"""The live journal in PostgreSQL alone: lost replies, deadlocks, constraints, what SQL shows."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from amends_pipeline.flows import bank_settle
from amends_pipeline.flows.bank_post import post
from amends_pipeline.kernel.errors import (
    Contended,
    DatabaseUnavailable,
    OperationError,
    OutcomeUnknown,
)
from amends_pipeline.store.bank import PostgresBank
from amends_pipeline.store.postgres import Database
from amends_pipeline_tests.contracts.bank_bench import STREAM, TableBankBench, command
from amends_pipeline_tests.store.proxy import proxied


@pytest.fixture
def bank(tables_url):
    bench = TableBankBench(tables_url)
    try:
        bench.open()
        yield bench
    finally:
        bench.clean()


@pytest.fixture
def way(bank):
    """A proxy, and the same journal reached through it."""
    proxy, url = proxied(bank.url)
    with proxy:
        far = TableBankBench(url)
        try:
            far.posted("first")
            yield proxy, far
        finally:
            far.close()


# --- lost replies

COMMIT = b"COMMIT\x00"


@pytest.mark.parametrize("lost", ["lose_before", "lose_after"])
def test_a_posting_whose_reply_is_lost_is_settled_by_looking_again(way, bank, lost):
    proxy, far = way
    getattr(proxy, lost)(COMMIT)
    booking = far.posted("pay")
    assert proxy.cuts == 1
    assert (booking.group.group_id, booking.repeated) == ("G-2", False)
    export = bank.export()
    assert export.head["head_sequence"] == "2"
    assert export.receipts[1] == booking.group.available_at


@pytest.mark.parametrize("lost", ["lose_before", "lose_after"])
def test_a_receipt_whose_reply_is_lost_is_settled_by_looking_again(way, bank, lost):
    proxy, far = way
    getattr(proxy, lost)(b"INSERT INTO amends_bank.receipt" if lost == "lose_before" else COMMIT)
    booking = far.corrected("redo", "first")
    assert proxy.cuts == 1
    assert bank.export().receipts[-1] == booking.group.available_at


@pytest.mark.parametrize("lost", ["lose_before", "lose_after"])
def test_a_head_whose_reply_is_lost_is_made_again(way, bank, lost):
    proxy, far = way
    getattr(proxy, lost)(COMMIT)
    export = far.export()
    assert proxy.cuts == 1
    assert export.fold()["status"] == "ok"
    assert bank.export().head["receipt_ref"] == export.head["receipt_ref"]


@pytest.mark.parametrize("lost", ["lose_before", "lose_after"])
def test_a_stream_whose_opening_is_not_answered_is_opened_once(way, bank, lost):
    proxy, far = way
    other = STREAM._replace(stream_id="OTHER")
    getattr(proxy, lost)(COMMIT)
    assert far.open(other) is True
    assert proxy.cuts == 1
    assert bank.open(other) is False
    assert [each.stream for each in bank.journal.streams()] == [STREAM, other]


def test_a_database_that_does_not_come_back_leaves_the_outcome_unknown(way, bank, monkeypatch):
    monkeypatch.setattr(bank_settle, "PAUSE_SECONDS", 0.0)
    proxy, far = way
    proxy.lose_after(COMMIT)
    original = PostgresBank.locked

    def locked(journal, stream_id):
        if proxy.cuts:
            raise DatabaseUnavailable("database", expected="an answer", found="none")
        return original(journal, stream_id)

    monkeypatch.setattr(PostgresBank, "locked", locked)
    with pytest.raises(OutcomeUnknown, match="expected a reply to a commit"):
        far.post("pay")
    monkeypatch.undo()
    assert bank.posted("pay").repeated


def test_a_database_that_is_not_there_is_told_at_once(way):
    proxy, far = way
    proxy.lose_before(b"FOR NO KEY UPDATE")
    with pytest.raises(DatabaseUnavailable):
        far.post("pay")
    assert far.posted("pay").group.group_id == "G-2"


# --- deadlocks


WAITING = "SELECT 1 FROM pg_locks WHERE relation = 'amends_bank.journal'::regclass AND NOT granted"


def crossed(bank, name):
    """Post while somebody takes locks in another order. Returns the group, and who gave way."""
    with psycopg.connect(bank.url) as other, ThreadPoolExecutor(1) as pool:
        other.execute("SET deadlock_timeout = '5s'")  # the poster looks for deadlocks earlier
        other.execute("LOCK TABLE amends_bank.journal IN SHARE MODE")
        posting = pool.submit(bank.posted, name)
        while not bank.sql(WAITING):
            pass
        try:
            other.execute("SELECT FROM amends_bank.stream FOR UPDATE")
            gave_way = "poster"
        except psycopg.errors.DeadlockDetected:
            gave_way = "other"  # on a slow machine the poster has looked too early
        other.rollback()
        return posting.result().group.group_id, gave_way


def test_a_deadlock_that_somebody_else_makes_does_not_reach_the_caller(bank):
    for number in range(1, 6):
        group_id, gave_way = crossed(bank, f"n{number}")
        assert group_id == f"G-{number}"
        if gave_way == "poster":
            break
    else:
        pytest.fail("the poster never gave way")
    assert bank.export().head["head_sequence"] == str(number)


def test_contention_without_end_is_told(bank, monkeypatch):
    monkeypatch.setattr(bank_settle, "PAUSE_SECONDS", 0.0)
    tried = []

    def locked(*_):
        tried.append(1)
        raise Contended("stream X", expected="a transaction of its own", found="a deadlock")

    monkeypatch.setattr(PostgresBank, "locked", locked)
    with pytest.raises(Contended):
        bank.post("pay")
    assert len(tried) == bank_settle.ATTEMPTS


# --- constraints, the second line of defence

BROKEN = {
    "a gap": "UPDATE amends_bank.stream SET last_sequence = 7",
    "a counter that lags": "UPDATE amends_bank.stream SET last_sequence = 1, stamped_sequence = 1",
}


@pytest.mark.parametrize("spoil", BROKEN.values(), ids=BROKEN)
def test_a_counter_that_was_tampered_with_makes_no_gap_and_no_double(bank, spoil):
    bank.posted("a")
    bank.posted("b")
    before = bank.everything()[3]
    bank.sql(spoil)
    with pytest.raises(DatabaseUnavailable, match="SQLSTATE 23"):
        bank.post("c")
    assert bank.everything()[3] == before


JOURNAL = """
INSERT INTO amends_bank.journal (stream_id, sequence, group_sequence, journal_id,
    business_operation_id, currency, effective_at, source_available_at, booking_period,
    recorded_at, adjustment_reason, leg_accounts, leg_debits, leg_amounts)
SELECT stream_id, sequence + 1, group_sequence + 1, 'J-x', 'B-x', currency, {effective_at},
    source_available_at, {booking_period}, recorded_at, '', {accounts}, leg_debits, {amounts}
FROM amends_bank.journal
"""
RIGHT = {
    "effective_at": "effective_at",
    "booking_period": "booking_period",
    "accounts": "leg_accounts",
    "amounts": "leg_amounts",
}
WRONG = {
    "unbalanced": {"amounts": "'{1,2}'"},
    "negative": {"amounts": "'{-1,-1}'"},
    "a fraction": {"amounts": "'{1.5,1.5}'"},
    "one account": {"accounts": "ARRAY[leg_accounts[1], leg_accounts[1]]"},
    "one leg": {"accounts": "leg_accounts[1:1]"},
    "in the future": {"effective_at": "'9999-01-01T00:00:00.000Z'", "booking_period": "'9999-01'"},
    "another month": {"booking_period": "'2025-11'"},
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_journal_that_breaks_the_rules_of_one_row_cannot_be_stored(bank, wrong):
    bank.posted("a")
    bank.sql(
        "INSERT INTO amends_bank.committed_group SELECT stream_id, 2, 2, 1, 'X'"
        " FROM amends_bank.committed_group"
    )
    with pytest.raises(psycopg.errors.CheckViolation):
        bank.sql(JOURNAL.format(**RIGHT | wrong))
    bank.sql(JOURNAL.format(**RIGHT))


@pytest.mark.parametrize(
    "table", ["account", "committed_group", "journal", "correction", "receipt", "head"]
)
@pytest.mark.parametrize("change", ["DELETE FROM {}", "UPDATE {} SET stream_id = stream_id"])
def test_what_was_committed_cannot_be_changed(bank, table, change):
    bank.posted("a")
    with pytest.raises(psycopg.errors.IntegrityConstraintViolation, match="never changes"):
        bank.sql(change.format(f"amends_bank.{table}"))


def test_a_history_that_was_changed_all_the_same_is_not_exported(bank):
    bank.posted("a")
    bank.export()
    bank.sql("ALTER TABLE amends_bank.receipt DISABLE TRIGGER never_changes")
    bank.sql("UPDATE amends_bank.receipt SET digest = '\\x00'")
    bank.sql("ALTER TABLE amends_bank.receipt ENABLE TRIGGER never_changes")
    with pytest.raises(OperationError, match=r"expected the history of R-1-.*, found another"):
        bank.export()


# --- what SQL shows


def test_legs_stand_in_a_view(bank):
    bank.posted("pay", "CASH ADA 123456789012345678901234567890")
    rows = bank.sql(
        "SELECT stream, sequence, group_id, place, account_id, side, amount::text FROM"
        " amends_bank.leg ORDER BY place"
    )
    amount = "123456789012345678901234567890"
    assert rows == [
        (STREAM.stream_id, 1, "G-1", 1, "CASH", "debit", amount),
        (STREAM.stream_id, 1, "G-1", 2, "ADA", "credit", amount),
    ]


def test_the_clock_of_the_server_is_cut_to_milliseconds(bank):
    cut = "date_trunc('milliseconds', clock_timestamp())"
    ((ours, theirs),) = bank.sql(f"SELECT amends_bank.clock(), {cut} AT TIME ZONE 'UTC'")
    shown = theirs.isoformat(timespec="milliseconds") + "Z"
    assert ours <= shown
    assert len(ours) == len(shown) == 24


def test_posting_reads_journals_by_their_keys(bank):
    """However many there are, and whatever the planner knows of them."""
    for number in range(30):
        bank.posted(f"n{number}")
    bank.sql("ANALYZE")
    bank.sql("SELECT pg_stat_reset()")
    journal = PostgresBank(Database(bank.url))
    try:
        for number in range(3):
            post(journal, STREAM.stream_id, command(f"more{number}"))
    finally:
        journal._database.close()  # noqa: SLF001 - the test's own
    seen = """
        SELECT sum(idx_scan)::int, sum(seq_tup_read)::int FROM pg_stat_user_tables
        WHERE relname IN ('journal', 'receipt')
    """
    while bank.sql(seen)[0][0] == 0:
        time.sleep(0.01)  # a server's statistics come a little later
    assert bank.sql(seen)[0][1] == 0
