"""Correct: an earlier journal is reversed and replaced, in one commit."""

from __future__ import annotations

from amends_pipeline.bank.codes import Rejection
from amends_pipeline.bank.posting import Booking, parse_replacement
from amends_pipeline.flows.bank_post import book
from amends_pipeline.ports.bank import BankJournal


def correct(  # noqa: PLR0913 - the parts of a correction
    journal: BankJournal,
    stream_id: str,
    correction: object,
    replacement: object,
    *,
    reversal_business_operation_id: object,
    adjustment_reason: object = "",
) -> Booking | Rejection:
    """Reverse one journal and post another in its place, or say why nothing was written.

    correction: the link, with its five members. replacement: a journal command. The reversal takes
    everything but its names and its legs from the replacement. Answers and raises as `post`.
    """
    request = parse_replacement(
        correction, replacement, reversal_business_operation_id, adjustment_reason
    )
    if isinstance(request, Rejection):
        return request
    return book(journal, stream_id, request)
