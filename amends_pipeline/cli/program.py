"""The command `amends` itself: its nouns, and how each way of failing ends.

Exit status: 0 success, 1 a negative verdict, 2 wrong usage or input, 3 an operation error, 130
interrupted, 141 nobody reads what is printed.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import click
from click.shell_completion import shell_complete

from amends_pipeline.cli.output import abandon, refused
from amends_pipeline.cli.session import Session, complain
from amends_pipeline.kernel.errors import AmendsError

NAME = "amends"
DEBUG_VARIABLE = "AMENDS_DEBUG"
COMPLETE_VARIABLE = "_AMENDS_COMPLETE"
"""A shell sets it when it asks how a line may go on."""
OPERATION_ERROR = 3
INTERRUPTED = 130
NOBODY_READS = 141  # what a shell says of a process that SIGPIPE ended


class Noun(NamedTuple):
    """A subcommand that is imported when it is called, and its line in the help."""

    module: str
    command: str
    help: str


NOUNS = {
    "bank": Noun(
        "amends_pipeline.cli.bank", "bank", "Exact balances from committed journals, two cutoffs."
    ),
    "demo": Noun(
        "amends_pipeline.cli.demo",
        "demo",
        "Tell the stories of both ledgers, run by Dagster, verified.",
    ),
    "inventory": Noun(
        "amends_pipeline.cli.inventory", "inventory", "Daily balances and alerts of stock keys."
    ),
    "up": Noun("amends_pipeline.cli.up", "up", "Run Dagster and the private database."),
}


class Program(click.Group):
    """The root group. It imports a noun only when it is asked for, and shows nobody a traceback."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Name the nouns that are installed."""
        return [name for name, noun in NOUNS.items() if find_spec(noun.module) is not None]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a noun."""
        if cmd_name not in self.list_commands(ctx):
            return None
        noun = NOUNS[cmd_name]
        command: click.Command = getattr(import_module(noun.module), noun.command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the nouns without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, NOUNS[name].help) for name in self.list_commands(ctx)])

    def main(  # type: ignore[override] # click overloads it for a mode that we do not have
        self,
        args: Sequence[str] | None = None,
        **extra: Any,  # noqa: ANN401 - what click's own signature says
    ) -> NoReturn:
        """Run with `args` (the process's own if None), and end the process with a status."""
        arguments = sys.argv[1:] if args is None else list(args)
        extra.pop("prog_name", None)  # whatever file started us, help and messages say `amends`
        sys.exit(self._ended(arguments, extra))

    def _ended(self, arguments: list[str], extra: Mapping[str, Any]) -> int:
        """Run, tell on standard error what went wrong, and return the exit status."""
        try:
            if instruction := os.environ.get(COMPLETE_VARIABLE):
                return shell_complete(self, {}, NAME, COMPLETE_VARIABLE, instruction)
            with self.make_context(NAME, arguments, **extra) as context:
                status = self.invoke(context)
                Session().out.flush()
        except click.exceptions.Exit as ended:
            status = ended.exit_code
        except click.ClickException as error:
            status = _tell_usage(error)
        except BrokenPipeError:
            abandon()
            status = NOBODY_READS
        except AmendsError as error:
            _tell(f"error: {error}", error)
            status = error.exit_status
        except (KeyboardInterrupt, click.Abort):
            complain("interrupted")
            status = INTERRUPTED
        except Exception as error:  # noqa: BLE001 - the last resort of a program for people
            status = _tell_unexpected(error)
        return status if isinstance(status, int) else 0


def _tell_usage(error: click.ClickException) -> int:
    """Tell what is wrong with the command line; click itself would show its words as they are."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        with suppress(OSError):  # as `complain`
            error.show()
        return error.exit_code
    context = getattr(error, "ctx", None)
    if context is not None:
        complain(context.get_usage())
    complain(f"error: {error.format_message()}")
    return error.exit_code


def _tell_unexpected(error: Exception) -> int:
    if isinstance(error, OSError) and _was_printing(error):
        refusal = refused(error)
        _tell(f"error: {refusal}", error)
        return refusal.exit_status
    _tell(f"internal error: {type(error).__name__}: {error}", error)
    if not os.environ.get(DEBUG_VARIABLE):
        complain(f"{DEBUG_VARIABLE}=1 shows where it happened")
    return OPERATION_ERROR


def _was_printing(error: OSError) -> bool:
    """Whether click was at it: it prints help, version and completions itself, past `Output`."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return frame.f_code is click.echo.__code__ and not frame.f_locals["err"]


def _tell(message: str, error: Exception) -> None:
    from amends_pipeline.cli.opening import without_passwords

    if os.environ.get(DEBUG_VARIABLE):
        for line in "".join(traceback.format_exception(error)).splitlines():
            complain(without_passwords(line))
    for line in (message, *getattr(error, "__notes__", ())):  # a note tells the next step
        complain(without_passwords(line))


@click.command(
    NAME,
    cls=Program,
    epilog=f'Bash completes words after eval "$({COMPLETE_VARIABLE}=bash_source {NAME})";'
    " zsh and fish have sources too.",
)
@click.option(
    "--home",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the private database; takes the place of AMENDS_HOME (.amends by default).",
)
@click.version_option(package_name="amends-pipeline", prog_name=NAME)
@click.pass_context
def program(context: click.Context, home: Path | None) -> None:
    """Ledgers whose derived facts stay true when their history is corrected.

    The ledger lies on the PostgreSQL server that AMENDS_POSTGRES_URL names; without it, amends
    starts a private one in its home and stops it again.
    """
    session = context.ensure_object(Session)
    if home is not None:
        context.obj = Session(home, session.opening)
