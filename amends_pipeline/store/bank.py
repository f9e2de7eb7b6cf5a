"""The live journal of the bank ledger in PostgreSQL, schema `amends_bank`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from psycopg.errors import DeadlockDetected, SerializationFailure

from amends_pipeline.bank.heads import KnownHead, Stream, empty_digest
from amends_pipeline.bank.receipts import Standing
from amends_pipeline.bank.values import Account, Group
from amends_pipeline.kernel.errors import Contended
from amends_pipeline.ports.bank import CheckpointSet, KeptSet
from amends_pipeline.store import bank_refusals, bank_rows
from amends_pipeline.store.bank_locked import LOCK_STREAM, PostgresLockedStream
from amends_pipeline.store.bank_offered import LOCK_OFFERED, PostgresOfferedStream
from amends_pipeline.store.bank_rows import STANDING, Known, Names
from amends_pipeline.store.postgres import Connection, Database

GROUPS_AT_ONCE: Final = 2_000
"""Journals that a server-side cursor sends at a time."""

INSERT_STREAM: Final = """
INSERT INTO amends_bank.stream (name, ledger_id, entity_id, digest) VALUES (%s, %s, %s, %s)
ON CONFLICT (name) DO NOTHING RETURNING id
"""
INSERT_ACCOUNTS: Final = """
INSERT INTO amends_bank.account (stream_id, account_id, currency, account_type)
SELECT %s, * FROM unnest(%s::text[], %s::text[], %s::text[])
ON CONFLICT (stream_id, account_id) DO NOTHING
"""
SELECT_STREAMS: Final = f"""
SELECT {STANDING} FROM amends_bank.stream s ORDER BY s.name
"""  # noqa: S608 - columns of a constant
SELECT_STREAM: Final = f"""
SELECT {STANDING} FROM amends_bank.stream s WHERE s.name = %s
"""  # noqa: S608 - columns of a constant
SELECT_GROUPS: Final = (
    bank_rows.JOURNALS
    + """AND j.sequence BETWEEN %s AND %s AND j.group_sequence <= %s AND r.digest IS NOT NULL
ORDER BY j.sequence"""
)

KEEP_SET: Final = """
INSERT INTO amends_bank.checkpoint_set (stream_id, through_sequence, effective_cutoff,
    provenance_ref) VALUES (%s, %s, %s, %s)
ON CONFLICT (stream_id, through_sequence, effective_cutoff, provenance_ref)
DO UPDATE SET provenance_ref = excluded.provenance_ref RETURNING id
"""
KEEP_BALANCES: Final = """
INSERT INTO amends_bank.checkpoint (set_id, account_id, raw_balance)
SELECT %s, a.id, b.raw::numeric FROM unnest(%s::text[], %s::text[]) b (account_id, raw)
JOIN amends_bank.account a ON a.stream_id = %s AND a.account_id = b.account_id
ON CONFLICT (set_id, account_id) DO UPDATE SET raw_balance = excluded.raw_balance
"""
SELECT_SETS: Final = """
SELECT through_sequence, effective_cutoff, provenance_ref,
    (SELECT count(*) FROM amends_bank.checkpoint c WHERE c.set_id = s.id)
FROM amends_bank.checkpoint_set s
WHERE stream_id = %s ORDER BY through_sequence, effective_cutoff, provenance_ref
"""
SELECT_BALANCES: Final = """
SELECT a.account_id, c.raw_balance::text FROM amends_bank.checkpoint_set s
JOIN amends_bank.checkpoint c ON c.set_id = s.id
JOIN amends_bank.account a ON a.id = c.account_id
WHERE s.stream_id = %s AND s.through_sequence = %s AND s.effective_cutoff = %s
    AND s.provenance_ref = %s ORDER BY a.account_id
