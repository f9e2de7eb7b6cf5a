"""Valid committed histories of a bank, drawn; plain JSON values, without any code of the package.

`exports()` draws an `Export`: accounts, groups and a trusted head that belong together.
`queries(export)` draws a question to it, with cutoffs on, just before and just after its clocks.

    @given(st.data())
    def test_something(data):
        export = data.draw(exports())
        query = data.draw(queries(export))
        result = fold_balance(query, export.groups, export.accounts, export.context())

Drawn are: several currencies, corrections, corrections of replacements, amounts of up to 30 digits,
up to 32 legs, an account several times in one journal, clocks that tie, late evidence, periods that
differ from the economic month, both ends of the calendar, accounts that nothing uses.
"""

from __future__ import annotations

import copy
import string
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

STREAM, LEDGER, ENTITY = "CB-GENERAL.stream", "CB-GENERAL", "CB-A"
NORMAL_SIDES = {
    "asset": "debit",
    "expense": "debit",
    "liability": "credit",
    "equity": "credit",
    "revenue": "credit",
}
CURRENCIES = ("USD", "JPY", "DEM", "KWD")
MAX_AMOUNT = 10**30 - 1

_START = datetime(1, 1, 1, tzinfo=UTC)
MAX_MILLISECOND = 3_652_059 * 86_400_000 - 1
"""9999-12-31T23:59:59.999Z, counted from 0001-01-01."""
_YEAR_2025 = 739_251 * 86_400_000
_ALPHABET = string.ascii_letters + string.digits + "_.:-"


def stamp(millisecond):
    """Milliseconds since 0001-01-01 as a timestamp of the grammar."""
    moment = _START + timedelta(milliseconds=millisecond)
    return f"{moment.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


def millisecond_of(text):
    """The inverse of `stamp`."""
    return (datetime.fromisoformat(text) - _START) // timedelta(milliseconds=1)


@dataclass(frozen=True)
class Export:
    """What a source hands out. Tests change copies of the parts, never the parts."""

    accounts: list
    groups: list
    head: dict

    def context(self, *entries):
        """A trusted context around the head, with these registry entries."""
        return {"head": copy.deepcopy(self.head), "checkpoint_registry": list(entries)}

    def query(self, account_id, effective_cutoff=None, knowledge_cutoff=None, checkpoint=None):
        """A question about one account, by default at what the head saw."""
        [account] = [each for each in self.accounts if each["account_id"] == account_id]
        return {
            "schema_version": "d30-balance-fold-v1",
            "ledger_id": LEDGER,
            "entity_id": ENTITY,
            "account_id": account_id,
            "currency": account["currency"],
            "effective_cutoff": effective_cutoff or self.head["observed_at"],
            "knowledge_cutoff": knowledge_cutoff or self.head["observed_at"],
            "checkpoint": checkpoint,
        }

    @property
    def own_accounts(self):
        """The accounts that can be asked about: those of the ledger and entity of the head."""
        return [
            each
            for each in self.accounts
            if (each["ledger_id"], each["entity_id"]) == (LEDGER, ENTITY)
        ]

    def prefix(self, count):
        """The first `count` groups, under the head that the source had after them."""
        groups = copy.deepcopy(self.groups[:count])
        last = groups[-1] if groups else None
        head = {
            **self.head,
            "head_sequence": last["journals"][-1]["sequence"] if last else "0",
            "observed_at": last["available_at"] if last else self.head["observed_at"],
            "receipt_ref": f"receipt:{count}",
        }
        return Export(copy.deepcopy(self.accounts), groups, head)


def aggregate_query(query):
    """The same question for all accounts of the currency."""
    return {name: query[name] for name in query if name not in {"account_id", "checkpoint"}}


@st.composite
def exports(draw, max_groups=8, max_legs=6, *, with_corrections=True):
    """Draw an `Export` of zero to `max_groups` groups that breaks no rule."""
    scribe = _Scribe(draw, draw(account_lists()), max_legs)
    for _ in range(draw(st.integers(0, max_groups))):
        if with_corrections and scribe.correctable and draw(st.booleans()):
            scribe.correct()
        else:
            scribe.post()
    return scribe.export()


