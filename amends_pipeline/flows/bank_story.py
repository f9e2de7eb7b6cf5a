"""The story that shows what a bank ledger does: funding, an error, its correction, a fee.

It is posted like everything else, so that recordings and receipts are those of the moment; what is
effective lies in the month before.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any, Final, NamedTuple

from amends_pipeline.bank.codes import Rejection
from amends_pipeline.bank.heads import Stream
from amends_pipeline.bank.posting import Booking
from amends_pipeline.bank.values import JOURNAL_VERSION, NORMAL_SIDES, Group
from amends_pipeline.flows.bank_correct import correct
from amends_pipeline.flows.bank_open import open_stream
from amends_pipeline.flows.bank_post import post
from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import InputError, OperationError, UnknownStream
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


def tell(journal: BankJournal, stream: Stream, today: date) -> list[Group]:
    """Open the stream and post the story into it. Returns the groups made.

    Raises InputError when the stream is there already, or has no proper names.
    """
    try:
        journal.standing(stream.stream_id)
    except UnknownStream:
        pass
    else:
        raise _taken(stream)
    opened = open_stream(journal, stream, _accounts(stream))
    if isinstance(opened, Rejection):
        raise InputError(opened.where, expected=opened.expected, found=opened.found)
    if not opened:  # somebody else was quicker
        raise _taken(stream)
    month = (today.replace(day=1) - timedelta(days=1)).replace(day=1)

    def posted(step: Step) -> Booking | Rejection:
        return post(journal, stream.stream_id, _command(stream, step, month))

    link = {
        "correction_id": "C-PAYEE",
        "original_journal_id": f"J-{PAYMENT.name}",
        "reversal_journal_id": f"J-{PAYMENT.name}-UNDONE",
        "replacement_journal_id": f"J-{REPLACEMENT.name}",
        "reason": "wrong payee and amount",
    }
    steps = [posted(FUNDING), posted(PAYMENT)]
    steps += [
        correct(
            journal,
            stream.stream_id,
            link,
            _command(stream, REPLACEMENT, month),
            reversal_business_operation_id=f"OP-{PAYMENT.name}-UNDONE",
        ),
        posted(FEE),
    ]
    return [_group(each) for each in steps]


def _taken(stream: Stream) -> InputError:
    where = f"stream {shown(stream.stream_id)}"
    return InputError(where, expected="a name that is free", found="a stream that is there")


def _group(booked: Booking | Rejection) -> Group:
    if isinstance(booked, Rejection):
        raise OperationError("the story", expected="it to be booked", found=str(booked))
    return booked.group


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
        "journal_id": f"J-{step.name}",
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
