"""Groups by the batch: the fast reader of an export. It only ever says yes.

`export` is the meaning: shape and grammar, member by member. Here a typed decoder reads a group,
and what that decoder lets pass is closed by proof, for many groups at once. Whatever is not proven
goes to `export`, so that no group is refused by the fast reader alone. Tests hold the two equal.

The typed decoder refuses by itself: other types; missing, null and unknown members; other versions,
kinds and sides; of bytes also what is not JSON in UTF-8, and lone surrogates. What it lets pass:

- A member that stands twice in bytes; the last one wins. Every name and every text of a group
  brings two quotation marks, and each further member at least two more. A batch without a backslash
  that has exactly the quotation marks of its groups holds no member twice.
- Text outside its grammar. Identifiers, timestamps, amounts and sequences of a batch are judged as
  one text each.
- A group against its own rules. Those are looked at one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

import msgspec

from amends_pipeline.bank import export, grammar, members
from amends_pipeline.bank.codes import RefusedError
from amends_pipeline.bank.export import MAX_LEGS
from amends_pipeline.bank.grammar import MONTH_END
from amends_pipeline.bank.values import Group
from amends_pipeline.kernel.errors import StrictJsonError
from amends_pipeline.kernel.instants import DATE_END

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from amends_pipeline.bank.values import Command, Journal

BATCH: Final = 256
"""Groups proven together. One odd group costs the others of its batch a second look."""

_decode = msgspec.json.Decoder(Group).decode

# Quotation marks that begin or end a name or a text of a group, outside in.
_GROUP_QUOTES = 2 * (8 + 6)  # eight names; six texts, since journals and correction are none
_JOURNAL_QUOTES = 2 * (4 + 3)
_COMMAND_QUOTES = 2 * (10 + 9)
_LEG_QUOTES = 2 * (3 + 3)
_CORRECTION_QUOTES = 2 * (5 + 5)

_identifiers = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.:-]{0,62}[A-Za-z0-9])?\n)*+").fullmatch
_times_of_day = re.compile(
    r"(?:T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\.[0-9]{3}Z\n)*+"
).fullmatch
_numbers = re.compile(r"(?:[1-9][0-9]{0,29}\n)*+").fullmatch


def read_values(values: object) -> Iterator[tuple[int, list[Group]]]:
    """Read groups from JSON values, as batches with the number of their first group, from 1.

    Raises `RefusedError` for the first value that is no group, and where `values` yields none.
    """
    start = 1
    iterator = _elements(values)
    while batch := list(islice(iterator, BATCH)):
        yield (
            start,
            _typed_values(batch)
            or [
                export.parse_group(value, f"group {number}")
                for number, value in enumerate(batch, start)
            ],
        )
        start += len(batch)


def read_lines(lines: Iterable[bytes]) -> Iterator[tuple[int, list[Group]]]:
    r"""Read groups from JSON lines as `read_values` does; a line may end with its `\n`.

    Raises `StrictJsonError` where any line is not JSON in UTF-8, or blank, or ends with `\r`; else
    `RefusedError` for the first that is no group.
    """
    start = 1
    iterator = iter(lines)
    while batch := list(islice(iterator, BATCH)):
        yield start, _typed_lines(batch) or _carefully(batch, start, iterator)
        start += len(batch)


def _elements(values: object) -> Iterator[object]:
    if isinstance(values, Iterable) and not isinstance(values, dict | str | bytes):
        return iter(values)
    return iter(members.parsed("groups", members.array, values))


def _carefully(batch: list[bytes], start: int, rest: Iterator[bytes]) -> list[Group]:
    groups = []
    numbered = enumerate(chain(batch, rest), start)
    for number, line in islice(numbered, len(batch)):
        value = read_line(line, number)
        try:
            groups.append(export.parse_group(value, f"group {number}"))
        except RefusedError:
            # A file that cannot be read is no export at all, so that it is read to its end first.
            for later, further in numbered:
                read_line(further, later)
            raise
    return groups


def read_line(line: bytes, number: int) -> object:
    r"""Read one group of a JSON lines file, the `number`th; it may end with its `\n`.

    Returns what `export.read_value` does. Raises `StrictJsonError`.
    """
    where = f"groups, line {number}"
    content = line.removesuffix(b"\n")
    if content.endswith(b"\r"):
        raise StrictJsonError(where, expected="an end of line without carriage return", found="one")
    return export.read_value(content, where)


def _typed_values(batch: list[object]) -> list[Group] | None:
    try:
        groups = msgspec.convert(batch, list[Group])
    except (msgspec.MsgspecError, UnicodeEncodeError):  # the latter for a lone surrogate
        return None
    return groups if _proven(groups) else None


def _typed_lines(batch: list[bytes]) -> list[Group] | None:
    joined = b"".join(batch)
    if b"\\" in joined or b"\r" in joined:
        return None
    try:
        groups = list(map(_decode, batch))
    except msgspec.MsgspecError:
        return None
    if joined.count(b'"') != sum(map(_quotes, groups)):
        return None
    return groups if _proven(groups) else None


def _quotes(group: Group) -> int:
    quotes = _GROUP_QUOTES + (_JOURNAL_QUOTES + _COMMAND_QUOTES) * len(group.journals)
    for journal in group.journals:
        quotes += _LEG_QUOTES * len(journal.command.legs)
    return quotes if group.correction is None else quotes + _CORRECTION_QUOTES


def _proven(groups: Sequence[Group]) -> bool:
    """Prove the points above but the first for groups that the typed decoder let pass.

    Texts are gathered by their grammar; one by one, only a group's own rules are looked at.
    """
    identifiers: list[str] = []
    timestamps: list[str] = []
    numbers: list[str] = []
    few: set[str] = set()  # identifiers that many groups share
    free: set[str] = set()  # texts of no grammar
    pairs: list[tuple[Journal, Journal]] = []
    for group in groups:
        journals = group.journals
        link = group.correction
        if link is not None:
            if group.kind == "posting" or len(journals) != 2:  # noqa: PLR2004 - a pair
                return False
            pairs.append((journals[0], journals[1]))
            identifiers += (
                link.correction_id,
                link.original_journal_id,
                link.reversal_journal_id,
                link.replacement_journal_id,
            )
            free.add(link.reason)
        elif group.kind == "correction" or len(journals) != 1:
            return False
        identifiers.append(group.group_id)
        timestamps.append(group.available_at)
        few.add(group.ledger_id)
        few.add(group.entity_id)
        for journal in journals:
            command = journal.command
            effective_at = command.effective_at
            identifiers += (command.journal_id, command.business_operation_id)
            timestamps += (effective_at, command.source_available_at, journal.recorded_at)
            few.add(command.ledger_id)
            few.add(command.entity_id)
            free.add(command.currency)
            if command.booking_period != effective_at[:MONTH_END] or journal.adjustment_reason:
                if not _is_explained(command, journal.adjustment_reason):
                    return False
                free.add(journal.adjustment_reason)
            legs = command.legs
            accounts = {leg.account_id for leg in legs}
            if not 1 < len(accounts) <= len(legs) <= MAX_LEGS:
                return False
            few |= accounts
            numbers.append(journal.sequence)
            numbers += [leg.amount_minor for leg in legs]
    return (
        _all_match(_identifiers, [*identifiers, *few])
        and _all_match(_numbers, numbers)
        and _all_match(_times_of_day, [text[DATE_END:] for text in timestamps])
        and all(map(grammar.is_day.__getitem__, {text[:DATE_END] for text in timestamps}))
        and all(map(grammar.is_whole_text, free))
        and all(int(one.sequence) + 1 == int(other.sequence) for one, other in pairs)
    )


def _is_explained(command: Command, reason: str) -> bool:
    """Tell whether the reason of a booking outside its economic month, or for none, is right."""
    if command.booking_period == command.effective_at[:MONTH_END]:
        return not reason
    return grammar.is_booking_period(command.booking_period) and bool(reason.strip())


def _all_match(match_lines: Callable[[str], object], texts: list[str]) -> bool:
    joined = "\n".join([*texts, ""])
    # A text that holds a line end itself would look like two.
    return joined.count("\n") == len(texts) and match_lines(joined) is not None
