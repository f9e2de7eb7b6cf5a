"""Post: a journal command becomes a committed group with a receipt."""

from __future__ import annotations

from amends_pipeline.bank.codes import Rejection
from amends_pipeline.bank.posting import Booking, Request, decide, parse_posting
from amends_pipeline.flows.bank_settle import settled
from amends_pipeline.flows.bank_stamp import receipt_of
from amends_pipeline.kernel.errors import Contended, DatabaseUnavailable, OutcomeUnknown
from amends_pipeline.ports.bank import BankJournal


def post(
    journal: BankJournal, stream_id: str, command: object, adjustment_reason: object = ""
) -> Booking | Rejection:
    """Post one journal, or say why nothing was written.

    command, adjustment_reason: JSON values. The same command again is answered with the group that
    it made. Raises UnknownStream; OutcomeUnknown when the database went away in the moment of the
    commit or before the receipt, and does not come back: post it again then. After any other error
    nothing is done.
    """
    request = parse_posting(command, adjustment_reason)
    if isinstance(request, Rejection):
        return request
    return book(journal, stream_id, request)


def book(journal: BankJournal, stream_id: str, request: Request) -> Booking | Rejection:
    """Do what a request asks for: load, decide, save, all under the lock of the stream.

    The receipt comes in a transaction after that. When this process ends between the two, whoever
    posts or exports next gives it.
    """

    def attempt(unknown: bool) -> Booking | Rejection:  # noqa: FBT001 - as `settled` calls it
        with journal.locked(stream_id) as stream:
            facts = stream.facts(request.asked)
            decided = decide(stream.standing, facts, request)
            if isinstance(decided, Booking):
                if not decided.repeated:
                    stream.append(decided.group)
                elif unknown:
                    # It was not there when the commit that nobody answered was sent.
                    return decided._replace(repeated=False)
        return decided

    booked = settled(attempt)
    if isinstance(booked, Rejection):
        return booked
    try:
        return booked._replace(group=receipt_of(journal, stream_id, booked.group))
    except (Contended, DatabaseUnavailable) as error:
        where, expected = f"group {booked.group.group_id} of stream {stream_id}", "its receipt"
        found = f"it committed, and {error.found}"
        raise OutcomeUnknown(where, expected=expected, found=found) from None