@st.composite
def queries(draw, export, checkpoint=None):
    """Draw a question about one account of an export."""
    account = draw(st.sampled_from(export.own_accounts))
    observed = export.head["observed_at"]
    effective = {j["command"]["effective_at"] for g in export.groups for j in g["journals"]}
    receipts = {group["available_at"] for group in export.groups}
    recordings = {j["recorded_at"] for g in export.groups for j in g["journals"]}
    knowledge = draw(cutoffs(sorted({observed} | receipts | recordings)))
    return export.query(
        account["account_id"],
        effective_cutoff=draw(cutoffs(sorted({observed} | effective))),
        knowledge_cutoff=min(knowledge, observed),
        checkpoint=checkpoint,
    )


@st.composite
def cutoffs(draw, moments):
    """Draw one of the timestamps, the millisecond before or after it, or an end of time."""
    millisecond = millisecond_of(draw(st.sampled_from(moments))) + draw(st.sampled_from([-1, 0, 1]))
    ends = st.sampled_from([0, MAX_MILLISECOND])
    return stamp(min(MAX_MILLISECOND, max(0, draw(st.just(millisecond) | ends))))


@st.composite
def account_lists(draw):
    """Draw accounts of one to three currencies, at least two of each; some are never used."""
    accounts = []
    for currency in draw(
        st.lists(st.sampled_from(CURRENCIES), min_size=1, max_size=3, unique=True)
    ):
        for number in range(draw(st.integers(2, 4))):
            kind = draw(st.sampled_from(sorted(NORMAL_SIDES)))
            accounts.append(_account(f"{currency}-{number}", currency, kind))
    if draw(st.booleans()):
        accounts.append({**_account("ELSEWHERE", "USD", "asset"), "entity_id": "CB-B"})
    return draw(st.permutations(accounts))


def _account(account_id, currency, kind):
    return {
        "account_id": account_id,
        "ledger_id": LEDGER,
        "entity_id": ENTITY,
        "currency": currency,
        "account_type": kind,
        "normal_side": NORMAL_SIDES[kind],
    }


identifiers = st.text(_ALPHABET, max_size=30).map(lambda middle: f"x{middle}x")
amounts = st.one_of(
    st.integers(1, 9), st.integers(1, 10**6), st.integers(1, MAX_AMOUNT), st.just(MAX_AMOUNT)
)
pauses = st.sampled_from([0, 0, 1, 1_000, 3_600_000, 40 * 86_400_000])
adjustment_reasons = st.sampled_from(["late invoice", "  padded\t", "\u00a0Café\u2003", "0"])
reasons = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=240).map(
    str.strip
).filter(bool) | st.sampled_from(["x" * 240, "\U0001f4b6" * 240])


