"""Open: a ledger stream and its accounts."""

from __future__ import annotations

from amends_pipeline.bank import export
from amends_pipeline.bank.codes import Code, RefusedError, Rejection
from amends_pipeline.bank.grammar import is_identifier
from amends_pipeline.bank.heads import Stream
from amends_pipeline.flows.bank_settle import settled
from amends_pipeline.kernel.display import shown
from amends_pipeline.ports.bank import BankJournal


def open_stream(journal: BankJournal, stream: Stream, accounts: object) -> bool | Rejection:
    """Make a stream with accounts, or add accounts to the one that is there.

    accounts: an array of accounts as JSON values; those that are there already may be among them.
    Returns whether the stream was made, or why nothing was done. Raises InputError when the stream
    is there with another ledger or entity, or an account with another definition.
    """
    for name, text in stream._asdict().items():
        if not is_identifier(text):
            expected = "an identifier of 1 to 64 characters"
            return Rejection(Code.INVALID_IDENTIFIER, name, expected, shown(text))
    try:
        known = export.parse_accounts(accounts)
    except RefusedError as refused:
        return refused.rejection
    scope = (stream.ledger_id, stream.entity_id)
    for account in known.values():
        found = (account.ledger_id, account.entity_id)
        if found != scope:
            where = f"account {account.account_id}"
            return Rejection(Code.SCOPE_MISMATCH, where, " of ".join(scope), " of ".join(found))
    # Found there after a commit that nobody answered: then that one made it.
    return settled(lambda unknown: journal.open(stream, list(known.values())) or unknown)
