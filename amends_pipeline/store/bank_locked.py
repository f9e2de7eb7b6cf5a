"""A stream of the bank ledger under its lock, which is the lock of its row.

Posting, stamping, observing and adding accounts take this one lock first and no other one, so that
no two of them can wait for each other. What they read comes after it, each statement with a view of
its own: in READ COMMITTED that is everything that whoever held the lock before has committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from amends_pipeline.bank.heads import KnownHead
from amends_pipeline.bank.posting import Asked, Facts
from amends_pipeline.bank.receipts import Receipt, Standing
from amends_pipeline.bank.values import Group
from amends_pipeline.store import bank_rows
from amends_pipeline.store.bank_rows import Names
from amends_pipeline.store.postgres import Cursor, Transaction

LOCK_STREAM: Final = f"""
SELECT {bank_rows.STANDING} FROM amends_bank.stream s WHERE s.name = %s FOR NO KEY UPDATE
"""  # noqa: S608 - columns of a constant

# Arrays, so that journals are looked up by their key whatever the planner believes.
WANTED: Final = """
WITH wanted AS MATERIALIZED (
    SELECT group_sequence AS last FROM amends_bank.journal
    WHERE stream_id = %s AND journal_id = ANY(%s)
    UNION
    SELECT group_sequence FROM amends_bank.journal
    WHERE stream_id = %s AND business_operation_id = ANY(%s)
    UNION
    SELECT last_sequence FROM amends_bank.correction WHERE stream_id = %s AND correction_id = %s
    UNION
    SELECT c.last_sequence FROM amends_bank.journal j JOIN amends_bank.correction c
        ON c.stream_id = j.stream_id AND c.original_sequence = j.sequence
    WHERE j.stream_id = %s AND j.journal_id = ANY(%s)
)"""
ARE_WANTED: Final = """
AND j.sequence = ANY (ARRAY(SELECT unnest(ARRAY[last - 1, last]) FROM wanted))
AND j.group_sequence = ANY (ARRAY(SELECT last FROM wanted)) ORDER BY j.sequence
"""
SELECT_ASKED: Final = WANTED + bank_rows.JOURNALS + ARE_WANTED
SELECT_UNSTAMPED: Final = bank_rows.JOURNALS + "AND j.sequence > %s ORDER BY j.sequence"
CLOCKS: Final = "SELECT amends_bank.clock(), amends_bank.clock()"

INSERT_GROUP: Final = """
INSERT INTO amends_bank.committed_group (stream_id, last_sequence, first_sequence,
    previous_sequence, group_id) VALUES (%s, %s, %s, nullif(%s::int8, 0), %s)
"""
INSERT_JOURNAL: Final = """
INSERT INTO amends_bank.journal (stream_id, sequence, group_sequence, journal_id,
    business_operation_id, currency, effective_at, source_available_at, booking_period,
    recorded_at, adjustment_reason, leg_accounts, leg_debits, leg_amounts)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s::int4[], %s::boolean[],
    %s::text[]::numeric[])
"""
INSERT_CORRECTION: Final = """
INSERT INTO amends_bank.correction (stream_id, last_sequence, original_sequence, correction_id,
    reason)
