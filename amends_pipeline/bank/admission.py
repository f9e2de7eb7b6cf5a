"""Whether a group may follow the groups before it: one history, group by group.

Each check stands in the order of judgement. Shape, grammar and a group's own rules have been judged
by `export`; here is what needs the groups before it, the accounts and the head.
"""

from __future__ import annotations

from operator import le
from typing import TYPE_CHECKING, Final

from amends_pipeline.bank.codes import Code, Rejection
from amends_pipeline.bank.export import judge_reason
from amends_pipeline.bank.grammar import SUPPORTED_CURRENCIES
from amends_pipeline.bank.journal import is_reversal
from amends_pipeline.bank.members import Fault, within
from amends_pipeline.bank.values import read_group, signed, write_group
from amends_pipeline.kernel.display import shown

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from amends_pipeline.bank.columns import Columns
    from amends_pipeline.bank.values import Account, Command, Correction, Group, Leg

_BEFORE_ALL_TIME: Final = ""


class History:
    """What has been admitted: the indexes by which the next group is judged.

    `ledger_id` and `entity_id` are the head's, `accounts` all that are known, in scope or not.
    `observed_at` bounds receipts; None where no head has seen the groups yet. A live journal that
    judges one group fills in only the entries that the group names.
    """

    def __init__(
        self,
        ledger_id: str,
        entity_id: str,
        accounts: Mapping[str, Account],
        observed_at: str | None = None,
    ) -> None:
        self._ledger_id = ledger_id
        self._entity_id = entity_id
        self._accounts = accounts
        self._currencies = {
            account.account_id: account.currency
            for account in accounts.values()
            if (account.ledger_id, account.entity_id) == (ledger_id, entity_id)
        }
        self._accounts_of: dict[str, set[str]] = {}
        for account_id, currency in self._currencies.items():
            self._accounts_of.setdefault(currency, set()).add(account_id)
        self._observed_at = observed_at
        self.groups: dict[str, bytes] = {}
        """Each group as JSON, by identifier. Bytes take less room than values."""
        self.journals: dict[str, bytes] = {}
        """The group of each journal, by the journal's identifier; the same bytes."""
        self.operations: set[str] = set()
        """The business operations that were booked."""
        self.corrections: set[str] = set()
        """The identifiers of corrections."""
        self.reversals: set[str] = set()
        """The journals that are reversals."""
        self.reversed: set[str] = set()
        """The journals that have been reversed."""
        self.last_sequence = 0
        self.last_recorded_at = _BEFORE_ALL_TIME
        self.last_available_at = _BEFORE_ALL_TIME
        self.covered_through = 0
        """The last sequence of a checkpoint's prefix, which no supplied group may touch."""

    def admit(
        self, group: Group, where: str = "group", *, stamped: bool = True
    ) -> Rejection | None:
        """Take the group into the history, or tell its first fault and change nothing.

        `where` is how the group is called in a rejection. A group that is not `stamped` has no
        receipt yet; what its `available_at` holds is not looked at.
        """
        try:
            self._judge(group, stamped=stamped)
        except Fault as fault:
            return fault.rejection(where, group.group_id, group.journals[0].sequence)
        self._take(group, stamped=stamped)
        return None

    def admit_together(self, batch: Columns) -> bool:
        """Take groups, with their receipts, into the history where `admit` would take each of them.

        It looks at them column by column, and finds no fault: it says no and changes nothing where
        a group may not follow, or where that takes a closer look.
        """
        names = (
            (batch.group_ids, self.groups.keys()),
            (batch.journal_ids, self.journals.keys()),
            (batch.operations, self.operations),
        )
        if not (
            self._are_next(batch.sequences)
            and all(_are_new(found, known) for found, known in names)
            and self._are_in_scope(batch)
            and all(map(_is_balanced, batch.legs))
            and self._are_in_time(batch)
            and self._correct_what_is_there(batch)
        ):
            return False
        self.groups.update(zip(batch.group_ids, batch.written, strict=True))
        self.journals.update(
            (journal.command.journal_id, written)
            for group, written in zip(batch.groups, batch.written, strict=True)
            for journal in group.journals
        )
        self.operations.update(batch.operations)
        for _, link in batch.corrected:
            self._remember(link)
        self.last_sequence += len(batch.sequences)
        self.last_recorded_at = batch.recorded[-1]
        self.last_available_at = batch.available[-1]
        return True

    def _are_next(self, sequences: list[str]) -> bool:
        start = self.last_sequence + 1
        return self.covered_through < start and sequences == list(
            map(str, range(start, start + len(sequences)))
        )

    def _are_in_scope(self, batch: Columns) -> bool:
        if batch.ledgers != {self._ledger_id} or batch.entities != {self._entity_id}:
            return False
        if not batch.currencies <= SUPPORTED_CURRENCIES:
            return False
        if len(batch.currencies) == 1:
            (currency,) = batch.currencies
            return batch.accounts <= self._accounts_of.get(currency, set())
        return all(
            self._currencies.get(leg.account_id) == command.currency
            for command in batch.commands
            for leg in command.legs
        )

    def _are_in_time(self, batch: Columns) -> bool:
        recorded, available = batch.recorded, batch.available
        ends = [group.journals[-1].recorded_at for group in batch.groups]
        return (
            self.last_recorded_at <= recorded[0]
            and recorded == sorted(recorded)
            and all(map(le, batch.effective, recorded))
            and all(map(le, batch.offered, recorded))
            and all(map(le, ends, available))
            and self.last_available_at <= available[0]
            and available == sorted(available)
            and (self._observed_at is None or available[-1] <= self._observed_at)
        )

    def _correct_what_is_there(self, batch: Columns) -> bool:
        links = [link for _, link in batch.corrected]
        if not links:
            return True
        originals = {link.original_journal_id for link in links}
        if len({link.correction_id for link in links}) < len(links) or len(originals) < len(links):
            return False
        if not originals.isdisjoint(link.reversal_journal_id for link in links):
            return False
        legs = dict(zip(batch.journal_ids, batch.legs, strict=True))
        for group, link in batch.corrected:
            reversal, replacement = (journal.command for journal in group.journals)
            original = self._legs_of(link.original_journal_id)
            if original is None and link.original_journal_id in legs:
                place = batch.journal_ids.index
                if place(link.original_journal_id) < place(reversal.journal_id):
                    original = legs[link.original_journal_id]
            try:
                self._judge_correction(reversal, replacement, link, original)
            except Fault:
                return False
        return True

    def _judge(self, group: Group, *, stamped: bool) -> None:
        journals = group.journals
        first, wanted = int(journals[0].sequence), self.last_sequence + 1
        if first <= self.covered_through or group.group_id in self.groups or first != wanted:
            raise self._misplaced(group, first)
        if group.ledger_id != self._ledger_id or group.entity_id != self._entity_id:
            raise self._out_of_scope(group)
        commands = [journal.command for journal in journals]
        for command in commands:
            self._judge_scope(command)
        self._judge_identities(commands)
        for command in commands:
            if not _is_balanced(command.legs):
                raise _unbalanced(command)
        link = group.correction
        if link is not None:
            original = self._legs_of(link.original_journal_id)
            self._judge_correction(commands[0], commands[1], link, original)
        self._judge_clocks(group, stamped=stamped)

    def _misplaced(self, group: Group, first: int) -> Fault:
        if first <= self.covered_through:
            expected = f"groups after sequence {self.covered_through}, where the checkpoint ends"
            return Fault(Code.CHECKPOINT_OVERLAP, expected, str(first))
        known = self.groups.get(group.group_id)
        if known is not None:
            if read_group(known) == group:
                return Fault(Code.DUPLICATE_GROUP, "each group once", f"{group.group_id} again")
            found = f"{group.group_id} again, and not the same"
            return Fault(Code.GROUP_ID_CONFLICT, "one group under an identifier", found)
        wanted = self.last_sequence + 1
        code = Code.SEQUENCE_GAP if first > wanted else Code.OUT_OF_ORDER_GROUP
        return Fault(code, f"sequence {wanted}", str(first))

    def _judge_scope(self, command: Command) -> None:
        if command.ledger_id != self._ledger_id or command.entity_id != self._entity_id:
            raise self._out_of_scope(command)
        currency = command.currency
        if currency not in SUPPORTED_CURRENCIES:
            raise Fault(Code.UNSUPPORTED_CURRENCY, "a currency of ISO 4217", shown(currency))
        currency_of = self._currencies.get
        for leg in command.legs:
            if currency_of(leg.account_id) != currency:
                raise self._not_bookable(leg.account_id, currency)

    def _not_bookable(self, account_id: str, currency: str) -> Fault:
        account = self._accounts.get(account_id)
        if account is None:
            return Fault(Code.INVALID_ACCOUNTS, "a known account", account_id)
        if account_id not in self._currencies:
            return self._out_of_scope(account)
        expected = f"accounts of the command's currency {currency}"
        return Fault(Code.CURRENCY_MISMATCH, expected, f"{account_id} of {account.currency}")

    def _out_of_scope(self, value: Group | Command | Account) -> Fault:
        expected = f"ledger {self._ledger_id}, entity {self._entity_id}"
        found = f"{value.ledger_id}, {value.entity_id}"
        return Fault(Code.SCOPE_MISMATCH, expected, found)

    def _judge_identities(self, commands: list[Command]) -> None:
        first, last = commands[0], commands[-1]
        for command in commands:
            if command.journal_id in self.journals:
                raise _again(Code.DUPLICATE_JOURNAL, "journal", command.journal_id)
        if first is not last and first.journal_id == last.journal_id:
            raise _again(Code.DUPLICATE_JOURNAL, "journal", last.journal_id)
        code, name = Code.DUPLICATE_BUSINESS_OPERATION, "business operation"
        for command in commands:
            if command.business_operation_id in self.operations:
                raise _again(code, name, command.business_operation_id)
        if first is not last and first.business_operation_id == last.business_operation_id:
            raise _again(code, name, last.business_operation_id)

    def _judge_correction(
        self,
        reversal: Command,
        replacement: Command,
        link: Correction,
        original: tuple[Leg, ...] | None,
    ) -> None:
        """Judge the members of a correction; `original` are the legs of what it names, if any."""
        for name in _SHARED:
            one, other = getattr(reversal, name), getattr(replacement, name)
            if one != other:
                expected = f"one {name} in both members"
                found = f"{shown(one)} and {shown(other)}"
                raise Fault(Code.INVALID_CORRECTION_LINK, expected, found)
        named = (link.reversal_journal_id, link.replacement_journal_id)
        members = (reversal.journal_id, replacement.journal_id)
        if named != members:
            expected, found = " and ".join(members), " and ".join(named)
            raise Fault(Code.INVALID_CORRECTION_LINK, expected, found, "correction")
        within("correction", judge_reason, link)
        if link.correction_id in self.corrections:
            found = f"{link.correction_id} again"
            raise Fault(Code.INVALID_CORRECTION_LINK, "each correction once", found)
        self._judge_original(reversal, link.original_journal_id, original)

    def _judge_original(
        self, reversal: Command, original_id: str, original: tuple[Leg, ...] | None
    ) -> None:
        if original is None:
            expected = "the original in an earlier group"
            raise Fault(Code.INVALID_CORRECTION_LINK, expected, f"no {original_id} there")
        if original_id in self.reversals:
            found = f"{original_id}, a reversal"
            raise Fault(Code.REVERSAL_OF_REVERSAL, "an original that is no reversal", found)
        if original_id in self.reversed:
            found = f"{original_id}, reversed before"
            raise Fault(Code.ALREADY_REVERSED, "an original still in force", found)
        if not is_reversal(reversal.legs, original):
            expected = f"the legs of {original_id} with their sides exchanged"
            raise Fault(Code.INVALID_REVERSAL, expected, "others")

    def _legs_of(self, journal_id: str) -> tuple[Leg, ...] | None:
        """Return the legs of a journal that is known, None for another one."""
        written = self.journals.get(journal_id)
        if written is None:
            return None
        commands = (journal.command for journal in read_group(written).journals)
        return next(command.legs for command in commands if command.journal_id == journal_id)

    def _judge_clocks(self, group: Group, *, stamped: bool) -> None:
        recorded = self.last_recorded_at
        for journal in group.journals:
            command = journal.command
            before, recorded = recorded, journal.recorded_at
            if before > recorded:
                raise _disorder("recorded_at of journals", before, recorded)
            if command.effective_at > recorded:
                raise _disorder("effective_at, recorded_at", command.effective_at, recorded)
            if command.source_available_at > recorded:
                clocks = "source_available_at, recorded_at"
                raise _disorder(clocks, command.source_available_at, recorded)
        if stamped:
            available = group.available_at
            if recorded > available:
                raise _disorder("recorded_at, available_at", recorded, available)
            if self.last_available_at > available:
                raise _disorder("available_at of groups", self.last_available_at, available)
            if self._observed_at is not None and available > self._observed_at:
                raise _disorder("available_at, observed_at", available, self._observed_at)

    def know(self, group: Group) -> bytes:
        """Fill in what a later group may name of an earlier one. Returns the group as JSON."""
        written = write_group(group)
        for journal in group.journals:
            command = journal.command
            self.journals[command.journal_id] = written
            self.operations.add(command.business_operation_id)
        if group.correction is not None:
            self._remember(group.correction)
        return written

    def _take(self, group: Group, *, stamped: bool) -> None:
        self.groups[group.group_id] = self.know(group)
        last = group.journals[-1]
        self.last_sequence = int(last.sequence)
        self.last_recorded_at = last.recorded_at
        if stamped:
            self.last_available_at = group.available_at

    def _remember(self, link: Correction) -> None:
        self.corrections.add(link.correction_id)
        self.reversals.add(link.reversal_journal_id)
        self.reversed.add(link.original_journal_id)


