"""What commands of the bank are given: files, standard input, or a live stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import InputError

if TYPE_CHECKING:
    from amends_pipeline.cli.session import Session

LAST_MOMENT = "9999-12-31T23:59:59.999Z"
STANDARD_INPUT = "-"


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
    """JSON values that a fold takes, after its query."""

    groups: object
    accounts: object
    context: object


def value_of(path: Path) -> object:
    """Read the one JSON value of a file; - is standard input. Raises InputError."""
    from amends_pipeline.bank.export import read_value

    return read_value(_bytes_of(path), _name_of(path))


def groups_of(path: Path) -> object:
    """Read groups: one array or, where the name ends in .jsonl, one a line. Raises InputError."""
    from amends_pipeline.bank.batches import read_line

    if path.suffix != ".jsonl":
        return value_of(path)
    lines = _bytes_of(path).split(b"\n")
    if not lines[-1]:
        lines.pop()
    return [read_line(line, number) for number, line in enumerate(lines, start=1)]


def evidence_of(groups: Path, accounts: Path, context: Path) -> Evidence:
    """Read the three files of an export. Raises InputError."""
    return Evidence(groups_of(groups), value_of(accounts), value_of(context))


def evidence_of_stream(session: Session, stream_id: str) -> Evidence:
    """Look at a live stream as at an export. Raises InputError beyond the reference."""
    from amends_pipeline.bank.export import MAX_GROUPS
    from amends_pipeline.bank.values import Context, plain
    from amends_pipeline.flows.bank_export import looking

    with session.ledger() as ledger, looking(ledger.bank, stream_id) as export:
        groups = [plain(group) for group in islice(export.groups, MAX_GROUPS + 1)]
        if len(groups) > MAX_GROUPS:
            expected = f"at most {MAX_GROUPS} groups"
            found = "more: the stream is beyond the reference"
            raise InputError(f"stream {shown(stream_id)}", expected=expected, found=found)
        accounts = [plain(account) for account in export.accounts]
        return Evidence(groups, accounts, plain(Context(export.head, ())))


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
    from amends_pipeline.flows.reading import readable

    with readable(_name_of(path)):
        if str(path) == STANDARD_INPUT:
            from amends_pipeline.cli.reading import standard_input

            return standard_input().read()
        return path.read_bytes()


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


def stream_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a question to a live stream."""
    for decorator in (
        cutoff_option("knowledge", "Knowledge cutoff; by default all that is known now."),
        cutoff_option("effective", "Economic cutoff; by default everything."),
        click.option("--account", "account_id", metavar="A", help="The account, of a stream."),
        click.option("--stream", "stream_id", metavar="S", help="Ask a live stream instead."),
    ):
        function = decorator(function)
    return function


def asked(session: Session, asking: Asking) -> tuple[list[object], Evidence]:
    """Return the questions and what they are asked of, from files or from a live stream.

    Raises UsageError for a mixture of the two, and InputError.
    """
    if asking.stream_id is not None and asking.account_id is not None:
        if asking.files:
            raise click.UsageError("--stream takes the place of all files.")
        evidence = evidence_of_stream(session, asking.stream_id)
        account_id = asking.account_id
        return [query_about(evidence, account_id, *each) for each in asking.cutoffs], evidence
    *queries, groups, accounts, context = (
        *asking.queries,
        asking.groups,
        asking.accounts,
        asking.context,
    )
    stray = (asking.stream_id, asking.account_id, asking.effective, asking.knowledge, *asking.then)
    strayed = any(each is not None for each in stray)
    if strayed or groups is None or accounts is None or context is None or None in queries:
        raise click.UsageError("Ask of all files, or of --stream about --account.")
    values = [value_of(path) for path in queries if path is not None]
    return values, evidence_of(groups, accounts, context)
