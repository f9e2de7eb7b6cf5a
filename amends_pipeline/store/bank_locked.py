"""A stream of the bank ledger under its lock, which is the lock of its row.

Posting, stamping, observing and adding accounts take this one lock first and no other one, so that
no two of them can wait for each other. What they read comes after it, each statement with a view of
its own: in READ COMMITTED that is everything that whoever held the lock before has committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from amends_pipeline.bank.heads import KnownHead
from amends_pipeline.bank.posting import Asked, Facts
from amends_pipeline.bank.receipts import Receipt, Standing
from amends_pipeline.bank.values import Group
from amends_pipeline.store import bank_refusals, bank_rows
from amends_pipeline.store.bank_rows import Known, Names
from amends_pipeline.store.postgres import Cursor, Transaction

Looked = TypeVar("Looked")

STAMPED_AT_ONCE: Final = 10_000
"""Journals that get their receipts in one transaction, at most."""

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
# A correction whose second half is cut off is left for the next time.
AFTER_STAMPED: Final = """AND j.sequence > (
    SELECT stamped_sequence FROM amends_bank.stream WHERE id = %s) ORDER BY j.sequence LIMIT %s
"""
SELECT_UNSTAMPED: Final = bank_rows.JOURNALS + AFTER_STAMPED
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
    """A `LockedStream` within a transaction whose statements travel together.

    The lock is taken with the first look at the stream. A round trip takes the lock and what is
    looked up under it, another one what is written and its commit: the lock is held for little
    longer than the commit takes.
    """

    def __init__(self, transaction: Transaction, known: Known, stream_id: str) -> None:
        self._transaction = transaction
        self._known = known
        self._stream_id = stream_id
        self._standing: Standing | None = None
        self._written: list[tuple[str, tuple[object, ...]]] = []

    @property
    def standing(self) -> Standing:
        """As it was when the lock was taken."""
        if self._standing is None:
            self._locked(self._execute(LOCK_STREAM, self._stream_id))
        assert self._standing is not None  # noqa: S101 - as `_locked` leaves it
        return self._standing

    def facts(self, asked: Asked) -> Facts:
        """Look up what is asked."""
        journals, operations = list(asked.journals), list(asked.business_operations)

        def look(names: Names) -> tuple[Iterable[bank_rows.Row], Cursor, Cursor]:
            here = names.stream_id
            keys = (here, journals, here, operations, here, asked.correction, here, journals, here)
            unknown = [each for each in asked.accounts if each not in names.accounts]
            accounts = self._execute(bank_rows.SOME_ACCOUNTS, here, unknown) if unknown else ()
            return accounts, self._execute(SELECT_ASKED, *keys), self._execute(CLOCKS)

        names, (accounts, groups, clocks) = self._looked(look)
        names.learn(accounts)
        found = self._groups(groups, names)
        ((first, second),) = clocks
        moved = {
            leg.account_id
            for group in found
            for journal in group.journals
            for leg in journal.command.legs
        }
        return Facts(names.known(moved.union(asked.accounts)), found, (first, second))

    def unstamped(self) -> tuple[Sequence[Group], str]:
        """Committed groups without a receipt, or the first of them, and the clock."""

        def look(names: Names) -> tuple[Cursor, Cursor]:
            here = names.stream_id
            return self._execute(SELECT_UNSTAMPED, here, here, STAMPED_AT_ONCE), self._execute(
                CLOCKS
            )

        names, (groups, clocks) = self._looked(look)
        ((_, clock),) = clocks
        return self._groups(groups, names), clock

    # What is written goes to the server with the commit, in one exchange.

    def append(self, group: Group) -> None:
        """Add the group that comes next."""
        last = group.journals[-1]
        end, start = int(last.sequence), int(group.journals[0].sequence)
        before, names = self.standing.last_sequence, self._names
        here = names.stream_id
        self._write(INSERT_GROUP, here, end, start, before, group.group_id)
        for journal in group.journals:
            self._write(INSERT_JOURNAL, here, *bank_rows.journal_row(group, journal, names))
        link = group.correction
        if link is not None:
            of_link = (link.correction_id, bank_rows.escaped(link.reason))
            self._write(INSERT_CORRECTION, end, *of_link, here, link.original_journal_id)
        self._write(COUNT, end, last.recorded_at, here)

    def stamp(self, receipts: Sequence[Receipt]) -> None:
        """Give receipts to the groups that come next."""
        columns = [list(column) for column in zip(*receipts, strict=True)]
        self._write(INSERT_RECEIPTS, self._names.stream_id, *columns)
        self._write(STAMP, *receipts[-1], self._names.stream_id)

    def remember(self, head: KnownHead) -> None:
        """Keep a head; every later receipt is after its observation."""
        self._write(INSERT_HEAD, self._names.stream_id, *head)
        self.told(head.observed_at)

    def told(self, observed_at: str) -> None:
        """Let every later receipt be after a moment."""
        self._write(OBSERVE, observed_at, self._names.stream_id, observed_at)

    def commit(self) -> None:
        """Write, and commit where what goes wrong is still told apart."""
        with self._transaction.connection.pipeline():
            for statement, parameters in self._written:
                self._execute(statement, *parameters)
            self._transaction.commit()
        self._transaction.confirm()

    def _write(self, statement: str, *parameters: object) -> None:
        self._written.append((statement, parameters))

    @property
    def _names(self) -> Names:
        """Of the locked stream."""
        return self._known.of(self.standing.stream)

    def _looked(self, look: Callable[[Names], Looked]) -> tuple[Names, Looked]:
        """Take the lock if need be, and look together with it where the stream's key is known."""
        guessed = self._known.get(self._stream_id)
        if self._standing is not None or guessed is None:
            return self._names, look(self._names)
        locking = self._execute(LOCK_STREAM, self._stream_id)
        looked = look(guessed)
        self._locked(locking)
        names = self._names
        return names, looked if names is guessed else look(names)

    def _locked(self, locking: Cursor) -> None:
        row = locking.fetchone()
        if row is None:
            raise bank_refusals.unknown_stream(self._stream_id)
        self._standing = self._known.learn(row)

    def _execute(self, statement: str, *parameters: object) -> Cursor:
        return self._transaction.execute(statement, parameters)

    def _groups(self, rows: Cursor, names: Names) -> list[Group]:
        connection = self._transaction.connection
        return [group for group, _ in bank_rows.groups_of(rows, names, connection)]
