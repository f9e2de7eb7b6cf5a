"""Seeded histories of a bank ledger, as files of an export and as a Beancount file.

One group in twenty corrects an earlier journal, one journal in two hundred is booked in a later
month with a reason, one in five hundred moves an amount beyond 64 bits (but within the 28 digits of
Beancount's arithmetic). One leg in ten is of one of a few busy accounts. Equal shapes give equal
bytes.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

START = datetime(2024, 1, 1, tzinfo=UTC)
YEAR_SECONDS = 365 * 86_400
CURRENCY = "EUR"
STREAM, LEDGER, ENTITY = "BENCH-1", "GENERAL", "BANK-1"
BUSY = 5
BUSY_PART = 0.1
CORRECTING = 0.05
EXPLAINED = 0.005
LARGE = 0.002
LEGS = (2,) * 16 + (3, 3, 4, 6)
FORMAT = 1
"""Counts the changes of this module that change bytes."""

KINDS = ("asset", "liability", "equity", "revenue", "expense")
ROOTS = ("Assets", "Liabilities", "Equity", "Income", "Expenses")
"""What Beancount calls them."""


class Shape(NamedTuple):
    """What a history is drawn from."""

    name: str
    groups: int
    accounts: int
    seed: int

    def scaled(self, factor: float) -> Shape:
        """Fewer groups of fewer accounts."""
        if factor == 1:
            return self
        return self._replace(
            groups=max(100, round(self.groups * factor)),
            accounts=max(20, round(self.accounts * factor)),
        )


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("ledger", groups=100_000, accounts=10_000, seed=11),
        Shape("reference", groups=4_096, accounts=1_000, seed=12),
        Shape("live", groups=5_000, accounts=1_000, seed=13),
    )
}


class Ledger(NamedTuple):
    """A history as files."""

    shape: Shape
    folder: Path
    """An export: `groups.jsonl`, `accounts.json`, `context.json`."""
    beancount: Path

    @property
    def groups(self) -> Path:
        return self.folder / "groups.jsonl"

    @property
    def accounts(self) -> list[dict[str, Any]]:
        return json.loads((self.folder / "accounts.json").read_bytes())

    @property
    def context(self) -> dict[str, Any]:
        return json.loads((self.folder / "context.json").read_bytes())

    @property
    def query(self) -> dict[str, Any]:
        """Everything that the head has seen, of all accounts."""
        head = self.context["head"]
        return {
            "schema_version": "d30-balance-fold-v1",
            "ledger_id": LEDGER,
            "entity_id": ENTITY,
            "currency": CURRENCY,
            "effective_cutoff": head["observed_at"],
            "knowledge_cutoff": head["observed_at"],
        }


def ledger(shape: Shape, folder: Path) -> Ledger:
    """The files of a history, made unless they are there."""
    mark = hashlib.sha256(json.dumps([FORMAT, *shape]).encode()).hexdigest()[:12]
    home = folder / f"bank-{shape.name}-{mark}"
    if not home.exists():
        folder.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix="draft-", dir=folder))
        _write(shape, draft)
        try:
            draft.rename(home)
        except OSError:  # another harness was first, with the same bytes
            shutil.rmtree(draft)
    return Ledger(shape, home, home / "ledger.beancount")


def account_id(number: int) -> str:
    """The account's name in both files; Beancount puts a root before it."""
    return f"ACC-{number:06d}"


def _written(moment: datetime) -> str:
    return f"{moment.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


Leg = dict[str, str]
Parts = tuple[list[int], int]
"""Amounts of a journal's credits, and the month after its own in which it is booked, 0 for none."""


