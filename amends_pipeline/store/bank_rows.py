"""Groups of the bank ledger as rows, and back.

One row is one journal with its group, its receipt and its correction beside it, in sequence order.
Accounts are numbers in the rows; `Names` knows them by both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from amends_pipeline.bank.heads import Stream
from amends_pipeline.bank.receipts import NO_RECEIPT, Standing
from amends_pipeline.bank.values import (
    GROUP_VERSION,
    JOURNAL_VERSION,
    NORMAL_SIDES,
    Account,
    Command,
    Correction,
    Group,
    Journal,
    Leg,
)
from amends_pipeline.store.postgres import Connection

STANDING: Final = """s.id, s.name, s.ledger_id, s.entity_id, s.last_sequence, s.stamped_sequence,
s.recorded_at, s.available_at, s.observed_at, s.digest"""

ACCOUNTS: Final = """
SELECT id, account_id, currency, account_type FROM amends_bank.account
WHERE stream_id = %s
"""
ALL_ACCOUNTS: Final = ACCOUNTS + "ORDER BY account_id"
SOME_ACCOUNTS: Final = ACCOUNTS + "AND account_id = ANY(%s)"

HEADS: Final = """
SELECT head_sequence, observed_at, receipt_ref, digest FROM amends_bank.head WHERE stream_id = %s
"""
ALL_HEADS: Final = HEADS + "ORDER BY head_sequence, observed_at"
LAST_HEAD: Final = HEADS + "ORDER BY head_sequence DESC, observed_at DESC LIMIT 1"

JOURNALS: Final = """
SELECT g.group_id, r.available_at, r.digest, c.correction_id, o.journal_id, c.reason,
    g.last_sequence, j.sequence, j.journal_id, j.business_operation_id, j.currency,
    j.effective_at, j.source_available_at, j.booking_period, j.recorded_at, j.adjustment_reason,
    j.leg_accounts, j.leg_debits, j.leg_amounts::text[]
FROM amends_bank.journal j
JOIN amends_bank.committed_group g
    ON g.stream_id = j.stream_id AND g.last_sequence = j.group_sequence
LEFT JOIN amends_bank.receipt r
    ON r.stream_id = j.stream_id AND r.last_sequence = j.group_sequence
LEFT JOIN amends_bank.correction c
    ON c.stream_id = j.stream_id AND c.last_sequence = j.group_sequence
LEFT JOIN amends_bank.journal o
    ON o.stream_id = c.stream_id AND o.sequence = c.original_sequence
