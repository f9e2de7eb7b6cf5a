"""Every account's balance the slow way: from the raw export, in another engine.

The oracle reads committed groups and accounts as they are written, and nothing else. It shares no
line with the fold that it judges: DuckDB reads the JSON, opens the groups to legs, and adds. It
does not validate a history (whether one may be believed is for the fold and the head to say), but
where it could only guess, at a leg without an amount or an account that nobody listed, it has no
answer.

How numbers stay exact: amounts are read as text, looked at digit by digit, and cast to DuckDB's
128-bit integers, whose sums raise where they leave 128 bits. Rows leave the engine one by one as
Python integers, because as columns 128-bit integers are floats. One leg has at most 30 digits, so
that 170 million of the largest fit.

How times stay exact: they are compared as text. The grammar gives each part a fixed width, largest
first, one zone and three fraction digits; such texts sort by their bytes as their instants sort in
time. No column has a time type, so that no session zone and no rounding decides a cutoff.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import duckdb
import numpy as np

from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import OperationError

_CHUNK = 16_384  # groups given as bytes that go into the engine together

_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    # Nothing outside the process is written, and nothing but the export is read.
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
    "temp_directory": "",
    # Rows may go in as each thread has them; every answer is put in order.
    "preserve_insertion_order": False,
}
_CLOSE_OFF = "SET enable_external_access = false"

_TABLES = """
CREATE TABLE accounts (
    ledger_id VARCHAR, entity_id VARCHAR, account_id VARCHAR, currency VARCHAR,
    account_type VARCHAR, normal_side VARCHAR
);
CREATE TABLE legs (
    group_id VARCHAR, ledger_id VARCHAR, entity_id VARCHAR, available_at VARCHAR, sequence VARCHAR,
    command_ledger_id VARCHAR, command_entity_id VARCHAR, currency VARCHAR, effective_at VARCHAR,
    account_id VARCHAR, side VARCHAR, amount_minor VARCHAR
)
"""

# What is read of a group, as the reader of files and the reader of single values want it said.
_COLUMNS = {
    "group_id": "VARCHAR",
    "ledger_id": "VARCHAR",
    "entity_id": "VARCHAR",
    "available_at": "VARCHAR",
    "journals": "STRUCT(sequence VARCHAR, command STRUCT(ledger_id VARCHAR, entity_id VARCHAR,"
    " currency VARCHAR, effective_at VARCHAR,"
    " legs STRUCT(account_id VARCHAR, side VARCHAR, amount_minor VARCHAR)[]))[]",
}
_STRUCTURE = (
    '{"group_id":"VARCHAR","ledger_id":"VARCHAR","entity_id":"VARCHAR","available_at":"VARCHAR",'
    '"journals":[{"sequence":"VARCHAR","command":{"ledger_id":"VARCHAR","entity_id":"VARCHAR",'
    '"currency":"VARCHAR","effective_at":"VARCHAR",'
    '"legs":[{"account_id":"VARCHAR","side":"VARCHAR","amount_minor":"VARCHAR"}]}}]}'
)
_FROM_FILE = """
read_json(
    $path, format = $format, columns = $columns, records = true,
    compression = 'none', hive_partitioning = false
)
"""
_FROM_VALUES = "(SELECT unnest(json_transform_strict(written, $structure)) FROM chunk)"

# An empty list would vanish when it is opened. One missing element stays, and is refused below.
_OPEN = """
INSERT INTO legs
WITH journals AS (
    SELECT group_id, ledger_id, entity_id, available_at,
        unnest(coalesce(nullif(journals, []), [NULL])) AS journal
    FROM {groups}
), opened AS (
    SELECT group_id, ledger_id, entity_id, available_at, journal.sequence,
        journal.command.ledger_id AS command_ledger_id,
        journal.command.entity_id AS command_entity_id,
        journal.command.currency, journal.command.effective_at,
        unnest(coalesce(nullif(journal.command.legs, []), [NULL])) AS leg
    FROM journals
)
SELECT * EXCLUDE leg, leg.account_id, leg.side, leg.amount_minor FROM opened
"""

# Casts alone would take "1e3", " 12 " and "1_000", and round "1.6".
_UNREADABLE = r"""
SELECT group_id, sequence, account_id, amount_minor, side, available_at, effective_at
FROM legs
WHERE NOT coalesce(
    regexp_full_match(sequence, '[1-9][0-9]{0,29}')
    AND regexp_full_match(amount_minor, '[1-9][0-9]{0,29}')
    AND side IN ('debit', 'credit')
    AND regexp_full_match(available_at, $timestamp)
    AND regexp_full_match(effective_at, $timestamp),
    false
)
ORDER BY ALL LIMIT 1
"""
_TIMESTAMP = r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z"
_ELSEWHERE = """
SELECT group_id, sequence, ledger_id, entity_id, command_ledger_id, command_entity_id
FROM legs
WHERE (ledger_id, entity_id, command_ledger_id, command_entity_id)
    IS DISTINCT FROM ($ledger_id, $entity_id, $ledger_id, $entity_id)