class Drawing:
    """Draws group after group."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._draw = Random(shape.seed)  # noqa: S311 - to be drawn again
        self._sequence = 0
        self._step = timedelta(seconds=YEAR_SECONDS / shape.groups)
        self._now = START + timedelta(days=40)
        self._open: list[dict[str, Any]] = []
        """Commands that may still be corrected."""

    @property
    def sequence(self) -> int:
        return self._sequence

    @property
    def now(self) -> str:
        return _written(self._now)

    def group(self, number: int) -> dict[str, Any]:
        """The next group."""
        draw = self._draw
        self._now += self._step * draw.uniform(0.1, 1.9)
        correction = None
        if len(self._open) > 9 and draw.random() < CORRECTING:
            journals, correction = self._corrected(number)
        else:
            command = self._command(f"J-{number:07d}", f"OP-{number:07d}", self._legs())
            self._open.append(command)
            journals = [self._journal(command)]
        return {
            "schema_version": "d30-committed-group-v1",
            "group_id": f"G-{number:07d}",
            "kind": "posting" if correction is None else "correction",
            "ledger_id": LEDGER,
            "entity_id": ENTITY,
            "available_at": _written(self._now + self._step * 0.01),
            "journals": journals,
            "correction": correction,
        }

    def _corrected(self, number: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        draw, waiting = self._draw, self._open
        place = draw.randrange(len(waiting))
        waiting[place], waiting[-1] = waiting[-1], waiting[place]
        original = waiting.pop()
        exchanged = {"debit": "credit", "credit": "debit"}
        undone = [{**leg, "side": exchanged[leg["side"]]} for leg in original["legs"]]
        reversal = self._command(f"J-{number:07d}-R", f"OP-{number:07d}-R", undone)
        replacement = {
            **reversal,
            "journal_id": f"J-{number:07d}-N",
            "business_operation_id": f"OP-{number:07d}-N",
            "legs": self._legs(),
        }
        link = {
            "correction_id": f"C-{number:07d}",
            "original_journal_id": original["journal_id"],
            "reversal_journal_id": reversal["journal_id"],
            "replacement_journal_id": replacement["journal_id"],
            "reason": "wrong amount",
        }
        return [self._journal(reversal), self._journal(replacement)], link

    def _command(self, journal: str, operation: str, legs: list[Leg]) -> dict[str, Any]:
        draw = self._draw
        effective = self._now - timedelta(seconds=draw.expovariate(1 / 86_400))
        period = effective
        if draw.random() < EXPLAINED:
            period = (effective.replace(day=1) + timedelta(days=32)).replace(day=1)
        return {
            "schema_version": "d30-journal-v1",
            "ledger_id": LEDGER,
            "entity_id": ENTITY,
            "journal_id": journal,
            "business_operation_id": operation,
            "currency": CURRENCY,
            "effective_at": _written(effective),
            "source_available_at": _written(effective + (self._now - effective) / 2),
            "booking_period": f"{period:%Y-%m}",
            "legs": legs,
        }

    def _journal(self, command: dict[str, Any]) -> dict[str, Any]:
        self._sequence += 1
        own = command["booking_period"] == command["effective_at"][:7]
        return {
            "command": command,
            "sequence": str(self._sequence),
            "recorded_at": self.now,
            "adjustment_reason": "" if own else "the month was closed",
        }

    def _legs(self) -> list[Leg]:
        """One debit and its credits."""
        draw = self._draw
        accounts = self._accounts(draw.choice(LEGS))
        amounts = [self._amount() for _ in accounts[1:]]
        sides = ["debit"] + ["credit"] * len(amounts)
        return [
            {"account_id": account_id(account), "side": side, "amount_minor": str(amount)}
            for account, side, amount in zip(accounts, sides, [sum(amounts), *amounts], strict=True)
        ]

    def _accounts(self, count: int) -> list[int]:
        draw, found = self._draw, []
        while len(found) < count:
            busy = draw.random() < BUSY_PART
            one = draw.randrange(BUSY if busy else self._shape.accounts)
            if one not in found:
                found.append(one)
        return found

    def _amount(self) -> int:
        draw = self._draw
        if draw.random() < LARGE:
            return draw.randrange(10**19, 10**26)
        return round(10 ** draw.uniform(0, 9))


def _write(shape: Shape, home: Path) -> None:
    drawing = Drawing(shape)
    with (home / "groups.jsonl").open("w") as lines, (home / "ledger.beancount").open("w") as other:
        other.writelines(_opening(shape))
        for number in range(1, shape.groups + 1):
            group = drawing.group(number)
            lines.write(json.dumps(group, separators=(",", ":")) + "\n")
            for journal in group["journals"]:
                other.writelines(_transaction(journal["command"]))
    sides = ("debit", "credit", "credit", "credit", "debit")
    accounts = [
        {
            "account_id": account_id(number),
            "ledger_id": LEDGER,
            "entity_id": ENTITY,
            "currency": CURRENCY,
            "account_type": KINDS[number % len(KINDS)],
            "normal_side": sides[number % len(KINDS)],
        }
        for number in range(shape.accounts)
    ]
    (home / "accounts.json").write_text(json.dumps(accounts))
    head = {
        "stream_id": STREAM,
        "ledger_id": LEDGER,
        "entity_id": ENTITY,
        "observed_at": "2025-06-30T00:00:00.000Z",
        "head_sequence": str(drawing.sequence),
        "receipt_ref": f"R-{drawing.sequence}",
    }
    (home / "context.json").write_text(json.dumps({"head": head, "checkpoint_registry": []}))


def _root(number: int) -> str:
    return ROOTS[number % len(ROOTS)]


def _opening(shape: Shape) -> Iterator[str]:
    for number in range(shape.accounts):
        yield f"2000-01-01 open {_root(number)}:{account_id(number)} {CURRENCY}\n"


def _transaction(command: dict[str, Any]) -> Iterator[str]:
    yield f'\n{command["effective_at"][:10]} * "{command["journal_id"]}"\n'
    for leg in command["legs"]:
        name = leg["account_id"]
        sign = "-" if leg["side"] == "credit" else ""
        yield f"  {_root(int(name[4:]))}:{name}  {sign}{leg['amount_minor']} {CURRENCY}\n"
