"""`amends`: the command line over a ledger in memory, as a person or a program would call it."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from amends_pipeline.cli.program import program
from amends_pipeline.cli.session import Session
from amends_pipeline_tests.contracts.ledgers import MemoryLedger
from amends_pipeline_tests.tables import configuration, history


class Result(NamedTuple):
    """What a call printed, and its exit status."""

    status: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def rows(self) -> list[str]:
        """The printed lines, with single blanks where columns were aligned."""
        return [" ".join(line.split()) for line in self.text.splitlines()]

    @property
    def document(self):
        """The one JSON document that was printed, on one line."""
        [line] = self.out.splitlines()
        return json.loads(line)

    @property
    def documents(self) -> list:
        """The JSON lines that were printed. Nothing but a line feed ends a line."""
        assert self.out.endswith(b"\n") or not self.out
        return [json.loads(line) for line in self.out.split(b"\n")[:-1]]


class Amends:
    """Calls `amends inventory ...` in this process, over one ledger."""

    def __init__(self, folder):
        self.folder = folder
        self.ledger = MemoryLedger()

    def call(self, *arguments, given=None) -> Result:
        """Call `amends` with these arguments; `given` is its standard input."""

        @contextmanager
        def opening(_home):
            yield self.ledger

        runner = CliRunner()
        answer = runner.invoke(
            program, [str(each) for each in arguments], obj=Session(opening=opening), input=given
        )
        assert answer.exception is None or isinstance(answer.exception, SystemExit)
        return Result(answer.exit_code, answer.stdout_bytes, answer.stderr)

    def __call__(self, command, *arguments, given=None) -> Result:
        """Call `amends inventory COMMAND ...`."""
        return self.call("inventory", command, *arguments, given=given)

    def on(self, command, *arguments, given=None) -> Result:
        """Call `amends inventory COMMAND --namespace main ...`."""
        return self(command, "--namespace", "main", *arguments, given=given)

    def provision(self, document=None) -> None:
        """Provision a configuration; by default keys a and b at 100, threshold 60."""
        path = self.folder / "config.json"
        path.write_text(json.dumps(document or configuration()))
        assert self("provision", path).status == 0

    def append(self, text: str) -> None:
        """Append a history in the words of `tables`."""
        given = b"\n".join(line.value for line in history(text))
        result = self.on("append", "-", given=given)
        assert (result.status, result.err) == (0, "")

    def drained(self, text: str, *arguments) -> Result:
        """Append a history and drain it."""
        self.append(text)
        return self.on("drain", *arguments)


@pytest.fixture
def bare(tmp_path) -> Amends:
    """A ledger with nothing in it."""
    return Amends(tmp_path)


@pytest.fixture
def amends(bare) -> Amends:
    """A ledger with the namespace `main`."""
    bare.provision()
    return bare