ORDER BY ALL LIMIT 1
"""
_UNLISTED = """
SELECT group_id, sequence, account_id, currency
FROM legs ANTI JOIN accounts USING (account_id, currency)
ORDER BY ALL LIMIT 1
"""
_IN_SCOPE = "DELETE FROM accounts WHERE (ledger_id, entity_id) <> ($ledger_id, $entity_id)"
_TWICE = "SELECT account_id FROM accounts GROUP BY account_id HAVING count(*) > 1 ORDER BY ALL"
_CONTRARY = """
SELECT account_id, account_type, normal_side FROM accounts
WHERE normal_side IS DISTINCT FROM CASE
    WHEN account_type IN ('asset', 'expense') THEN 'debit'
    WHEN account_type IN ('liability', 'equity', 'revenue') THEN 'credit'
END
ORDER BY ALL LIMIT 1
"""

_VISIBLE = """
CREATE TEMP VIEW visible AS
SELECT account_id, currency, side, amount_minor::HUGEINT AS amount
FROM legs
WHERE available_at <= getvariable('known') AND effective_at <= getvariable('effective')
"""
_BALANCES = """
WITH sums AS (
    SELECT account_id, count(*) AS contributions,
        sum(CASE side WHEN 'debit' THEN amount ELSE -amount END) AS raw
    FROM visible GROUP BY account_id
)
SELECT account_id, currency, normal_side, coalesce(raw, 0::HUGEINT) AS raw,
    CASE normal_side WHEN 'debit' THEN 1 ELSE -1 END * coalesce(raw, 0::HUGEINT),
    coalesce(contributions, 0)
FROM accounts LEFT JOIN sums USING (account_id)
ORDER BY account_id
"""
_TRIAL_BALANCE = """
SELECT currency,
    coalesce(sum(amount) FILTER (side = 'debit'), 0::HUGEINT),
    coalesce(sum(amount) FILTER (side = 'credit'), 0::HUGEINT)
FROM (SELECT DISTINCT currency FROM accounts) LEFT JOIN visible USING (currency)
GROUP BY currency ORDER BY currency
"""
_EXTENT = """
SELECT count(DISTINCT sequence), coalesce(max(sequence::HUGEINT), 0::HUGEINT),
    coalesce(max(sequence::HUGEINT) FILTER (available_at <= getvariable('known')), 0::HUGEINT)
