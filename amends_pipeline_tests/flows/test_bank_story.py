"""The story of a bank ledger: told once, and to its end, wherever it broke off."""

from __future__ import annotations

from datetime import date

import pytest

from amends_pipeline.bank.heads import Stream
from amends_pipeline.flows import bank_story
from amends_pipeline.flows.bank_correct import correct
from amends_pipeline.flows.bank_open import open_stream
from amends_pipeline.flows.bank_post import post
from amends_pipeline.flows.bank_story import tell
from amends_pipeline.kernel.errors import InputError
from amends_pipeline.store.memory_bank import BankTables, MemoryBank
from amends_pipeline_tests.contracts.bank_bench import ACCOUNTS, STREAM, account, command, link

TODAY, NEXT_MONTH = date(2026, 3, 1), date(2026, 4, 30)
WHOLE = ["J-FUNDING", "J-PAYMENT", "J-PAYMENT-UNDONE", "J-PAYMENT-TO-CORA", "J-FEE"]
OWN = [
    account(name, kind)
    for name, kind in {
        "CASH": "asset",
        "ADA": "liability",
        "BEN": "liability",
        "CORA": "liability",
        "FEES": "revenue",
    }.items()
]


class Killed(BaseException):
    """The end of a process."""


class Mortal(MemoryBank):
    """A journal whose process ends when a lock is asked for once too often."""

    def __init__(self, tables, locks):
        super().__init__(tables)
        self._locks = locks

    def locked(self, stream_id):
        self._locks -= 1
        if self._locks < 0:
            raise Killed
        return super().locked(stream_id)


def journals(groups):
    return [journal.command for group in groups for journal in group.journals]


def names(groups):
    return [each.journal_id for each in journals(groups)]


# Looking, then a lock to commit and another one for the receipt of each of four steps.
@pytest.mark.parametrize("locks", range(1, 9))
def test_a_story_that_broke_off_is_told_to_its_end(locks):
    tables = BankTables()
    with pytest.raises(Killed):
        tell(Mortal(tables, locks), STREAM, TODAY)
    journal = MemoryBank(tables)
    told = tell(journal, STREAM, NEXT_MONTH if locks > 1 else TODAY)
    assert names(told) == WHOLE
    assert {each.booking_period for each in journals(told)} == {"2026-02"}
    with journal.snapshot(STREAM.stream_id) as snapshot:
        assert [group for group, _ in snapshot.groups(5)] == told
    with pytest.raises(InputError, match="expected a name that is free"):
        tell(journal, STREAM, TODAY)


def nothing(_):
    """Leave the accounts alone."""


def another(journal):
    post(journal, STREAM.stream_id, command("mine"))


def like_the_beginning(journal):
    post(journal, STREAM.stream_id, command("FUNDING"))


def with_a_step_corrected(journal):
    for step in bank_story.STEPS[:1]:
        made = bank_story._command(STREAM, step, date(2026, 2, 1))  # noqa: SLF001 - as the story
        post(journal, STREAM.stream_id, made)
    mine = command("mine", effective_at="2026-02-01T09:00:00.000Z", booking_period="2026-02")
    link_ = link("mine", "FUNDING")
    done = correct(journal, STREAM.stream_id, link_, mine, reversal_business_operation_id="B-undo")
    assert done.group.kind == "correction"


@pytest.mark.parametrize(
    ("accounts", "posted"),
    [
        (ACCOUNTS, nothing),
        ([], nothing),
        (OWN, another),
        (OWN, like_the_beginning),
        (OWN, with_a_step_corrected),
    ],
)
def test_what_only_looks_like_the_story_is_left_alone(accounts, posted):
    journal = MemoryBank(BankTables())
    open_stream(journal, STREAM, accounts)
    posted(journal)
    before = journal.standing(STREAM.stream_id)
    with pytest.raises(InputError, match="expected a name that is free"):
        tell(journal, STREAM, TODAY)
    assert journal.standing(STREAM.stream_id) == before
    with journal.snapshot(STREAM.stream_id) as snapshot:
        assert len(snapshot.accounts()) == len(accounts)


def test_a_stream_of_another_ledger_is_left_alone():
    journal = MemoryBank(BankTables())
    open_stream(journal, STREAM, OWN)
    with pytest.raises(InputError, match="expected a name that is free"):
        tell(journal, Stream(STREAM.stream_id, "OTHER", STREAM.entity_id), TODAY)