SELECT stream_id, %s, sequence, %s, %s FROM amends_bank.journal
WHERE stream_id = %s AND journal_id = %s
"""
COUNT: Final = """
UPDATE amends_bank.stream SET last_sequence = %s, recorded_at = %s WHERE id = %s
"""
INSERT_RECEIPTS: Final = """
INSERT INTO amends_bank.receipt (stream_id, last_sequence, available_at, digest)
SELECT %s, * FROM unnest(%s::int8[], %s::text[], %s::bytea[])
"""
STAMP: Final = """
UPDATE amends_bank.stream SET stamped_sequence = %s, available_at = %s, digest = %s WHERE id = %s
"""
INSERT_HEAD: Final = """
INSERT INTO amends_bank.head (stream_id, head_sequence, observed_at, receipt_ref, digest)
VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING
"""
OBSERVE: Final = """
UPDATE amends_bank.stream SET observed_at = %s
WHERE id = %s AND (observed_at IS NULL OR observed_at < %s)
"""


class PostgresLockedStream:
    """A `LockedStream` within a transaction."""

    def __init__(self, transaction: Transaction, names: Names, standing: Standing) -> None:
        self._transaction = transaction
        self._names = names
        self._id = names.stream_id
        self.standing = standing
        self._written: list[tuple[str, tuple[object, ...]]] = []

    def facts(self, asked: Asked) -> Facts:
        """Look up what is asked, in one exchange with the server."""
        here, journals, names = self._id, list(asked.journals), self._names
        operations = list(asked.business_operations)
        keys = (here, journals, here, operations, here, asked.correction, here, journals, here)
        unknown = [each for each in asked.accounts if each not in names.accounts]
        with self._transaction.connection.pipeline():
            accounts = self._execute(bank_rows.SOME_ACCOUNTS, here, unknown) if unknown else ()
            groups = self._execute(SELECT_ASKED, *keys)
            clocks = self._execute(CLOCKS)
        names.learn(accounts)
        found = self._groups(groups)
        ((first, second),) = clocks
        moved = {
            leg.account_id
            for group in found
            for journal in group.journals
            for leg in journal.command.legs
        }
        return Facts(names.known(moved.union(asked.accounts)), found, (first, second))

    def unstamped(self) -> tuple[Sequence[Group], str]:
        """Committed groups without a receipt, and the clock."""
        with self._transaction.connection.pipeline():
            groups = self._execute(SELECT_UNSTAMPED, self._id, self.standing.stamped_sequence)
            clocks = self._execute(CLOCKS)
        ((_, clock),) = clocks
        return self._groups(groups), clock

    def heads(self) -> Sequence[KnownHead]:
        """All heads that are kept."""
        return [KnownHead(*row) for row in self._execute(bank_rows.ALL_HEADS, self._id)]

    # What is written goes to the server with the commit, in one exchange.

    def append(self, group: Group) -> None:
        """Add the group that comes next."""
        last = group.journals[-1]
        end, start = int(last.sequence), int(group.journals[0].sequence)
        before = self.standing.last_sequence
        self._write(INSERT_GROUP, self._id, end, start, before, group.group_id)
        for journal in group.journals:
            row = bank_rows.journal_row(group, journal, self._names)
            self._write(INSERT_JOURNAL, self._id, *row)
        link = group.correction
        if link is not None:
            of_link = (link.correction_id, bank_rows.escaped(link.reason))
            self._write(INSERT_CORRECTION, end, *of_link, self._id, link.original_journal_id)
        self._write(COUNT, end, last.recorded_at, self._id)

    def stamp(self, receipts: Sequence[Receipt]) -> None:
        """Give receipts to the groups that come next."""
        columns = [list(column) for column in zip(*receipts, strict=True)]
        self._write(INSERT_RECEIPTS, self._id, *columns)
        self._write(STAMP, *receipts[-1], self._id)

    def remember(self, head: KnownHead) -> None:
        """Keep a head; every later receipt is after its observation."""
        self._write(INSERT_HEAD, self._id, *head)
        self._write(OBSERVE, head.observed_at, self._id, head.observed_at)

    def commit(self) -> None:
        """Write, and commit where what goes wrong is still told apart."""
        with self._transaction.connection.pipeline():
            for statement, parameters in self._written:
                self._execute(statement, *parameters)
            self._transaction.commit()
        self._transaction.confirm()

    def _write(self, statement: str, *parameters: object) -> None:
        self._written.append((statement, parameters))

    def _execute(self, statement: str, *parameters: object) -> Cursor:
        return self._transaction.execute(statement, parameters)

    def _groups(self, rows: Cursor) -> list[Group]:
        connection = self._transaction.connection
        return [group for group, _ in bank_rows.groups_of(rows, self._names, connection)]