"""


class PostgresBank:
    """A `BankJournal` in schema `amends_bank`. Safe to use from several threads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known = Known()

    # Streams

    def open(self, stream: Stream, accounts: Sequence[Account]) -> bool:
        """Make the stream, or add accounts to the one that is there."""
        row = (*stream, empty_digest(stream))
        with self._database.write(INSERT_STREAM, row) as transaction:
            made = bool(transaction.first)
            locked = transaction.execute(LOCK_STREAM, (stream.stream_id,)).fetchone()
            if locked is None:
                raise bank_refusals.unknown_stream(stream.stream_id)
            names, standing = self._named(locked)
            bank_refusals.check_stream(standing.stream, stream)
            added = [(each.account_id, each.currency, each.account_type) for each in accounts]
            columns = [list(column) for column in zip(*added, strict=True)] or [[], [], []]
            transaction.execute(INSERT_ACCOUNTS, (names.stream_id, *columns))
            asked = (names.stream_id, columns[0])
            there = Names(names.stream_id, stream)  # known here only, until it is committed
            there.learn(transaction.execute(bank_rows.SOME_ACCOUNTS, asked))
            bank_refusals.check_accounts(there.known(columns[0]), accounts)
        return made

    def streams(self) -> Sequence[Standing]:
        """Where all streams stand, by name."""
        with self._database.read() as connection:
            rows = connection.execute(SELECT_STREAMS, binary=True)
            return [bank_rows.standing_of(row[1:]) for row in rows]

    def standing(self, stream_id: str) -> Standing:
        """Where one stream stands."""
        with self._database.read() as connection:
            return self._find(connection, stream_id)[1]

    @contextmanager
    def locked(self, stream_id: str) -> Iterator[PostgresLockedStream]:
        """Hold the lock of a stream for a block, from the first look at it."""
        with self._database.write_at_once() as transaction:
            stream = PostgresLockedStream(transaction, self._known, stream_id)
            try:
                yield stream
                stream.commit()
            except (DeadlockDetected, SerializationFailure) as error:
                found = error.diag.message_primary or type(error).__name__
                expected = "a transaction of its own"
                raise Contended(f"stream {stream_id}", expected=expected, found=found) from None

    @contextmanager
    def snapshot(self, stream_id: str) -> Iterator[PostgresBankSnapshot]:
        """Look at a stream as it is when the block is entered."""
        with self._database.snapshot() as connection:
            yield PostgresBankSnapshot(connection, *self._find(connection, stream_id))

    @contextmanager
    def offering(self, stream: Stream) -> Iterator[PostgresOfferedStream]:
        """Hold the memory of a stream that is kept elsewhere for a block."""
        with self._database.write(LOCK_OFFERED, stream) as transaction:
            offered = PostgresOfferedStream(transaction, stream)
            yield offered
            offered.end()

    # Checkpoints

    def keep_checkpoints(self, stream_id: str, checkpoints: CheckpointSet) -> None:
        """Register balances."""
        through, cutoff, provenance, balances = checkpoints
        with self._database.write(SELECT_STREAM, (stream_id,)) as transaction:
            if not transaction.first:
                raise bank_refusals.unknown_stream(stream_id)
            here = int(transaction.first[0][0])
            made = transaction.made(KEEP_SET, here, through, cutoff, provenance)
            # In one order, so that two who register the same never wait for each other.
            accounts = sorted(balances)
            raw = [str(balances[each]) for each in accounts]
            kept = transaction.execute(KEEP_BALANCES, (made, accounts, raw, here)).rowcount
            bank_refusals.check_kept(stream_id, expected=len(accounts), found=kept)

    def checkpoints(self, stream_id: str) -> Sequence[KeptSet]:
        """All registered sets."""
        with self._database.snapshot() as connection:
            names, _ = self._find(connection, stream_id)
            rows = connection.execute(SELECT_SETS, (names.stream_id,), binary=True)
            return [KeptSet(*row) for row in rows]

    def checkpoint_set(self, stream_id: str, kept: KeptSet) -> CheckpointSet:
        """The balances of a registered set."""
        key = kept[:3]
        with self._database.snapshot() as connection:
            names, _ = self._find(connection, stream_id)
            rows = connection.execute(SELECT_BALANCES, (names.stream_id, *key), binary=True)
            return CheckpointSet(*key, {account_id: int(raw) for account_id, raw in rows})

    def _find(self, connection: Connection, stream_id: str) -> tuple[Names, Standing]:
        row = connection.execute(SELECT_STREAM, (stream_id,), binary=True).fetchone()
        if row is None:
            raise bank_refusals.unknown_stream(stream_id)
        return self._named(row)

    def _named(self, row: bank_rows.Row) -> tuple[Names, Standing]:
        standing = self._known.learn(row)
        return self._known.of(standing.stream), standing


class PostgresBankSnapshot:
    """A `BankSnapshot` over a connection whose transaction has one view of the database."""

    def __init__(self, connection: Connection, names: Names, standing: Standing) -> None:
        self._connection = connection
        self._names = names
        self._cursors = 0
        self.standing = standing

    def accounts(self) -> Sequence[Account]:
        """All of them by id."""
        return self._names.load(self._connection)

    def heads(self) -> Sequence[KnownHead]:
        """All of them by sequence and observation."""
        rows = self._connection.execute(bank_rows.ALL_HEADS, (self._names.stream_id,), binary=True)
        return [KnownHead(*row) for row in rows]

    def last_head(self) -> KnownHead | None:
        """The last of them."""
        parameters = (self._names.stream_id,)
        row = self._connection.execute(bank_rows.LAST_HEAD, parameters, binary=True).fetchone()
        return None if row is None else KnownHead(*row)

    def groups(self, through: int, first: int = 1) -> Iterator[tuple[Group, bytes]]:
        """Groups with receipts in order, as a server-side cursor hands them over."""
        self.accounts()
        self._cursors += 1
        with self._connection.cursor(f"groups_{self._cursors}", binary=True) as cursor:
            cursor.itersize = GROUPS_AT_ONCE
            cursor.execute(SELECT_GROUPS, (self._names.stream_id, first, through, through))
            yield from bank_rows.groups_of(cursor, self._names, self._connection)