FROM legs
"""


class OracleError(OperationError):
    """The oracle has no answer for this export."""


class Question(NamedTuple):
    """Whose balances, and when. Cutoffs are inclusive, written as in the export."""

    ledger_id: str
    entity_id: str
    effective_cutoff: str
    knowledge_cutoff: str


class AccountBalance(NamedTuple):
    """What one account holds, in minor units."""

    account_id: str
    currency: str
    normal_side: str
    raw_balance_minor: int
    """Debits less credits."""
    normal_balance_minor: int
    """The same, with the sign turned for a credit-normal account."""
    contribution_count: int
    """How many legs are visible."""


class CurrencyTotal(NamedTuple):
    """All visible legs of one currency, in minor units."""

    currency: str
    debits_minor: int
    credits_minor: int

    @property
    def difference_minor(self) -> int:
        """Debits less credits; zero for any history that may be believed."""
        return self.debits_minor - self.credits_minor


@dataclass(frozen=True, slots=True)
class OracleResult:
    """What is true of an export at two cutoffs."""

    question: Question
    balances: tuple[AccountBalance, ...]
    """Of every listed account of the ledger and entity, by the bytes of their ids."""
    trial_balance: tuple[CurrencyTotal, ...]
    """Of every currency that these accounts have, in order."""
    journal_count: int
    """How many different sequences the export holds, visible or not."""
    through_sequence: int
    """The highest of them, 0 where there is none."""
    visible_through_sequence: int
    """The highest known at the knowledge cutoff, whatever its effective time."""


def compute(
    export: Path | Iterable[bytes],
    accounts: Iterable[Mapping[str, object]],
    question: Question,
) -> OracleResult:
    """Compute the balance of every account at the question's cutoffs.

    `export` is the path of a file (one group a line where its name ends in `.jsonl`, otherwise one
    array of groups) or the groups themselves, one JSON text each. `accounts` are the listed
    accounts as read from JSON; those of another ledger or entity are left out.

    Raises `OracleError` when the export cannot be read or its legs leave room for a guess, when a
    sum does not fit 128 bits, or when the engine gives up. What reading `export` raises passes.
    """
    try:
        with duckdb.connect(config=_SETTINGS) as engine:
            _load_accounts(engine, accounts, question)
            _load_groups(engine, export)
            _refuse_guesses(engine, question)
            return _result(engine, question)
    except duckdb.OutOfRangeException as error:
        found = shown(str(error))
        raise OracleError("oracle", expected="sums that fit 128 bits", found=found) from error
    except duckdb.Error as error:
        raise OracleError("oracle", expected="an answer", found=shown(str(error))) from error


def _load_accounts(
    engine: duckdb.DuckDBPyConnection, accounts: Iterable[Mapping[str, object]], question: Question
) -> None:
    engine.execute(_TABLES)
    columns: dict[str, list[str]] = {
        name: []
        for name in (
            "ledger_id",
            "entity_id",
            "account_id",
            "currency",
            "account_type",
            "normal_side",
        )
    }
    for position, account in enumerate(accounts):
        for name, column in columns.items():
            value = account.get(name)
            if not isinstance(value, str):
                where = f"oracle, accounts[{position}].{name}"
                raise OracleError(where, expected="text", found=shown(value))
            column.append(value)
    engine.register("chunk", {name: _texts(column) for name, column in columns.items()})
    engine.execute("INSERT INTO accounts BY NAME SELECT * FROM chunk")
    engine.unregister("chunk")
    scope = {"ledger_id": question.ledger_id, "entity_id": question.entity_id}
    engine.execute(_IN_SCOPE, scope)


def _load_groups(engine: duckdb.DuckDBPyConnection, export: Path | Iterable[bytes]) -> None:
    if isinstance(export, Path):
        form = "newline_delimited" if export.name.endswith(".jsonl") else "array"
        parameters = {"path": _verbatim(export), "format": form, "columns": _COLUMNS}
        engine.execute(_OPEN.format(groups=_FROM_FILE), parameters)
        return
    groups = iter(export)
    while written := [_decoded(raw) for raw in islice(groups, _CHUNK)]:
        engine.register("chunk", {"written": _texts(written)})
        engine.execute(_OPEN.format(groups=_FROM_VALUES), {"structure": _STRUCTURE})
        engine.unregister("chunk")


def _verbatim(path: Path) -> str:
    """Name one file, whatever its name holds: the engine reads patterns."""
    return re.sub(r"[*?\[]", r"[\g<0>]", str(path.absolute()))


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        found = f"byte 0x{raw[error.start]:02x} at {error.start} of a group"
        raise OracleError("oracle", expected="UTF-8", found=found) from None


def _texts(values: list[str]) -> np.typing.NDArray[np.object_]:
    return np.fromiter(values, np.object_, len(values))


def _refuse_guesses(engine: duckdb.DuckDBPyConnection, question: Question) -> None:
    """Refuse what a sum would silently read otherwise, or leave out."""
    scope = {"ledger_id": question.ledger_id, "entity_id": question.entity_id}
    timestamp = {"timestamp": _TIMESTAMP}
    for statement, parameters, expected in (
        (_UNREADABLE, timestamp, "legs whose members are whole and well written"),
        (_ELSEWHERE, scope, "groups and commands of the question's ledger and entity"),
        (_TWICE, {}, "each account once"),
        (_CONTRARY, {}, "a normal side that follows from the account's type"),
        (_UNLISTED, {}, "legs of listed accounts, in their currency"),
    ):
        row = engine.execute(statement, parameters).fetchone()
        if row is not None:
            raise OracleError("oracle", expected=expected, found=shown(row))
    for name, cutoff in question._asdict().items():
        if name.endswith("_cutoff"):
            ((well_written,),) = engine.execute(
                "SELECT regexp_full_match($cutoff, $timestamp)", {"cutoff": cutoff, **timestamp}
            ).fetchall()
            if not well_written:
                where = f"oracle, {name}"
                raise OracleError(where, expected="a timestamp", found=shown(cutoff))


def _result(engine: duckdb.DuckDBPyConnection, question: Question) -> OracleResult:
    for name, cutoff in (
        ("known", question.knowledge_cutoff),
        ("effective", question.effective_cutoff),
    ):
        engine.execute(f"SET VARIABLE {name} = $cutoff", {"cutoff": cutoff})
    engine.execute(_VISIBLE)
    ((journals, through, visible_through),) = engine.execute(_EXTENT).fetchall()
    return OracleResult(
        question=question,
        balances=tuple(AccountBalance(*row) for row in engine.execute(_BALANCES).fetchall()),
        trial_balance=tuple(
            CurrencyTotal(*row) for row in engine.execute(_TRIAL_BALANCE).fetchall()
        ),
        journal_count=journals,
        through_sequence=through,
        visible_through_sequence=visible_through,
    )