_SHARED: Final = (
    "ledger_id",
    "entity_id",
    "currency",
    "effective_at",
    "source_available_at",
    "booking_period",
)
"""What the members of a correction agree about."""


def _are_new(names: list[str], known: AbstractSet[str]) -> bool:
    """Tell whether each of the names stands once, and is not known."""
    found = set(names)
    return len(found) == len(names) and known.isdisjoint(found)


def _is_balanced(legs: tuple[Leg, ...]) -> bool:
    """Tell whether debits and credits are equal, amounts being well written."""
    if len(legs) == 2:  # noqa: PLR2004 - most journals: equal amounts are equal texts
        one, other = legs
        return one.amount_minor == other.amount_minor and one.side != other.side
    return sum(map(signed, legs)) == 0


def _again(code: Code, name: str, identifier: str) -> Fault:
    return Fault(code, f"each {name} once", f"{identifier} again")


def _disorder(clocks: str, earlier: str, later: str) -> Fault:
    expected = f"{clocks} in this order"
    return Fault(Code.CLOCK_ORDER_VIOLATION, expected, f"{earlier}, then {later}")


def _unbalanced(command: Command) -> Fault:
    debits = sum(int(leg.amount_minor) for leg in command.legs if leg.side == "debit")
    credits_ = sum(int(leg.amount_minor) for leg in command.legs if leg.side == "credit")
    expected = f"debits and credits of {command.journal_id} equal"
    return Fault(Code.INVALID_GROUP, expected, f"{debits} and {credits_}")
