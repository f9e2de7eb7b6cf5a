"""What becomes of a command: a group that may follow what is committed, or a refusal.

A command is judged as the validator of exports would judge the group that it makes, by the same
functions and in the same order: its structure before anything is looked up, the rest under the lock
of its stream. What an export must look like and what may be posted can therefore not differ.

The same command once more is no fault: it is answered with the group it made the first time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from amends_pipeline.bank.admission import History
from amends_pipeline.bank.codes import RefusedError, Rejection
from amends_pipeline.bank.export import parse_group
from amends_pipeline.bank.journal import reverse
from amends_pipeline.bank.receipts import NO_RECEIPT, Standing
from amends_pipeline.bank.values import (
    GROUP_VERSION,
    Account,
    Command,
    Correction,
    Group,
    Journal,
    Leg,
)

# What stands in a group before its place is known.
_SOME_NAME: Final = "X"
_SOME_TIME: Final = "0001-01-01T00:00:00.000Z"
_SOME_LEGS: Final = [
    {"account_id": account_id, "side": side, "amount_minor": "1"}
    for account_id, side in (("X", "debit"), ("Y", "credit"))
]


class Asked(NamedTuple):
    """What a command names, and may have been named before."""

    accounts: Sequence[str] = ()
    journals: Sequence[str] = ()
    """Journal ids; an original's too."""
    business_operations: Sequence[str] = ()
    correction: str | None = None


class Facts(NamedTuple):
    """What a stream knows of that, read under its lock."""

    accounts: Sequence[Account]
    """Those asked for, and those that the groups move."""
    groups: Sequence[Group]
    """In sequence order: every group that holds a journal with one of the ids, or reverses one of
    the journals, or has the correction's id. With their receipts, where they have one."""
    clocks: tuple[str, str]
    """The server's clock, read twice, in milliseconds."""


class Request(NamedTuple):
    """A command that is right in itself."""

    group: Group
    """What it makes, before its place and its clocks are known."""
    asked: Asked


class Booking(NamedTuple):
    """The group that a command made."""

    group: Group
    repeated: bool
    """It was made before, by the same command."""


def parse_posting(command: object, adjustment_reason: object = "") -> Request | Rejection:
    """Read a journal command and the reason for booking it in another month than its own."""
    return _request([("command", command)], None, adjustment_reason)


def parse_replacement(
    correction: object,
    replacement: object,
    reversal_business_operation_id: object,
    adjustment_reason: object = "",
) -> Request | Rejection:
    """Read the link of a correction and the command that replaces the original.

    The reversal follows: scope, times, period and reason are the replacement's, its legs will be
    the original's with their sides exchanged.
    """
    reversal = replacement
    if isinstance(replacement, dict):
        named = correction.get("reversal_journal_id") if isinstance(correction, dict) else None
        reversal = {
            **replacement,
            "journal_id": _SOME_NAME if named is None else named,
            "business_operation_id": reversal_business_operation_id,
            "legs": _SOME_LEGS,
        }
    commands = [("reversal", reversal), ("replacement", replacement)]
    request = _request(commands, correction, adjustment_reason)
    if isinstance(request, Rejection):
        return request._replace(where=_as_asked(request.where))
    # While no original is known, the replacement's legs stand for its.
    legs = reverse(request.group.journals[1].command)
    return request._replace(group=_with_legs(request.group, legs))


def decide(standing: Standing, facts: Facts, request: Request) -> Booking | Rejection:
    """Make the group that comes next of a request, or say why there is none.

    facts: of what the request asks, as they are where the stream stands.
    """
    for group in facts.groups:
        if _is_made_by(request, group):
            return Booking(group, repeated=True)
    history = _history(standing, facts)
    wanted = request.group
    if wanted.correction is not None:
        wanted = _with_original(wanted, wanted.correction, facts.groups)
    group = _placed(wanted, standing, facts.clocks)
    rejection = history.admit(group, "command", stamped=False)
    return rejection or Booking(group, repeated=False)


def _history(standing: Standing, facts: Facts) -> History:
    """Return the history as far as the facts show it, which is as far as the request looks."""
    stream = standing.stream
    accounts = {each.account_id: each for each in facts.accounts}
    history = History(stream.ledger_id, stream.entity_id, accounts)
    history.last_sequence = standing.last_sequence
    history.last_recorded_at = standing.recorded_at or ""
    for group in facts.groups:
        history.know(group)
    return history


