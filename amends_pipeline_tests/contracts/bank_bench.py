"""Live journals under test, in words of a bank: who pays whom, and what the clock says."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

import msgspec
import psycopg

from amends_pipeline.bank.fold import fold_balance
from amends_pipeline.bank.heads import Stream
from amends_pipeline.bank.posting import Booking
from amends_pipeline.flows.bank_correct import correct
from amends_pipeline.flows.bank_export import Files, export
from amends_pipeline.flows.bank_open import open_stream
from amends_pipeline.flows.bank_post import post
from amends_pipeline.store.bank import PostgresBank
from amends_pipeline.store.memory_bank import BankTables, MemoryBank
from amends_pipeline.store.postgres import Database
from amends_pipeline_tests.store.postgres_ledger import empty

STREAM = Stream("CB-MAIN", "CB-GENERAL", "CB-A")
TYPES = {
    "CASH": "asset",
    "COSTS": "expense",
    "ADA": "liability",
    "BEN": "liability",
    "CORA": "liability",
    "FEES": "revenue",
}
DEBIT_SIDED = {"asset", "expense"}
EFFECTIVE = "2025-10-01T09:00:00.000Z"
NOON = "2025-10-20T12:00:00.000Z"


def account(account_id, kind, currency="USD", stream=STREAM):
    return {
        "account_id": account_id,
        "ledger_id": stream.ledger_id,
        "entity_id": stream.entity_id,
        "currency": currency,
        "account_type": kind,
        "normal_side": "debit" if kind in DEBIT_SIDED else "credit",
    }


ACCOUNTS = [account(name, kind) for name, kind in TYPES.items()] + [
    account("KASSE", "asset", "EUR"),
    account("DORA", "liability", "EUR"),
]


def command(name, legs="CASH ADA 100", /, **changes):
    """A journal command `J-name` of business operation `B-name`.

    legs: "DEBITED CREDITED AMOUNT", or several of them separated by commas.
    """
    moved = []
    for each in legs.split(","):
        debited, credited, amount = each.split()
        moved += [
            {"account_id": debited, "side": "debit", "amount_minor": amount},
            {"account_id": credited, "side": "credit", "amount_minor": amount},
        ]
    return {
        "schema_version": "d30-journal-v1",
        "ledger_id": STREAM.ledger_id,
        "entity_id": STREAM.entity_id,
        "journal_id": f"J-{name}",
        "business_operation_id": f"B-{name}",
        "currency": "USD",
        "effective_at": EFFECTIVE,
        "source_available_at": EFFECTIVE,
        "booking_period": "2025-10",
        "legs": moved,
    } | changes


def link(name, original, **changes):
    return {
        "correction_id": f"C-{name}",
        "original_journal_id": f"J-{original}",
        "reversal_journal_id": f"J-{name}-undo",
        "replacement_journal_id": f"J-{name}",
        "reason": "wrong payee",
    } | changes


def plain(value):
    return msgspec.json.decode(msgspec.json.encode(value))


class Exported:
    """The files of one export, as their readers see them."""

    def __init__(self, journal, stream_id=STREAM.stream_id, suffix=".json", **options):
        with TemporaryDirectory() as folder:
            files = Files(
                Path(folder, f"groups{suffix}"), Path(folder, "a.json"), Path(folder, "c.json")
            )
            self.told = []
            self.done = export(journal, stream_id, files, on_groups=self.told.append, **options)
            self.names = sorted(path.name for path in Path(folder).iterdir())
            self.raw = files.groups.read_bytes()
            self.accounts = msgspec.json.decode(files.accounts.read_bytes())
            self.context = msgspec.json.decode(files.context.read_bytes())
        lines = self.raw.splitlines() if suffix == ".jsonl" else [self.raw]
        read = [msgspec.json.decode(line) for line in lines]
        self.groups = read if suffix == ".jsonl" else read[0]
        self.head = self.context["head"]

    def fold(self, account_id="ADA", knowledge=None, effective=None, currency="USD", **options):
        """The whole answer about an account."""
        query = {
            "schema_version": "d30-balance-fold-v1",
            "ledger_id": self.head["ledger_id"],
            "entity_id": self.head["entity_id"],
            "account_id": account_id,
            "currency": currency,
            "effective_cutoff": effective or "9999-12-31T23:59:59.999Z",
            "knowledge_cutoff": knowledge or self.head["observed_at"],
            "checkpoint": None,
        } | options
        return fold_balance(query, self.groups, self.accounts, self.context)

    def balance(self, *arguments, **options):
        """The normal balance of an account; fails where the export is not valid."""
        answer = self.fold(*arguments, **options)
        assert answer["status"] == "ok", answer["code"]
        return int(answer["balance"]["normal_balance_minor"])

    @property
    def receipts(self):
        return [group["available_at"] for group in self.groups]

    @property
    def recordings(self):
        return [each["recorded_at"] for group in self.groups for each in group["journals"]]


class BankBench:
    """A journal with one stream open, and a clock that the test sets."""

    stream_id = STREAM.stream_id

    def open(self, stream=STREAM, accounts=None):
        return open_stream(self.journal, stream, ACCOUNTS if accounts is None else accounts)

    def post(self, *arguments, reason="", **changes):
        return post(self.journal, self.stream_id, command(*arguments, **changes), reason)

    def posted(self, *arguments, **options):
        booking = self.post(*arguments, **options)
        assert isinstance(booking, Booking), str(booking)
        return booking

    def correct(self, name, original, legs="CASH BEN 90", late="", operation=None, **changes):
        """Replace J-original; changes of the link are those with a member of it."""
        of_link = link(name, original)
        for member in changes.keys() & of_link.keys():
            of_link[member] = changes.pop(member)
        return correct(
            self.journal,
            self.stream_id,
            of_link,
            command(name, legs, **changes),
            reversal_business_operation_id=operation or f"B-{name}-undo",
            adjustment_reason=late,
        )

    def corrected(self, *arguments, **options):
        booking = self.correct(*arguments, **options)
        assert isinstance(booking, Booking), str(booking)
        return booking

    def export(self, **options):
        return Exported(self.journal, self.stream_id, **options)

    def everything(self):
        """All that is kept of the stream."""
        with self.journal.snapshot(self.stream_id) as snapshot:
            groups = list(snapshot.groups(10**9))
            return snapshot.standing, snapshot.accounts(), snapshot.heads(), groups


class Ticking:
    """A clock that moves on by a step with each look at it."""

    def __init__(self):
        self.set(NOON)
        self._lock = Lock()

    def set(self, text, step_ms=0):
        self._now, self._step = datetime.fromisoformat(text), timedelta(milliseconds=step_ms)

    def __call__(self):
        with self._lock:
            now, self._now = self._now, self._now + self._step
        return now.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


class MemoryBankBench(BankBench):
    def __init__(self, tables=None):
        self.clock = tables.clock if tables else Ticking()
        self.tables = tables or BankTables(self.clock)
        self.journal = MemoryBank(self.tables)

    def set_clock(self, text, step_ms=0):
        self.clock.set(text, step_ms)

    def reopened(self):
        """The same journal as another process finds it."""
        return MemoryBankBench(self.tables)

    def close(self):
        pass


CLOCK = """
CREATE SEQUENCE IF NOT EXISTS amends_bank.tick MINVALUE 0;
SELECT setval('amends_bank.tick', 0, false);
CREATE OR REPLACE FUNCTION amends_bank.clock() RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT to_char(timestamp '{}' + nextval('amends_bank.tick') * interval '{} ms',
        'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;
"""
DEFINITION = "SELECT pg_get_functiondef('amends_bank.clock'::regproc)"


class TableBankBench(BankBench):
    def __init__(self, url):
        self.url = url
        self.database = Database(url)
        self.journal = PostgresBank(self.database)
        self._others = []
        ((self._clock,),) = self.sql(DEFINITION)

    def sql(self, statement, *parameters):
        """Run a statement as a person would, with psql."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement, parameters or None)
            return cursor.fetchall() if cursor.description else []

    def set_clock(self, text, step_ms=0):
        self.sql(CLOCK.format(text.removesuffix("Z"), step_ms))

    def real_clock(self):
        self.sql(self._clock)

    def reopened(self):
        """The same journal as another process finds it."""
        other = TableBankBench(self.url)
        self._others.append(other)
        return other

    def close(self):
        for each in (self, *self._others):
            each.database.close()

    def clean(self):
        self.real_clock()
        self.sql("DROP SEQUENCE IF EXISTS amends_bank.tick")
        self.close()
        empty(self.url, "amends_bank")
