"""What commands of the bank are given: files, standard input, or a live stream."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from amends_pipeline.cli.reading import STANDARD_INPUT, check_named_once, standard_input
from amends_pipeline.flows.reading import readable
from amends_pipeline.kernel.display import shown

if TYPE_CHECKING:
    from amends_pipeline.bank.batches import Read
    from amends_pipeline.cli.progress import Advance, Meters
    from amends_pipeline.cli.session import Session

LAST_MOMENT = "9999-12-31T23:59:59.999Z"
LINES = ".jsonl"

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class Asking(NamedTuple):
    """What a command line says about one or two questions: files, or a live stream."""

    queries: Sequence[Path | None]
    groups: Path | None
    accounts: Path | None
    context: Path | None
    stream_id: str | None
    account_id: str | None
    effective: str | None
    knowledge: str | None
    then: tuple[str | None, str | None] = (None, None)
    """The cutoffs of the second question."""

    @property
    def files(self) -> list[Path]:
        """The files that were named."""
        named = (*self.queries, self.groups, self.accounts, self.context)
        return [path for path in named if path is not None]

    @property
    def cutoffs(self) -> list[tuple[str | None, str | None]]:
        """Economic and knowledge cutoff of each question to a stream."""
        return [(self.effective, self.knowledge), self.then][: len(self.queries)]


class Evidence(NamedTuple):
    """What a question is asked of: groups as they are read, and JSON values."""

    read: Read
    accounts: object
    context: object


class Lines:
    """The lines of a file, which is read as far as somebody asks, each time anew."""

    def __init__(self, path: Path) -> None:
        """Raises InputError where the file cannot be opened."""
        self._path = path
        with readable(_name_of(path)), path.open("rb") as lines:
            # What can be read only once, such as a pipe, is kept.
            self._kept = None if stat.S_ISREG(os.fstat(lines.fileno()).st_mode) else list(lines)

    def __iter__(self) -> Iterator[bytes]:
        """Yield lines with their ends. Raises InputError."""
        if self._kept is not None:
            yield from self._kept
            return
        with readable(_name_of(self._path)), self._path.open("rb") as lines:
            yield from lines


def value_of(path: Path) -> object:
    """Read the one JSON value of a file; - is standard input. Raises InputError."""
    from amends_pipeline.bank.export import read_value

    return read_value(_bytes_of(path), _name_of(path))


def values_of_groups(path: Path) -> object:
    """Read groups for the reference, which takes no more than so many; as `evidence_of`."""
    from amends_pipeline.bank.batches import read_line
    from amends_pipeline.bank.export import MAX_GROUPS

    if path.suffix != LINES:
        return value_of(path)
    values = []
    for number, line in enumerate(Lines(path), start=1):
        value = read_line(line, number, _name_of(path))
        # Of what is too much anyway only the number counts.
        values.append(value if number <= MAX_GROUPS else None)
    return values


def evidence_of(groups: Path, accounts: Path, context: Path, meters: Meters) -> Evidence:
    """Read the three files of an export; groups are an array or, in a .jsonl file, one a line.

    Raises InputError, for lines as they are read.
    """
    from amends_pipeline.bank import batches

    if groups.suffix != LINES:
        value = value_of(groups)
        return Evidence(lambda: batches.read_values(value), value_of(accounts), value_of(context))
    lines, name, told = Lines(groups), _name_of(groups), meters.start("history", "groups")
    return Evidence(
        lambda: batches.read_lines(_counted(lines, told), name),
        value_of(accounts),
        value_of(context),
    )


@contextmanager
def evidence_of_stream(session: Session, stream_id: str, meters: Meters) -> Iterator[Evidence]:
    """Look at a live stream as at an export, for a block; its groups can be read once."""
    from amends_pipeline.bank import batches
    from amends_pipeline.bank.values import Context, plain, write_group
    from amends_pipeline.flows.bank_export import looking

    with session.ledger() as ledger, looking(ledger.bank, stream_id) as export:
        told = meters.start("history", "groups")
        lines = _counted(map(write_group, export.groups), told)
        accounts = [plain(account) for account in export.accounts]
        context = plain(Context(export.head, ()))
        yield Evidence(lambda: batches.read_lines(lines), accounts, context)


def _counted(lines: Iterable[bytes], told: Advance) -> Iterator[bytes]:
    for line in lines:
        told(1)
        yield line


def query_about(
    evidence: Evidence, account_id: str, effective: str | None, knowledge: str | None
) -> dict[str, Any]:
    """Ask about an account of a live stream; by default all that is effective and known.

    An account that the stream does not have is asked about all the same: the fold refuses it.
    """
    from amends_pipeline.bank.values import QUERY_VERSION

    accounts: Any = evidence.accounts
    context: Any = evidence.context
    head = context["head"]
    currencies = [each["currency"] for each in accounts if each["account_id"] == account_id]
    return {
        "schema_version": QUERY_VERSION,
        "ledger_id": head["ledger_id"],
        "entity_id": head["entity_id"],
        "account_id": account_id,
        "currency": currencies[0] if currencies else "XXX",
        "effective_cutoff": LAST_MOMENT if effective is None else effective,
        "knowledge_cutoff": head["observed_at"] if knowledge is None else knowledge,
        "checkpoint": None,
    }


def _bytes_of(path: Path) -> bytes:
    with readable(_name_of(path)):
        return standard_input().read() if str(path) == STANDARD_INPUT else path.read_bytes()


def _name_of(path: Path) -> str:
    """Name a file for messages."""
    return "standard input" if str(path) == STANDARD_INPUT else shown(str(path))


def file_option(name: str, metavar: str, text: str, *, required: bool = True) -> Decorator:
    """Return the option for a file."""
    kind = click.Path(path_type=Path)
    return click.option(f"--{name}", metavar=metavar, type=kind, required=required, help=text)


def evidence_options(*, required: bool) -> Decorator:
    """Return the options for the three files of an export."""

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        for name, metavar, text in (
            ("context", "CONTEXT.json", "The trusted context."),
            ("accounts", "ACCOUNTS.json", "All accounts."),
            ("groups", "GROUPS", "The committed groups: an array, or one a line in a .jsonl file."),
        ):
            function = file_option(name, metavar, text, required=required)(function)
        return function

    return decorated


stream_option = click.option(
    "--stream", "stream_id", required=True, metavar="S", help="The ledger stream, by name."
)


def cutoff_option(name: str, text: str) -> Decorator:
    """Return the option for a cutoff of a question to a live stream."""
    return click.option(f"--{name}", metavar="TIME", help=text)


def moment_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command a live stream to ask, and both cutoffs."""
    for decorator in (
        cutoff_option("knowledge", "Knowledge cutoff; by default all that is known."),
        cutoff_option("effective", "Economic cutoff; by default everything."),
        click.option("--stream", "stream_id", metavar="S", help="Ask a live stream instead."),
    ):
        function = decorator(function)
    return function