WHERE j.stream_id = %s
"""

Row = Sequence[Any]


def standing_of(row: Row) -> Standing:
    """Put together the columns STANDING, without the first."""
    name, ledger, entity, *rest = row
    last, stamped, recorded, available, observed, digest = rest
    stream = Stream(name, ledger, entity)
    return Standing(stream, last, stamped, recorded, available, observed, bytes(digest))


class Names:
    """The accounts of one stream that were met so far. They never change."""

    def __init__(self, stream_id: int, stream: Stream) -> None:
        self.stream_id = stream_id
        self.stream = stream
        self.by_number: dict[int, str] = {}
        self.numbers: dict[str, int] = {}
        self.accounts: dict[str, Account] = {}

    def learn(self, rows: Iterable[Row]) -> None:
        """Take note of rows of ACCOUNTS."""
        _, ledger, entity = self.stream
        for number, account_id, currency, account_type in rows:
            side = NORMAL_SIDES[account_type]
            account = Account(account_id, ledger, entity, currency, account_type, side)
            self.numbers[account_id] = number
            self.accounts[account_id] = account
            self.by_number[number] = account_id

    def known(self, account_ids: Iterable[str]) -> list[Account]:
        """Those accounts that are there, by id."""
        return [self.accounts[each] for each in sorted(account_ids) if each in self.accounts]

    def load(self, connection: Connection) -> list[Account]:
        """Look up all accounts. Returns them by id."""
        rows = connection.execute(ALL_ACCOUNTS, (self.stream_id,), binary=True).fetchall()
        self.learn(rows)
        return [self.accounts[row[1]] for row in rows]


class Known:
    """The streams that a process has met, by name. Streams are never removed."""

    def __init__(self) -> None:
        self._names: dict[str, Names] = {}

    def get(self, stream_id: str) -> Names | None:
        """Return what is known of a stream, if anything."""
        return self._names.get(stream_id)

    def of(self, stream: Stream) -> Names:
        """Return what is known of a stream that was met."""
        return self._names[stream.stream_id]

    def learn(self, row: Row) -> Standing:
        """Meet a stream by its columns STANDING; return them put together."""
        standing = standing_of(row[1:])
        names = self._names.get(standing.stream.stream_id)
        if names is None or names.stream_id != row[0]:
            self._names[standing.stream.stream_id] = Names(row[0], standing.stream)
        return standing


def groups_of(
    rows: Iterable[Row], names: Names, connection: Connection
) -> Iterator[tuple[Group, bytes]]:
    """Put rows of JOURNALS, in sequence order, together: each group with its prefix's digest.

    The digest is empty where there is no receipt. `connection` is asked for the names of accounts
    that `names` does not know.
    """
    _, ledger, entity = names.stream
    journals: list[Journal] = []
    for row in rows:
        group_id, available_at, digest, correction_id, original, reason, last_sequence = row[:7]
        journals.append(_journal(row, names, connection))
        if row[7] != last_sequence:
            continue
        correction = None
        if correction_id is not None:
            first, second = (each.command.journal_id for each in journals)
            correction = Correction(correction_id, original, first, second, unescaped(reason))
        group = Group(
            schema_version=GROUP_VERSION,
            group_id=group_id,
            kind="posting" if correction is None else "correction",
            ledger_id=ledger,
            entity_id=entity,
            available_at=available_at or NO_RECEIPT,
            journals=tuple(journals),
            correction=correction,
        )
        yield group, digest or b""
        journals = []


def _journal(row: Row, names: Names, connection: Connection) -> Journal:
    (
        sequence,
        journal_id,
        business_operation_id,
        currency,
        effective_at,
        source_available_at,
        booking_period,
        recorded_at,
        adjustment_reason,
        accounts,
        debits,
        amounts,
    ) = row[7:]
    known = names.by_number
    if not all(number in known for number in accounts):
        names.load(connection)
    legs = tuple(
        Leg(known[number], "debit" if debit else "credit", amount)
        for number, debit, amount in zip(accounts, debits, amounts, strict=True)
    )
    _, ledger, entity = names.stream
    command = Command(
        JOURNAL_VERSION,
        ledger,
        entity,
        journal_id,
        business_operation_id,
        currency,
        effective_at,
        source_available_at,
        booking_period,
        legs,
    )
    return Journal(command, str(sequence), recorded_at, unescaped(adjustment_reason))


def journal_row(group: Group, journal: Journal, names: Names) -> tuple[object, ...]:
    """Return what INSERT_JOURNAL takes after the stream."""
    command = journal.command
    return (
        int(journal.sequence),
        int(group.journals[-1].sequence),
        command.journal_id,
        command.business_operation_id,
        command.currency,
        command.effective_at,
        command.source_available_at,
        command.booking_period,
        journal.recorded_at,
        escaped(journal.adjustment_reason),
        [names.numbers[leg.account_id] for leg in command.legs],
        [leg.side == "debit" for leg in command.legs],
        [leg.amount_minor for leg in command.legs],
    )


def escaped(text: str) -> str:
    """Return a text as it is stored: PostgreSQL takes every character but U+0000."""
    return text.replace("\\", "\\\\").replace("\x00", "\\0")


def unescaped(text: str) -> str:
    """Return what `escaped` was given."""
    if "\\" not in text:
        return text
    return "\\".join(part.replace("\\0", "\x00") for part in text.split("\\\\"))
