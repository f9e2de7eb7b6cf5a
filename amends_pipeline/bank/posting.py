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

from amends_pipeline.bank import grammar
from amends_pipeline.bank.admission import History
from amends_pipeline.bank.codes import Code, RefusedError, Rejection
from amends_pipeline.bank.export import parse_command, parse_correction, parse_group
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
    plain,
)
from amends_pipeline.kernel.display import shown

_SOME_TIME: Final = "0001-01-01T00:00:00.000Z"


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
    try:
        booked = parse_command(command)
        reason = _text(adjustment_reason, "adjustment_reason")
        group = _group([booked], None, reason)
    except RefusedError as refused:
        return refused.rejection
    return Request(group, _asked(group))


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
    try:
        link, booked = parse_correction(correction), parse_command(replacement)
        name = "reversal_business_operation_id"
        operation = _text(reversal_business_operation_id, name)
        if not grammar.is_identifier(operation):
            expected = "an identifier of 1 to 64 characters"
            return Rejection(Code.INVALID_IDENTIFIER, name, expected, shown(operation))
        reason = _text(adjustment_reason, "adjustment_reason")
        # Until the original is known, the replacement's legs stand for its.
        undone = msgspec.structs.replace(
            booked,
            journal_id=link.reversal_journal_id,
            business_operation_id=operation,
            legs=reverse(booked),
        )
        group = _group([undone, booked], link, reason)
    except RefusedError as refused:
        return refused.rejection
    return Request(group, _asked(group))


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
        for journal in group.journals:
            command = journal.command
            history.journals[command.journal_id] = command.legs
            history.operations.add(command.business_operation_id)
        link = group.correction
        if link is not None:
            history.corrections.add(link.correction_id)
            history.reversals.add(link.reversal_journal_id)
            history.reversed.add(link.original_journal_id)
    return history


def _with_original(wanted: Group, link: Correction, groups: Iterable[Group]) -> Group:
    """Put the original's legs into the reversal; an original that is not there changes nothing."""
    for group in groups:
        for journal in group.journals:
            if journal.command.journal_id == link.original_journal_id:
                reversal, replacement = wanted.journals
                legs = reverse(journal.command)
                command = msgspec.structs.replace(reversal.command, legs=legs)
                reversal = msgspec.structs.replace(reversal, command=command)
                return msgspec.structs.replace(wanted, journals=(reversal, replacement))
    return wanted


def _placed(wanted: Group, standing: Standing, clocks: Sequence[str]) -> Group:
    """Give a group the next sequences and the clock, which for the ledger never moves back."""
    recorded_at, journals = standing.recorded_at or "", []
    first = standing.last_sequence + 1
    for number, (journal, clock) in enumerate(zip(wanted.journals, clocks, strict=False)):
        recorded_at = max(recorded_at, clock)
        placed = msgspec.structs.replace(
            journal, sequence=str(first + number), recorded_at=recorded_at
        )
        journals.append(placed)
    return msgspec.structs.replace(wanted, group_id=f"G-{first}", journals=tuple(journals))


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


def _group(commands: Sequence[Command], link: Correction | None, reason: str) -> Group:
    """Return the group of these commands, its structure judged. Raises `RefusedError`."""
    scope = commands[-1]
    journals = tuple(
        Journal(command, str(number), _SOME_TIME, reason)
        for number, command in enumerate(commands, start=1)
    )
    group = Group(
        GROUP_VERSION,
        "G",
        "posting" if link is None else "correction",
        scope.ledger_id,
        scope.entity_id,
        _SOME_TIME,
        journals,
        link,
    )
    parse_group(plain(group), "command")
    return msgspec.structs.replace(group, available_at=NO_RECEIPT)


def _text(value: object, where: str) -> str:
    if type(value) is str and grammar.is_whole_text(value):
        return value
    found = shown(value) if type(value) is str else f"a value of type {type(value).__name__}"
    raise RefusedError(Rejection(Code.INVALID_SCHEMA, where, "text", found))
