"""What every command is handed: the way to the ledger, and the way to answer."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from amends_pipeline.cli.opening import opened
from amends_pipeline.cli.output import Output
from amends_pipeline.cli.progress import Meters, meters
from amends_pipeline.kernel.display import escape_terminal
from amends_pipeline.kernel.errors import AmendsError, UnknownNamespace

if TYPE_CHECKING:
    from amends_pipeline.ports import Ledger

LONGEST_NAME = 63
"""Characters of a namespace. Of a longer text only so much is compared."""


@dataclass(frozen=True, slots=True)
class Session:
    """One call of `amends`. Tests put another `opening` in."""

    home: Path | None = None
    """AMENDS_HOME, where the option `--home` was given."""
    opening: Callable[[Path | None], AbstractContextManager[Ledger]] = opened
    as_json: bool = False
    quiet: bool = False
    out: Output = field(default_factory=Output)

    @contextmanager
    def ledger(self) -> Iterator[Ledger]:
        """Open the ledger, for a block. A namespace that is missing is told with those like it."""
        with self.opening(self.home) as ledger:
            try:
                yield ledger
            except UnknownNamespace as error:
                error.expected += _like(ledger, error.name)
                raise

    def meters(self) -> AbstractContextManager[Meters]:
        """Tell about long work on standard error, for a block."""
        return meters(quiet=self.quiet)

    def say(self, text: str) -> None:
        """Say something on standard error, unless people want quiet."""
        if not self.quiet:
            complain(text)


def _like(ledger: Ledger, name: str) -> str:
    from difflib import get_close_matches

    try:
        names = [info.namespace for info in ledger.store.namespaces()]
    except AmendsError:  # the first failure is the one to tell
        return ""
    near = get_close_matches(name[:LONGEST_NAME], names)
    return f", perhaps {' or '.join(near)}" if near else ""


def next_step(step: str) -> str:
    """Return the line that tells what a person can do next."""
    return f"next step: {step}"


def complain(text: str) -> None:
    """Write one line on standard error, safe for a terminal."""
    with suppress(OSError):  # who closed standard error cannot be told anything
        click.echo(escape_terminal(text), err=True)


def answering(function: Callable[..., int | None]) -> Callable[..., int | None]:
    """Give a command `--json` and `--quiet`, and a Session that knows both.

    What the command returns is the exit status; None is 0.
    """

    @click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
    @click.option("--quiet", is_flag=True, help="Show no progress.")
    @click.pass_obj
    @functools.wraps(function)
    def command(
        session: Session, /, *, as_json: bool, quiet: bool, **parameters: object
    ) -> int | None:
        try:
            return function(replace(session, as_json=as_json, quiet=quiet), **parameters)
        except AmendsError as error:
            from amends_pipeline.flows.next_step import after_error, on_command_line

            if step := after_error(error, on_command_line(str(parameters.get("namespace", "")))):
                error.add_note(next_step(step))
            raise

    return command


class Integer(click.IntRange):
    """An integer in a range. Click's own name for one, "integer range", is no word for people."""

    name = "integer"


namespace_option = click.option(
    "--namespace", required=True, metavar="N", help="The namespace, by name."
)
