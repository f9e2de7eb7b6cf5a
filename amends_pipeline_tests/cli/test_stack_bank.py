"""The bank's demo of a stack: what it makes, and what it leaves alone."""

from __future__ import annotations

import pytest

from amends_pipeline.bank.heads import Stream
from amends_pipeline.cli.stack_bank import DEMO, told
from amends_pipeline.flows.bank_open import open_stream
from amends_pipeline.store.memory_bank import BankTables, MemoryBank


@pytest.fixture
def journal():
    return MemoryBank(BankTables())


def test_the_story_is_told_once(journal):
    assert told(journal)
    standing = journal.standing("demo")
    assert (standing.stream, standing.last_sequence) == (DEMO, 5)
    assert told(journal)
    assert journal.standing("demo") == standing


def test_a_stream_of_that_name_which_is_somebody_s_is_left_as_it_is(journal):
    open_stream(journal, Stream("demo", "THEIRS", "CB-A"), [])
    assert not told(journal)
    assert journal.standing("demo").last_sequence == 0


def test_a_story_that_broke_off_is_left_where_it_is(journal):
    open_stream(journal, DEMO, [])
    assert told(journal)
    assert journal.standing("demo").last_sequence == 0