@dataclass
class _Scribe:
    """Writes a history group by group, as a source would that never errs."""

    draw: object
    accounts: list
    max_legs: int
    groups: list = field(default_factory=list)
    correctable: dict = field(default_factory=dict)
    sequence: int = 0

    def __post_init__(self):
        self.now = self.draw(
            st.sampled_from([_YEAR_2025, _YEAR_2025 + 299 * 86_400_000, 0])
            | st.integers(0, MAX_MILLISECOND)
        )
        self.received = self.now

    def post(self):
        command = self._command(self._occasion())
        self.correctable[command["journal_id"]] = command
        self._commit("posting", [command], None)

    def correct(self):
        original_id = self.draw(st.sampled_from(list(self.correctable)))
        original = self.correctable.pop(original_id)
        occasion = {**self._occasion(), "currency": original["currency"]}
        reversal = self._command(occasion, reversal_of(original["legs"]))
        replacement = self._command(occasion)
        self.correctable[replacement["journal_id"]] = replacement
        link = {
            "correction_id": self._identifier("C"),
            "original_journal_id": original_id,
            "reversal_journal_id": reversal["journal_id"],
            "replacement_journal_id": replacement["journal_id"],
            "reason": self.draw(reasons),
        }
        self._commit("correction", [reversal, replacement], link)

    def export(self):
        observed = min(MAX_MILLISECOND, self.received + self.draw(pauses))
        head = {
            "stream_id": STREAM,
            "ledger_id": LEDGER,
            "entity_id": ENTITY,
            "observed_at": stamp(observed),
            "head_sequence": str(self.sequence),
            "receipt_ref": f"receipt:{self.sequence}",
        }
        return Export(self.accounts, self.groups, head)

    def _identifier(self, letter):
        # A serial number keeps drawn identifiers apart.
        self.serial = getattr(self, "serial", 0) + 1
        return f"{letter}{self.serial}{self.draw(identifiers)}"

    def _pass(self, millisecond):
        return min(MAX_MILLISECOND, millisecond + self.draw(pauses))

    def _occasion(self):
        """What both members of a correction share; effective and known no later than now."""
        self.now = self._pass(self.now)
        earlier = st.one_of(st.just(self.now), st.integers(0, self.now))
        effective = stamp(
            max(0, self.now - self.draw(pauses)) if self.draw(st.booleans()) else self.draw(earlier)
        )
        own = {each["currency"] for each in self.accounts if each["entity_id"] == ENTITY}
        return {
            "currency": self.draw(st.sampled_from(sorted(own))),
            "effective_at": effective,
            "source_available_at": stamp(self.draw(earlier)),
            "booking_period": self.draw(st.sampled_from([effective[:7]] * 3 + ["2025-11"])),
        }

    def _command(self, occasion, legs=None):
        return {
            "schema_version": "d30-journal-v1",
            "ledger_id": LEDGER,
            "entity_id": ENTITY,
            "journal_id": self._identifier("J"),
            "business_operation_id": self._identifier("B"),
            **occasion,
            "legs": legs or self._legs(occasion["currency"]),
        }

    def _legs(self, currency):
        """Debits of drawn amounts; the credits are the same amounts, one of them split or not."""
        debits = self.draw(st.lists(amounts, min_size=1, max_size=self.max_legs // 2))
        credits_ = list(debits)
        whole = credits_[0]
        if len(debits) + len(credits_) < self.max_legs and whole > 1 and self.draw(st.booleans()):
            part = self.draw(st.integers(1, whole - 1))
            credits_[:1] = [part, whole - part]
        sides = [("debit", amount) for amount in debits] + [("credit", each) for each in credits_]
        own = [
            each["account_id"]
            for each in self.accounts
            if each["currency"] == currency and each["entity_id"] == ENTITY
        ]
        legs = []
        for side, amount in self.draw(st.permutations(sides)):
            account_id = self.draw(st.sampled_from(own))
            legs.append({"account_id": account_id, "side": side, "amount_minor": str(amount)})
        if len({leg["account_id"] for leg in legs}) == 1:
            legs[0]["account_id"] = next(each for each in own if each != legs[0]["account_id"])
        return legs

    def _commit(self, kind, commands, link):
        journals = []
        for command in commands:
            self.sequence += 1
            self.now = self._pass(self.now)
            same = command["booking_period"] == command["effective_at"][:7]
            journals.append(
                {
                    "command": command,
                    "sequence": str(self.sequence),
                    "recorded_at": stamp(self.now),
                    "adjustment_reason": "" if same else self.draw(adjustment_reasons),
                }
            )
        self.received = self._pass(max(self.now, self.received))
        self.groups.append(
            {
                "schema_version": "d30-committed-group-v1",
                "group_id": self._identifier("G"),
                "kind": kind,
                "ledger_id": LEDGER,
                "entity_id": ENTITY,
                "available_at": stamp(self.received),
                "journals": journals,
                "correction": link,
            }
        )


def reversal_of(legs):
    """The legs with their sides exchanged."""
    other = {"debit": "credit", "credit": "debit"}
    return [{**leg, "side": other[leg["side"]]} for leg in legs]