def _with_original(wanted: Group, link: Correction, groups: Iterable[Group]) -> Group:
    """Put the original's legs into the reversal; an original that is not there changes nothing."""
    for group in groups:
        for journal in group.journals:
            if journal.command.journal_id == link.original_journal_id:
                return _with_legs(wanted, reverse(journal.command))
    return wanted


def _with_legs(wanted: Group, legs: tuple[Leg, ...]) -> Group:
    reversal, replacement = wanted.journals
    command = msgspec.structs.replace(reversal.command, legs=legs)
    reversal = msgspec.structs.replace(reversal, command=command)
    return msgspec.structs.replace(wanted, journals=(reversal, replacement))


def _placed(wanted: Group, standing: Standing, clocks: Sequence[str]) -> Group:
    """Give a group its scope, the next sequences and the clock, which never moves back here."""
    recorded_at, journals = standing.recorded_at or "", []
    first = standing.last_sequence + 1
    for number, (journal, clock) in enumerate(zip(wanted.journals, clocks, strict=False)):
        recorded_at = max(recorded_at, clock)
        placed = msgspec.structs.replace(
            journal, sequence=str(first + number), recorded_at=recorded_at
        )
        journals.append(placed)
    _, ledger_id, entity_id = standing.stream
    return msgspec.structs.replace(
        wanted,
        group_id=f"G-{first}",
        ledger_id=ledger_id,
        entity_id=entity_id,
        journals=tuple(journals),
    )


def _is_made_by(request: Request, group: Group) -> bool:
    """Tell whether a group is what the request made, whatever its place and clocks."""
    wanted = request.group
    if (wanted.kind, wanted.correction) != (group.kind, group.correction):
        return False
    # A reversal's legs follow from the link.
    pairs = zip(wanted.journals, group.journals, strict=True)
    return (
        all(_without_legs(one) == _without_legs(other) for one, other in pairs)
        and wanted.journals[-1].command == group.journals[-1].command
    )


def _without_legs(journal: Journal) -> tuple[Command, str]:
    no_legs: tuple[Leg, ...] = ()
    return msgspec.structs.replace(journal.command, legs=no_legs), journal.adjustment_reason


def _asked(group: Group) -> Asked:
    commands = [journal.command for journal in group.journals]
    journals = [command.journal_id for command in commands]
    link = group.correction
    if link is not None:
        journals.append(link.original_journal_id)
    return Asked(
        accounts=list(dict.fromkeys(leg.account_id for leg in commands[-1].legs)),
        journals=journals,
        business_operations=[command.business_operation_id for command in commands],
        correction=None if link is None else link.correction_id,
    )


def _request(
    commands: Sequence[tuple[str, object]], correction: object, adjustment_reason: object
) -> Request | Rejection:
    """Judge the structure of the group that commands, which have a name each, would make."""
    shape = {
        "schema_version": GROUP_VERSION,
        "group_id": _SOME_NAME,
        "kind": "posting" if len(commands) == 1 else "correction",
        "ledger_id": _SOME_NAME,
        "entity_id": _SOME_NAME,
        "available_at": _SOME_TIME,
        "journals": [
            {
                "command": command,
                "sequence": str(number),
                "recorded_at": _SOME_TIME,
                "adjustment_reason": adjustment_reason,
            }
            for number, (_, command) in enumerate(commands, start=1)
        ],
        "correction": correction,
    }
    try:
        group = parse_group(shape, "")
    except RefusedError as refused:
        return _as_given(refused.rejection, [name for name, _ in commands])
    group = msgspec.structs.replace(group, available_at=NO_RECEIPT)
    return Request(group, _asked(group))


_OF_REVERSAL: Final = {
    "reversal.journal_id": "correction.reversal_journal_id",
    "reversal.business_operation_id": "reversal_business_operation_id",
}


def _as_asked(where: str) -> str:
    """Say where a fault of a reversal stands in what was given: nobody gives a reversal."""
    if where in _OF_REVERSAL:
        return _OF_REVERSAL[where]
    return f"replacement{where.removeprefix('reversal')}" if where.startswith("reversal") else where


def _as_given(rejection: Rejection, names: Sequence[str]) -> Rejection:
    """Say where a fault stands in what was given, not in the group."""
    _, _, where = rejection.where.partition(": ")
    for number, name in enumerate(names):
        where = where.replace(f"journals[{number}].command", name)
        where = where.replace(f"journals[{number}].adjustment_reason", "adjustment_reason")
    return rejection._replace(where=where, group_id=None, sequence=None)
