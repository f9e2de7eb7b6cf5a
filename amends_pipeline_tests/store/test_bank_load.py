"""Many who post and export at once, and some who die doing so."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

import pytest

from amends_pipeline.bank.codes import Code
from amends_pipeline.bank.posting import Booking
from amends_pipeline_tests.contracts.bank_bench import TableBankBench

POSTERS, EACH = 16, 12
PEOPLE = ("ADA", "BEN", "CORA")


@pytest.fixture
def bank(tables_url):
    """A journal with one stream, and the server's own clock."""
    bench = TableBankBench(tables_url)
    try:
        bench.open()
        yield bench
    finally:
        bench.clean()


def poster(bench, number):
    """Post, and correct every third of one's own; every fourth command is sent twice."""
    groups = []
    for at in range(EACH):
        name = f"{number}-{at}"
        legs = f"CASH {PEOPLE[at % 3]} {number * EACH + at + 1}"
        groups.append(bench.posted(name, legs).group)
        if at % 4 == 0:
            assert bench.posted(name, legs) == (groups[-1], True)
        if at % 3 == 0:
            groups.append(bench.corrected(f"{name}c", name, "CASH CORA 1").group)
    return groups


def exporter(bench, done):
    exports = []
    while not done.is_set():
        exports.append(bench.export(suffix=".jsonl"))
        assert exports[-1].fold()["status"] == "ok"
    return exports


def test_sixteen_posters_and_two_exporters_leave_one_history_without_gaps(bank):
    done = Event()
    with ThreadPoolExecutor(POSTERS + 2) as pool:
        watching = [pool.submit(exporter, bank.reopened(), done) for _ in range(2)]
        working = [pool.submit(poster, bank.reopened(), number) for number in range(POSTERS)]
        try:
            booked = [group for each in working for group in each.result()]
        finally:
            done.set()
        exports = [export for each in watching for export in each.result()]

    last = bank.export()
    corrections = -(-EACH // 3)
    assert last.head["head_sequence"] == str(POSTERS * (EACH + 2 * corrections))
    assert len(last.groups) == len(booked) == POSTERS * (EACH + corrections)
    by_id = {group["group_id"]: group for group in last.groups}
    assert {group.group_id: group.available_at for group in booked} == {
        group_id: group["available_at"] for group_id, group in by_id.items()
    }
    assert len(exports) > 4
    assert any(0 < len(export.groups) < len(last.groups) for export in exports)
    for export in exports:
        assert last.groups[: len(export.groups)] == export.groups
        known = export.head["observed_at"]
        for name in ("CASH", *PEOPLE):
            then, now = export.fold(name, known), last.fold(name, known)
            assert now["status"] == "ok"
            assert (now["balance"], now["trace"]) == (then["balance"], then["trace"])


def test_of_many_who_correct_one_journal_one_does(bank):
    bank.posted("pay")
    benches = [bank.reopened() for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(
            pool.map(lambda at: benches[at].correct(f"c{at}", "pay"), range(len(benches)))
        )
    booked = [each for each in outcomes if isinstance(each, Booking)]
    refused = [each for each in outcomes if not isinstance(each, Booking)]
    assert len(booked) == 1
    assert {each.code for each in refused} == {Code.ALREADY_REVERSED}
    assert bank.export().head["head_sequence"] == "3"


def test_of_many_who_post_one_command_one_does_and_all_get_its_group(bank):
    benches = [bank.reopened() for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(lambda bench: bench.posted("pay"), benches))
    assert {each.group.group_id for each in outcomes} == {"G-1"}
    assert [each.repeated for each in outcomes].count(False) == 1


# --- processes that are killed


@contextmanager
def process(bank, *arguments):
    module = "amends_pipeline_tests.store.bank_poster"
    running = subprocess.Popen(
        [sys.executable, "-m", module, bank.url, *arguments], stdout=subprocess.PIPE, text=True
    )
    try:
        yield running
    finally:
        running.kill()
        running.wait()
        running.stdout.close()


def test_a_poster_killed_between_commit_and_receipt_holds_nobody_up(bank):
    with process(bank, "dead", "between") as running:
        assert running.stdout.readline() == "committed\n"
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
    assert bank.journal.standing(bank.stream_id).stamped_sequence == 0
    booking = bank.posted("alive")
    export = bank.export()
    assert [each["journals"][0]["command"]["journal_id"] for each in export.groups] == [
        "J-dead",
        "J-alive",
    ]
    assert export.receipts == [booking.group.available_at] * 2
    assert export.fold()["status"] == "ok"


def test_posters_killed_at_any_moment_lose_nothing_that_they_told(bank):
    told = []
    for number in range(3):
        with process(bank, f"p{number}") as running:
            told += [running.stdout.readline().strip() for _ in range(3 + number)]
            time.sleep(0.01 * number)
            running.kill()
            told += running.stdout.read().split()
    bank.posted("after")
    export = bank.export()
    posted = [each["journals"][0]["command"]["journal_id"] for each in export.groups]
    assert set(told) <= set(posted)
    assert len(posted) - len(told) <= 4, "at most one each was committed and not told of"
    assert export.fold()["status"] == "ok"
