"""One member of a JSON object after another: its type and grammar, or a fault that says where."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from amends_pipeline.bank import grammar
from amends_pipeline.bank.codes import Code, RefusedError, Rejection
from amends_pipeline.bank.values import OTHER_SIDE, Side
from amends_pipeline.kernel.display import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Member = Callable[[Mapping[str, object], str], Any]
    """Reads a member of an object by its name. Raises `Fault`."""

Parsed = TypeVar("Parsed")
Built = TypeVar("Built", bound=msgspec.Struct)


class Unusable:
    """Stands for JSON that has no one meaning. It is no JSON value: whoever meets it refuses it."""

    def __init__(self, expected: str, found: str) -> None:
        self.expected = expected
        self.found = found


class Fault(Exception):  # noqa: N818 - found while judging, not yet a refusal; stays in the room
    """What is wrong, on its way out to where it is known in which value."""

    def __init__(self, code: Code, expected: str, found: str, path: str = "") -> None:
        super().__init__(code, expected, found, path)
        self.code = code
        self.expected = expected
        self.found = found
        self.path = path

    def inside(self, step: str) -> Fault:
        """The same fault seen from one level further out."""
        dot = "." if self.path and not self.path.startswith("[") else ""
        return Fault(self.code, self.expected, self.found, f"{step}{dot}{self.path}")

    def rejection(
        self, where: str, group_id: str | None = None, sequence: str | None = None
    ) -> Rejection:
        """The fault of a value that is called `where`."""
        if sequence is not None:
            where = f"{where}, sequence {sequence}"
        if self.path:
            where = f"{where}: {self.path}"
        return Rejection(self.code, where, self.expected, self.found, group_id, sequence)


@contextmanager
def called(where: str) -> Iterator[None]:
    """Let a fault of the value called `where` become a refusal."""
    try:
        yield
    except Fault as fault:
        raise RefusedError(fault.rejection(where)) from None


def parsed(where: str, parse: Callable[[object], Parsed], value: object) -> Parsed:
    """Parse the value called `where`; its fault becomes a refusal."""
    with called(where):
        return parse(value)


def within(step: str, parse: Callable[[Any], Parsed], value: object) -> Parsed:
    """Parse a part of a value; its fault is told from outside."""
    try:
        return parse(value)
    except Fault as fault:
        raise fault.inside(step) from None


def each(step: str, parse: Callable[[Any], Parsed], values: Sequence[object]) -> tuple[Parsed, ...]:
    """Parse the elements of an array that is called `step`."""
    return tuple(within(f"{step}[{index}]", parse, value) for index, value in enumerate(values))


# The members of a value, one function a grammar.


def of(value: object, kind: type[msgspec.Struct]) -> dict[str, object]:
    """Return an object that has exactly the members of `kind`."""
    if not isinstance(value, dict):
        raise not_the_kind("an object", value)
    names = kind.__struct_fields__
    if len(value) != len(names) or not all(name in value for name in names):
        missing = [name for name in names if name not in value]
        unknown = [name for name in value if name not in names]
        found = f"no {missing[0]}" if missing else f"{_kind_of(unknown[0])} too"
        raise Fault(Code.INVALID_SCHEMA, f"the members {', '.join(names)}", found)
    return value


def array(value: object) -> list[object] | tuple[object, ...]:
    """Return an array as it is."""
    if type(value) is list or type(value) is tuple:
        return value
    raise not_the_kind("an array", value)


def not_the_kind(expected: str, value: object) -> Fault:
    """Return the fault of a value of another JSON type, or of none."""
    if isinstance(value, Unusable):
        return Fault(Code.INVALID_SCHEMA, value.expected, value.found)
    return Fault(Code.INVALID_SCHEMA, expected, _kind_of(value))


def reader(kind: type[Built], /, **members: Member) -> Callable[[object], Built]:
    """Make the reader of an object that has exactly the members of `kind`, read in their order."""
    assert tuple(members) == kind.__struct_fields__  # noqa: S101 - they are given by place
    named = tuple(members.items())

    def read(value: object) -> Built:
        given = of(value, kind)
        return kind(*[member(given, name) for name, member in named])

    return read


def part(parse: Callable[[Any], Any]) -> Member:
    """Make the reader of a member that has parts of its own."""
    return lambda given, name: within(name, parse, given[name])


def parts(parse: Callable[[Any], Any]) -> Member:
    """Make the reader of a member that is an array of such."""
    return lambda given, name: each(name, parse, within(name, array, given[name]))


def part_or_null(parse: Callable[[Any], Any]) -> Member:
    """Make the reader of a member that has parts, or is null."""
    return or_null(part(parse))


def text(given: Mapping[str, object], name: str) -> str:
    """Return a member that is any text with a UTF-8 form."""
    value = given[name]
    if type(value) is str and grammar.is_whole_text(value):
        return value
    raise _refused(Code.INVALID_SCHEMA, "text", given, name)


def version(version: str) -> Member:
    """Make the reader of a member that names this version."""

    def read(given: Mapping[str, object], name: str) -> str:
        if given[name] == version:
            return version
        raise _refused(Code.INVALID_SCHEMA, version, given, name)

    return read


def side(given: Mapping[str, object], name: str) -> Side:
    """Return a member that says debit or credit."""
    value = given[name]
    if type(value) is str and value in OTHER_SIDE:
        return value
    raise _refused(Code.INVALID_SCHEMA, "debit or credit", given, name)


def _of_grammar(
    judge: Callable[[str], bool], code: Code, expected: str
) -> Callable[[Mapping[str, object], str], str]:
    """Make the reader of a member whose text `judge` must let pass."""

    def read(given: Mapping[str, object], name: str) -> str:
        text = given[name]
        if type(text) is str and judge(text):
            return text
        raise _refused(code, expected, given, name)

    return read


def or_null(member: Member) -> Member:
    """Make the reader of a member that may be null."""
    return lambda given, name: None if given[name] is None else member(given, name)


_IDENTIFIER = "1 to 64 of letters, digits, _ . : - with a letter or digit at both ends"
identifier = _of_grammar(grammar.is_identifier, Code.INVALID_IDENTIFIER, _IDENTIFIER)
identifier_of_account = _of_grammar(grammar.is_identifier, Code.INVALID_ACCOUNTS, _IDENTIFIER)
timestamp = _of_grammar(
    grammar.is_timestamp, Code.INVALID_TIMESTAMP, "a time as YYYY-MM-DDThh:mm:ss.mmmZ"
)
booking_period = _of_grammar(
    grammar.is_booking_period, Code.INVALID_TIMESTAMP, "a month as YYYY-MM"
)
amount = _of_grammar(
    grammar.is_amount, Code.INVALID_AMOUNT, "1 to 30 digits, the first of them not 0"
)
balance = _of_grammar(
    grammar.is_balance,
    Code.INVALID_AMOUNT,
    f"0, or digits without leading 0, at most {grammar.MAX_BALANCE_LENGTH} characters",
)
sequence = _of_grammar(
    grammar.is_sequence, Code.INVALID_SEQUENCE, "1 to 30 digits, the first of them not 0"
)
head_sequence = _of_grammar(
    grammar.is_head_sequence, Code.INVALID_SEQUENCE, "0, or 1 to 30 digits without leading 0"
)
identifier_or_null = or_null(identifier)
timestamp_or_null = or_null(timestamp)


def _refused(code: Code, expected: str, given: Mapping[str, object], name: str) -> Fault:
    value = given[name]
    if type(value) is not str:
        return Fault(Code.INVALID_SCHEMA, "text", _kind_of(value), name)
    if not grammar.is_whole_text(value):
        return Fault(Code.INVALID_SCHEMA, "whole characters", shown(value), name)
    return Fault(code, expected, shown(value), name)


def _kind_of(value: object) -> str:
    """Name a value without following what it holds."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list | tuple):
        return "an array"
    if isinstance(value, str | int | float):
        return shown(value)
    return f"a value of Python's type {type(value).__name__}"