def stream_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a question about an account of a live stream."""
    account = click.option("--account", "account_id", metavar="A", help="The account, of a stream.")
    return moment_options(account(function))


@contextmanager
def evidence(
    session: Session,
    groups: Path | None,
    accounts: Path | None,
    context: Path | None,
    stream_id: str | None,
) -> Iterator[Evidence]:
    """Read the files of an export, or a live stream, for a block. Raises UsageError, InputError."""
    with session.meters() as meters:
        if stream_id is not None and groups is accounts is context is None:
            with evidence_of_stream(session, stream_id, meters) as found:
                yield found
        elif stream_id is None and groups and accounts and context:
            check_named_once(map(str, (groups, accounts, context)))
            yield evidence_of(groups, accounts, context, meters)
        else:
            raise click.UsageError("Ask of all files, or of --stream.")


@contextmanager
def asked(session: Session, asking: Asking) -> Iterator[tuple[list[object], Evidence]]:
    """Return the questions and what they are asked of, from files or from a live stream.

    Raises UsageError for a mixture of the two, and InputError.
    """
    files = (asking.groups, asking.accounts, asking.context)
    live = asking.stream_id is not None and asking.account_id is not None
    if live and asking.files:
        raise click.UsageError("--stream takes the place of all files.")
    stray = (asking.stream_id, asking.account_id, asking.effective, asking.knowledge, *asking.then)
    whole = len(asking.files) == len(asking.queries) + len(files)
    if not live and (not whole or any(each is not None for each in stray)):
        raise click.UsageError("Ask of all files, or of --stream about --account.")
    check_named_once(map(str, asking.files))
    # The queries first: what is wrong with several files is told of the first of them.
    questions = [value_of(path) for path in asking.queries if path is not None]
    with evidence(session, *files, asking.stream_id) as found:
        if asking.account_id is not None:
            account_id = asking.account_id
            questions = [query_about(found, account_id, *each) for each in asking.cutoffs]
        yield questions, found
