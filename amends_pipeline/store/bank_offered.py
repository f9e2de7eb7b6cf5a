"""What is remembered of streams that are kept elsewhere, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from amends_pipeline.bank.heads import KnownHead, Stream
from amends_pipeline.store import bank_refusals
from amends_pipeline.store.postgres import Transaction

# An update that changes nothing, so that the row is locked and comes back, whoever made it.
LOCK_OFFERED: Final = """
INSERT INTO amends_bank.offered_stream AS s (name, ledger_id, entity_id) VALUES (%s, %s, %s)
ON CONFLICT (name) DO UPDATE SET name = s.name RETURNING xmax = 0, id, name, ledger_id, entity_id
"""
SELECT_OFFERED: Final = """
SELECT head_sequence::text, observed_at, receipt_ref, digest FROM amends_bank.offered_head
WHERE stream_id = %s ORDER BY head_sequence, observed_at
"""
DELETE_OFFERED: Final = "DELETE FROM amends_bank.offered_stream WHERE id = %s"
INSERT_OFFERED: Final = """
INSERT INTO amends_bank.offered_head (stream_id, head_sequence, observed_at, receipt_ref, digest)
VALUES (%s, %s::text::numeric, %s, %s, %s) ON CONFLICT DO NOTHING
"""


class PostgresOfferedStream:
    """An `OfferedStream` within a transaction that began with LOCK_OFFERED."""

    def __init__(self, transaction: Transaction, stream: Stream) -> None:
        self._transaction = transaction
        ((self._made, self._id, *there),) = transaction.first
        self._remembered = False
        bank_refusals.check_stream(Stream(*there), stream)

    def heads(self) -> Sequence[KnownHead]:
        """All accepted heads."""
        rows = self._transaction.execute(SELECT_OFFERED, (self._id,))
        return [KnownHead(int(sequence), *rest) for sequence, *rest in rows]

    def remember(self, head: KnownHead) -> None:
        """Keep a head."""
        row = (self._id, str(head.head_sequence), *head[1:])
        self._transaction.execute(INSERT_OFFERED, row)
        self._remembered = True

    def end(self) -> None:
        """Leave nothing of a stream of which nothing is remembered."""
        if self._made and not self._remembered:
            self._transaction.execute(DELETE_OFFERED, (self._id,))
