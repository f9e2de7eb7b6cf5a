"""Every error that a user of amends can meet, drawn once.

    AmendsError                  "where: expected X, found Y"; never raised itself
      InputError                 exit status 2: something given to us is wrong
        ConfigurationError         a namespace's configuration, naming the member at fault
        StrictJsonError            bytes that are not JSON as we read it
          AmbiguousJsonError         JSON about whose meaning readers differ
        UnknownNamespace           a name under which nothing was provisioned
        UnknownStream              a ledger stream that was never opened
        AlreadyLanded              a file whose records were appended before
      OperationError             exit status 3: the work could not be done
        CloseOverflow              a record after which a close leaves signed 64 bits
        Fenced                     another owner has a later epoch
        FrontierMoved              progress is not where a commit expected it
        CounterExhausted           a version or a sequence would leave signed 64 bits
        Held                       a lock is held, and by whom
        ForeignIncarnation         the source is not the one the namespace was bound to
        SourceTruncated            the source no longer reaches, or no longer holds, what comes next
        Contended                  the database ended a transaction for the sake of another
        OutcomeUnknown             a commit or a claim whose reply never came
        DatabaseUnavailable        no server, no answer, or a refusal
        SchemaTooNew               the database was migrated by a later version
        ProtocolStop               the view met an envelope that it must not apply

Exit status 1 is no error: it is a negative verdict. A raw exception of Python, a driver or a
library never reaches a user; whoever calls such code turns it into one of these.
"""

# ruff: noqa: N818 - errors are named for what happened, as a person would tell it

from __future__ import annotations

from typing import Any, ClassVar

from amends_pipeline.kernel.display import escape_terminal, shown
from amends_pipeline.kernel.instants import day_text


class AmendsError(Exception):
    """A failure told in three parts: where, what was expected, what was found.

    The parts are kept as given. The message, `str(error)`, is one line without characters that act
    on a terminal, whatever the parts hold.
    """

    exit_status: ClassVar[int]

    def __init__(self, where: str, *, expected: str, found: str) -> None:
        """Keep the three parts; `shown` of `kernel.display` puts values from outside into them."""
        super().__init__(where, expected, found)
        self.where = where
        self.expected = expected
        self.found = found

    def __str__(self) -> str:
        """Return "where: expected X, found Y" on one line."""
        return escape_terminal(f"{self.where}: expected {self.expected}, found {self.found}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Survive the way back from another process, which named arguments alone do not."""
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[AmendsError], args: tuple[Any, ...], parts: dict[str, Any]) -> AmendsError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(parts)
    return error


class InputError(AmendsError):
    """Something given by a person or a file is wrong; the same input fails again."""

    exit_status: ClassVar[int] = 2


class ConfigurationError(InputError):
    """A configuration that no namespace can have."""


class StrictJsonError(InputError):
    """Bytes that are not one JSON value as `kernel.strict_json` reads it."""


class AmbiguousJsonError(StrictJsonError):
    """JSON about whose meaning readers differ, such as two members with one name."""


class UnknownNamespace(InputError):
    """No namespace was provisioned under the name."""

    def __init__(self, name: str) -> None:
        """Name what was asked for."""
        found = f"none of the name {shown(name)}"
        super().__init__("namespace", expected="one that was provisioned", found=found)
        self.name = name


class UnknownStream(InputError):
    """No ledger stream was opened under the name."""


class AlreadyLanded(InputError):
    """A file with the same bytes was appended to the source before."""


class OperationError(AmendsError):
    """The input may be right, but the work could not be done."""

    exit_status: ClassVar[int] = 3


class CloseOverflow(OperationError):
    """The first record after which a READY key's close does not fit a signed 64-bit integer."""

    def __init__(self, partition: int, offset: int, stock_key: tuple[str, str], day: int) -> None:
        """Name the record by partition and offset, then (item, location) and day number."""
        item, location = stock_key
        super().__init__(
            f"partition {partition}, offset {offset}",
            expected="closes that fit a signed 64-bit integer",
            found=f"one of item {shown(item)} at location {shown(location)}"
            f" on {day_text(day)} that does not fit",
        )
        self.partition = partition
        self.offset = offset
        self.stock_key = stock_key
        self.day = day


class Fenced(OperationError):
    """Another run owns the unit now; this one ends and does not claim again by itself."""


class FrontierMoved(OperationError):
    """Progress is not where a commit expected it; nothing of the commit was installed."""


class CounterExhausted(OperationError):
    """A version or a sequence would leave signed 64 bits."""


class Held(OperationError):
    """A lock is held by someone else; the message says by whom."""


class ForeignIncarnation(OperationError):
    """The source has another incarnation than the one bound to the namespace."""


class SourceTruncated(OperationError):
    """The source starts after, or ends before, the offset that comes next."""


class Contended(OperationError):
    """The database ended a transaction for the sake of another; asked again, it may succeed."""


class OutcomeUnknown(OperationError):
    """A reply never came; what was asked for may or may not have happened."""


class DatabaseUnavailable(OperationError):
    """The database cannot be reached or refuses to work."""


class SchemaTooNew(OperationError):
    """The database schema is newer than this version of amends understands."""


class ProtocolStop(OperationError):
    """The view met an envelope that breaks the output protocol and stopped before it."""
