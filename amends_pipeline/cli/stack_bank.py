"""The demo of the bank ledger in `amends up`: a ledger stream with a story in it.

It is a stream of its own, `demo`, in the user's journal, and is told only where there is none of
that name. The sensor sees it, makes it a partition and asks for the run that folds it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from amends_pipeline.bank.heads import Stream
from amends_pipeline.flows.bank_story import tell
from amends_pipeline.kernel.errors import InputError, UnknownStream
from amends_pipeline.ports.bank import BankJournal

DEMO: Final = Stream("demo", "CB-GENERAL", "CB-A")


def told(journal: BankJournal) -> bool:
    """Tell the story where there is no stream of its name; say whether one is there that is ours.

    Raises OperationErrors of the journal. What was posted until then stays, and nobody adds to it.
    """
    try:
        return journal.standing(DEMO.stream_id).stream == DEMO
    except UnknownStream:
        try:
            tell(journal, DEMO, datetime.now(UTC).date())
        except InputError:  # somebody opened one in this moment
            return False
        return True
