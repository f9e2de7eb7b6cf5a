"""Groups by the batch: the fast reader of an export. It only ever says yes.

`export` is the meaning: shape and grammar, member by member. Here a typed decoder reads a group,
and what that decoder lets pass is closed by proof, for many groups at once. Whatever is not proven
goes to `export`, so that no group is refused by the fast reader alone. Tests hold the two equal.

The typed decoder refuses by itself: other types; missing, null and unknown members; other versions,
kinds and sides; of bytes also what is not JSON in UTF-8, and lone surrogates, which of values show
when the group is written. What it lets pass:

- A member that stands twice in bytes; the last one wins. Every name and every text of a group
  brings two quotation marks, and each further member at least two more. A batch without a backslash
  that has exactly the quotation marks of its groups holds no member twice.
- Text outside its grammar. Identifiers, timestamps, amounts and sequences of a batch are judged as
  one text each.
- A group against its own rules. Those that are not of the plainest form are looked at one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from amends_pipeline.bank import export, grammar, members
from amends_pipeline.bank.codes import RefusedError
from amends_pipeline.bank.columns import Columns
from amends_pipeline.bank.export import MAX_LEGS
from amends_pipeline.bank.grammar import MONTH_END
from amends_pipeline.bank.values import Group, read_group, write_group
from amends_pipeline.kernel.errors import StrictJsonError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from amends_pipeline.bank.values import Journal, Leg

    Read = Callable[[], Iterator["Batch"]]
    """Begins to read the groups of an export."""

BATCH: Final = 128
"""Groups proven together. One odd group costs the others of its batch a second look."""
_PAIR: Final = 2


class Batch(NamedTuple):
    """Groups that stand together in an export."""

    start: int
    """The number of the first, from 1."""
    groups: Sequence[Group]
    columns: Columns | None
    """None where the careful reader read them."""


# Quotation marks that begin or end a name or a text of a group, outside in.
_GROUP_QUOTES = 2 * (8 + 6)  # eight names; six texts, since journals and correction are none
_JOURNAL_QUOTES = 2 * (4 + 3)
_COMMAND_QUOTES = 2 * (10 + 9)
_LEG_QUOTES = 2 * (3 + 3)
_CORRECTION_QUOTES = 2 * (5 + 5)

_identifiers = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.:-]{0,62}[A-Za-z0-9])?\n)*+").fullmatch
_timestamps = re.compile(
    r"(?:(?!0000)(?:[0-9]{4}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])"
    r"|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
    r"|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)"
    r"T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\.[0-9]{3}Z\n)*+"
).fullmatch
_numbers = re.compile(r"(?:[1-9][0-9]{0,29}\n)*+").fullmatch


def read_values(values: object) -> Iterator[Batch]:
    """Read groups from JSON values, as batches with the number of their first group, from 1.

    Raises `RefusedError` for the first value that is no group, and where `values` yields none.
    """
    start = 1
    iterator = elements(values)
    while batch := list(islice(iterator, BATCH)):
        columns = _typed_values(batch)
        yield Batch(
            start,
            columns.groups
            if columns
            else [
                export.parse_group(value, f"group {number}")
                for number, value in enumerate(batch, start)
            ],
            columns,
        )
        start += len(batch)


def read_lines(lines: Iterable[bytes], name: str = "groups") -> Iterator[Batch]:
    r"""Read groups from JSON lines as `read_values` does; a line may end with its `\n`.

    Raises `StrictJsonError`, which calls the lines by `name`, where any of them is not JSON in
    UTF-8, or blank, or ends with `\r`; else `RefusedError` for the first that is no group.
    """
    start = 1
    iterator = iter(lines)
    while batch := list(islice(iterator, BATCH)):
        columns = _typed_lines(batch)
        yield Batch(
            start, columns.groups if columns else _carefully(batch, start, iterator, name), columns
        )
        start += len(batch)


def elements(values: object) -> Iterator[object]:
    """Return the elements of an array or of another iterable. Raises `RefusedError` for no such."""
    if isinstance(values, Iterable) and not isinstance(values, dict | str | bytes):
        return iter(values)
    return iter(members.parsed("groups", members.array, values))


def _carefully(batch: list[bytes], start: int, rest: Iterator[bytes], name: str) -> list[Group]:
    groups = []
    numbered = enumerate(chain(batch, rest), start)
    for number, line in islice(numbered, len(batch)):
        value = read_line(line, number, name)
        try:
            groups.append(export.parse_group(value, f"group {number}"))
        except RefusedError:
            # A file that cannot be read is no export at all, so that it is read to its end first.
            for later, further in numbered:
                read_line(further, later, name)
            raise
    return groups


def read_line(line: bytes, number: int, name: str) -> object:
    r"""Read the `number`th line of a JSON lines file called `name`; it may end with its `\n`.

    Returns what `export.read_value` does. Raises `StrictJsonError`.
    """
    content = line.removesuffix(b"\n")
    if content.endswith(b"\r"):
        where, expected = f"{name}, line {number}", "an end of line without carriage return"
        raise StrictJsonError(where, expected=expected, found="one")
    return export.read_value(content, name, number)


def _typed_values(batch: list[object]) -> Columns | None:
    try:
        groups = msgspec.convert(batch, list[Group])
        columns = Columns(groups, list(map(write_group, groups)))
    except (msgspec.MsgspecError, UnicodeEncodeError):  # the latter for a lone surrogate
        return None
    return columns if _proven(columns) else None


def _typed_lines(batch: list[bytes]) -> Columns | None:
    joined = b"".join(batch)
    if b"\\" in joined or b"\r" in joined:
        return None
    try:
        columns = Columns(list(map(read_group, batch)), batch)
    except msgspec.MsgspecError:
        return None
    if joined.count(b'"') != _quotes(columns):
        return None
    return columns if _proven(columns) else None


def _quotes(columns: Columns) -> int:
    return (
        _GROUP_QUOTES * len(columns.groups)
        + (_JOURNAL_QUOTES + _COMMAND_QUOTES) * len(columns.journals)
        + _LEG_QUOTES * sum(map(len, columns.legs))
        + _CORRECTION_QUOTES * len(columns.corrected)
    )


def _proven(columns: Columns) -> bool:
    """Prove the points above but the first for groups that the typed decoder let pass."""
    # Few are not of the plainest form. Those are looked at one by one.
    linked = [
        group
        for group in columns.groups
        if group.correction is not None or group.kind != "posting" or len(group.journals) != 1
    ]
    many = [
        legs
        for legs in columns.legs
        if len(legs) != _PAIR or legs[0].account_id == legs[1].account_id
    ]
    explained = [
        journal
        for journal in columns.journals
        if journal.adjustment_reason
        or journal.command.booking_period != journal.command.effective_at[:MONTH_END]
    ]
    return (
        all(map(_is_correction, linked))
        and all(map(_has_two_accounts, many))
        and all(map(_is_explained, explained))
        and _all_match(_identifiers, _identifiers_of(columns))
        and _all_match(_numbers, [leg.amount_minor for legs in columns.legs for leg in legs])
        and _all_match(_numbers, columns.sequences)
        and _all_match(
            _timestamps,
            [*columns.available, *columns.effective, *columns.offered, *columns.recorded],
        )
        and all(map(_is_consecutive, linked))
    )


def _identifiers_of(columns: Columns) -> list[str]:
    found = [
        *columns.group_ids,
        *columns.journal_ids,
        *columns.operations,
        *columns.accounts,
        *columns.ledgers,
        *columns.entities,
    ]
    for _, link in columns.corrected:
        found += (
            link.correction_id,
            link.original_journal_id,
            link.reversal_journal_id,
            link.replacement_journal_id,
        )
    return found


def _is_correction(group: Group) -> bool:
    return (
        group.kind == "correction" and group.correction is not None and len(group.journals) == _PAIR
    )


def _is_consecutive(group: Group) -> bool:
    """Tell whether the members of a correction follow each other; their grammar is proven."""
    one, other = group.journals
    return int(one.sequence) + 1 == int(other.sequence)


def _has_two_accounts(legs: tuple[Leg, ...]) -> bool:
    return 1 < len({leg.account_id for leg in legs}) <= len(legs) <= MAX_LEGS


def _is_explained(journal: Journal) -> bool:
    """Tell whether the reason of a booking outside its economic month, or for none, is right."""
    command, reason = journal.command, journal.adjustment_reason
    if command.booking_period == command.effective_at[:MONTH_END]:
        return not reason
    return grammar.is_booking_period(command.booking_period) and bool(reason.strip())


def _all_match(match_lines: Callable[[str], object], texts: list[str]) -> bool:
    joined = "\n".join([*texts, ""])
    # A text that holds a line end itself would look like two.
    return joined.count("\n") == len(texts) and match_lines(joined) is not None
