"""Whether an export is whole, and what it covers: validated as a fold does, with nothing asked.

The order of judgement is that of `balances`, without a query: accounts, context, the structure of
every group, the history, and last whether it reaches the head. Both say the same code.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from amends_pipeline.bank.admission import History
from amends_pipeline.bank.codes import RefusedError, Rejection
from amends_pipeline.bank.export import MAX_GROUPS, parse_accounts, parse_context
from amends_pipeline.bank.heads import Prefix, Stream, prefixes
from amends_pipeline.bank.one_pass import take_all

if TYPE_CHECKING:
    from amends_pipeline.bank.batches import Batch
    from amends_pipeline.bank.values import Account, Context, Group, Head

Batches = Iterable["Batch"]
"""Groups as `batches` reads them."""

LATEST: Final = 50
"""Groups at the end of a history that its coverage holds."""


class Coverage(NamedTuple):
    """What a valid export holds."""

    head: Head
    accounts: dict[str, Account]
    """All that were listed, by id; some may be of another scope."""
    groups: int
    corrections: int
    journals: int
    legs: int
    times: dict[str, tuple[str, str]]
    """First and last moment of each clock; none of an empty export."""
    busiest: str | None
    """The account with the most legs, of several the first by id; None without accounts."""
    latest: tuple[Group, ...]
    """The last groups, at most `LATEST`, the last one first."""

    @property
    def currencies(self) -> list[str]:
        """Those of the accounts in the head's scope, in order."""
        return sorted({each.currency for each in self.in_scope})

    @property
    def in_scope(self) -> list[Account]:
        """The accounts of the head's ledger and entity, by id."""
        accounts = [each for each in self.accounts.values() if _is_of(each, self.head)]
        return sorted(accounts, key=lambda each: each.account_id)

    @property
    def beyond_the_reference(self) -> bool:
        """Whether the reference would take no such history for its length alone."""
        return self.groups > MAX_GROUPS


def _is_of(account: Account, head: Head) -> bool:
    return (account.ledger_id, account.entity_id) == (head.ledger_id, head.entity_id)


def examine(accounts: object, context: object, batches: Batches) -> Coverage | Rejection:
    """Validate a whole export from genesis; return what it covers, or its first fault.

    accounts, context: JSON values. Raises what `batches` raises, but no `RefusedError`.
    """
    try:
        known = parse_accounts(accounts)
        trusted = parse_context(context)
        return _examined(known, trusted, batches)
    except RefusedError as refusal:
        return refusal.rejection


def _examined(accounts: dict[str, Account], context: Context, batches: Batches) -> Coverage:
    head = context.head
    count = _Count(head, accounts)
    history = History(head.ledger_id, head.entity_id, accounts, head.observed_at)
    take_all(history, head, batches, count.take)
    return count.coverage()


class _Count:
    """What was admitted so far."""

    def __init__(self, head: Head, accounts: dict[str, Account]) -> None:
        self._head, self._accounts = head, accounts
        self._groups = self._corrections = self._journals = 0
        self._legs: Counter[str] = Counter()
        self._effective: tuple[str, str] | None = None
        self._first: Group | None = None
        self._latest: deque[Group] = deque(maxlen=LATEST)

    def take(self, groups: Sequence[Group]) -> None:
        self._latest.extend(groups)
        self._groups += len(groups)
        self._corrections += sum(group.correction is not None for group in groups)
        commands = [journal.command for group in groups for journal in group.journals]
        self._journals += len(commands)
        for command in commands:
            self._legs.update(leg.account_id for leg in command.legs)
        if commands:
            moments = [command.effective_at for command in commands]
            moments += self._effective or ()
            self._effective = (min(moments), max(moments))
            self._first = self._first or groups[0]

    def _in_scope(self) -> list[str]:
        return [name for name, each in self._accounts.items() if _is_of(each, self._head)]

    def coverage(self) -> Coverage:
        times: dict[str, tuple[str, str]] = {}
        first = self._first
        if first is not None and self._effective is not None:
            last = self._latest[-1]
            times = {
                "effective_at": self._effective,
                "recorded_at": (first.journals[0].recorded_at, last.journals[-1].recorded_at),
                "available_at": (first.available_at, last.available_at),
            }
        return Coverage(
            head=self._head,
            accounts=self._accounts,
            groups=self._groups,
            corrections=self._corrections,
            journals=self._journals,
            legs=self._legs.total(),
            times=times,
            busiest=min(self._in_scope(), key=lambda each: (-self._legs[each], each), default=None),
            latest=tuple(reversed(self._latest)),
        )


def prefixes_of(head: Head, batches: Batches) -> Iterator[Prefix]:
    """Return every prefix of an export that was found valid, for `heads.judge_export`."""
    stream = Stream(head.stream_id, head.ledger_id, head.entity_id)
    return prefixes(stream, (group for batch in batches for group in batch.groups))
