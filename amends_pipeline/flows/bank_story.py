"""The story that shows what a bank ledger does: funding, an error, its correction, a fee.

It is posted like everything else, so that recordings and receipts are those of the moment; what is
effective lies in the month before.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any, Final, NamedTuple

from amends_pipeline.bank.codes import Rejection
from amends_pipeline.bank.heads import Stream
from amends_pipeline.bank.posting import Asked, Booking
from amends_pipeline.bank.values import JOURNAL_VERSION, NORMAL_SIDES, Group, plain
from amends_pipeline.flows.bank_correct import correct
from amends_pipeline.flows.bank_open import open_stream
from amends_pipeline.flows.bank_post import post
from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import InputError, OperationError, UnknownStream
from amends_pipeline.kernel.instants import DATE_END
from amends_pipeline.ports.bank import BankJournal

CURRENCY: Final = "USD"
ACCOUNTS: Final = {
    "CASH": "asset",
    "ADA": "liability",
    "BEN": "liability",
    "CORA": "liability",
    "FEES": "revenue",
}


class Step(NamedTuple):
    """A journal of the story."""

    name: str
    day: int
    debited: str
    credited: str
    amount: str


FUNDING: Final = Step("FUNDING", 1, "CASH", "ADA", "100000")
PAYMENT: Final = Step("PAYMENT", 20, "ADA", "BEN", "2500")
REPLACEMENT: Final = Step("PAYMENT-TO-CORA", 20, "ADA", "CORA", "2400")
FEE: Final = Step("FEE", 23, "ADA", "FEES", "250")


STEPS: Final = (FUNDING, PAYMENT, REPLACEMENT, FEE)
"""In this order; REPLACEMENT is a correction of PAYMENT."""


def tell(journal: BankJournal, stream: Stream, today: date) -> list[Group]:
    """Open the stream and post the story into it. Returns the groups made.

    A story that broke off is told to its end. Raises InputError when the stream is there already
    with anything else, or with the whole story, or has no proper names.
    """
    month = (today.replace(day=1) - timedelta(days=1)).replace(day=1)
    begun = _begun(journal, stream)
    if begun is not None:
        month = begun.month or month
    opened = open_stream(journal, stream, _accounts(stream))
    if isinstance(opened, Rejection):
        raise InputError(opened.where, expected=opened.expected, found=opened.found)
    if begun is None and not opened:  # somebody else was quicker
        raise _taken(stream)
    groups = []
    for number, step in enumerate(STEPS):
        booked = _book(journal, stream, step, month)
        if isinstance(booked, Rejection):
            if begun is not None and number < begun.steps:
                raise _taken(stream)  # it only looks like the story
            raise OperationError("the story", expected="it to be booked", found=str(booked))
        groups.append(booked.group)
    return groups


class _Begun(NamedTuple):
    """How far a story had come that broke off."""

    steps: int
    month: date | None
    """In which it takes effect; None before the first step."""


def _begun(journal: BankJournal, stream: Stream) -> _Begun | None:
    """Look at the stream, which may hold the beginning of the story. None where it is not there.

    Raises InputError where it holds anything else.
    """
    names = [_journal_id(step) for step in STEPS]
    try:
        with journal.locked(stream.stream_id) as there:
            standing = there.standing
            found = there.facts(Asked(journals=names)).groups
        with journal.snapshot(stream.stream_id) as snapshot:
            accounts = [plain(account) for account in snapshot.accounts()]
    except UnknownStream:
        return None
    made = [group.journals[-1].command for group in found]
    whole = len(made) == len(STEPS) and standing.stamped_sequence == standing.last_sequence
    if (
        standing.stream != stream
        or sorted(accounts, key=str) != sorted(_accounts(stream), key=str)
        or standing.last_sequence != sum(len(group.journals) for group in found)
        or [command.journal_id for command in made] != names[: len(made)]
        or whole
    ):
        raise _taken(stream)
    first = date.fromisoformat(made[0].effective_at[:DATE_END]).replace(day=1) if made else None
    return _Begun(len(made), first)


def _book(journal: BankJournal, stream: Stream, step: Step, month: date) -> Booking | Rejection:
    command = _command(stream, step, month)
    if step is not REPLACEMENT:
        return post(journal, stream.stream_id, command)
    link = {
        "correction_id": "C-PAYEE",
        "original_journal_id": _journal_id(PAYMENT),
        "reversal_journal_id": f"{_journal_id(PAYMENT)}-UNDONE",
        "replacement_journal_id": _journal_id(REPLACEMENT),
        "reason": "wrong payee and amount",
    }
    undone = f"OP-{PAYMENT.name}-UNDONE"
    return correct(journal, stream.stream_id, link, command, reversal_business_operation_id=undone)


def _journal_id(step: Step) -> str:
    return f"J-{step.name}"


def _taken(stream: Stream) -> InputError:
    where = f"stream {shown(stream.stream_id)}"
    return InputError(where, expected="a name that is free", found="a stream that is there")


def _accounts(stream: Stream) -> list[dict[str, str]]:
    return [
        {
            "account_id": account_id,
            "ledger_id": stream.ledger_id,
            "entity_id": stream.entity_id,
            "currency": CURRENCY,
            "account_type": kind,
            "normal_side": NORMAL_SIDES[kind],
        }
        for account_id, kind in ACCOUNTS.items()
    ]


def _command(stream: Stream, step: Step, month: date) -> dict[str, Any]:
    moment = f"{month.replace(day=step.day)}T09:00:00.000Z"
    legs = [(step.debited, "debit"), (step.credited, "credit")]
    return {
        "schema_version": JOURNAL_VERSION,
        "ledger_id": stream.ledger_id,
        "entity_id": stream.entity_id,
        "journal_id": _journal_id(step),
        "business_operation_id": f"OP-{step.name}",
        "currency": CURRENCY,
        "effective_at": moment,
        "source_available_at": moment,
        "booking_period": f"{month:%Y-%m}",
        "legs": [
            {"account_id": account_id, "side": side, "amount_minor": step.amount}
            for account_id, side in legs
        ],
    }
