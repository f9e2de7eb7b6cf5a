"""How each way of failing ends: one line on standard error, a status, never a traceback."""

from __future__ import annotations

import errno
import json
import sys
from contextlib import contextmanager

import click
import pytest
from click.testing import CliRunner

from amends_pipeline.cli.inventory import inventory
from amends_pipeline.cli.output import Output
from amends_pipeline.cli.program import NOUNS, Noun, program
from amends_pipeline.cli.session import Session
from amends_pipeline.kernel.errors import DatabaseUnavailable, Held, InputError
from amends_pipeline_tests.tables import configuration


def called(*arguments, failure):
    """Call `amends` where the ledger cannot be opened."""

    @contextmanager
    def opening(_home):
        raise failure
        yield

    return CliRunner().invoke(program, arguments, obj=Session(opening=opening))


HINT = "AMENDS_DEBUG=1 shows where it happened\n"
VIEW = ("inventory", "view", "--namespace", "main")


@pytest.mark.parametrize(
    ("failure", "status", "complaint"),
    [
        (
            InputError("here", expected="this", found="that"),
            2,
            "error: here: expected this, found that\n",
        ),
        (
            Held("here", expected="this", found="that"),
            3,
            "error: here: expected this, found that\n",
        ),
        (
            DatabaseUnavailable("db", expected="a server", found="postgresql://u:secret@h/d"),
            3,
            "error: db: expected a server, found postgresql://u:***@h/d\n",
        ),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (BrokenPipeError(), 141, ""),
        (
            RuntimeError("two\nlines\x1b"),
            3,
            f"internal error: RuntimeError: two\\nlines\\x1b\n{HINT}",
        ),
        (
            ValueError("cannot read postgresql://u:secret@h/d"),
            3,
            f"internal error: ValueError: cannot read postgresql://u:***@h/d\n{HINT}",
        ),
    ],
)
def test_failures_are_told_in_one_line(monkeypatch, failure, status, complaint):
    monkeypatch.delenv("AMENDS_DEBUG", raising=False)
    result = called(*VIEW, failure=failure)
    assert (result.exit_code, result.stdout, result.stderr) == (status, "", complaint)


def test_the_place_of_an_unexpected_failure_is_shown_on_demand(monkeypatch):
    monkeypatch.setenv("AMENDS_DEBUG", "1")
    result = called(*VIEW, failure=ValueError("postgresql://u:secret@h/d"))
    assert result.exit_code == 3
    assert "Traceback (most recent call last):\n" in result.stderr
    assert "test_failures.py" in result.stderr
    assert "secret" not in result.stderr
    assert result.stderr.endswith("internal error: ValueError: postgresql://u:***@h/d\n")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("nothing",), "No such command 'nothing'."),
        (("--nothing",), "No such option '--nothing'."),
        (("inventory", "nothing"), "No such command 'nothing'."),
        (("inventory", "view"), "Missing option '--namespace'."),
        (("inventory", "append", "--namespace", "main"), "Missing argument 'FILE...'."),
        (("inventory", "provision"), "Missing argument 'CONFIG.json'."),
        ((*VIEW, "more"), "Got unexpected extra argument (more)"),
        (
            ("inventory", "append", "--namespace", "main", "--format", "xml", "-"),
            "Invalid value for '--format': 'xml' is not one of 'jsonl', 'csv'.",
        ),
        (
            ("inventory", "append", "--namespace", "main", "--partition", "-1", "-"),
            "Invalid value for '--partition': -1 is not in the range x>=0.",
        ),
        (
            ("inventory", "append", "--namespace", "main", "--partition", "p0", "-"),
            "Invalid value for '--partition': 'p0' is not a valid integer.",
        ),
        (
            ("inventory", "drain", "--namespace", "main", "--slice-records", "0"),
            "Invalid value for '--slice-records': 0 is not in the range x>=1.",
        ),
    ],
)
def test_wrong_usage_is_told_with_the_right_one(amends, arguments, complaint):
    result = amends.call(*arguments)
    assert (result.status, result.out) == (2, b"")
    usage, error = result.err.splitlines()
    assert usage.startswith("Usage: amends ")
    assert error.startswith(f"error: {complaint}")


@pytest.mark.parametrize("arguments", [(), ("inventory",)])
def test_without_a_command_there_is_help(amends, arguments):
    result = amends.call(*arguments)
    assert result.status == 2
    assert "Commands:" in result.err


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"{", 'config.json", line 1 column 2: expected well-formed JSON'),
        (b"\xff", 'config.json": expected UTF-8, found byte 0xff at 0'),
        (b"\xef\xbb\xbf{}", "expected UTF-8 without a byte order mark"),
        (b"[]", "configuration: expected an object, found []"),
        (b"{}", "configuration.schema_version: expected a member, found none"),
    ],
)
def test_a_configuration_that_is_none_is_wrong_input(bare, content, complaint):
    path = bare.folder / "config.json"
    path.write_bytes(content)
    result = bare("provision", path)
    assert (result.status, result.out) == (2, b"")
    assert complaint in result.err
    assert str(path) in result.err or complaint.startswith("configuration")


def test_a_configuration_that_cannot_be_read_is_wrong_input(bare):
    missing = bare("provision", bare.folder / "none.json")
    assert (missing.status, missing.out) == (2, b"")
    assert missing.err == (
        f'error: "{bare.folder / "none.json"}":'
        " expected a readable file, found No such file or directory\n"
    )
    folder = bare("provision", bare.folder)
    assert folder.status == 2
    assert folder.err.endswith("expected a readable file, found Is a directory\n")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"{", "expected well-formed JSON"),
        (b"[]", "error: "),
        (
            b'{"rejections": [{"partition": 0, "offset": 1.0, "code": "MALFORMED"}]}',
            "plain integer",
        ),
        (b'{"exclusions": []}', "exclusions"),
    ],
)
def test_a_manifest_that_is_none_is_wrong_input(amends, content, complaint):
    path = amends.folder / "manifest.json"
    path.write_bytes(content)
    result = amends.on("verify", "--accept", path)
    assert (result.status, result.out) == (2, b"")
    assert complaint in result.err


PROVISION = (
    "next step: Provision it: amends inventory provision CONFIG.json."
    " Those that are there: amends inventory namespaces.\n"
)


@pytest.mark.parametrize(
    "command", ["drain", "view", "outbox", "quarantine", "verify", "status", "reproject"]
)
def test_a_namespace_that_is_not_there_is_wrong_input(amends, command):
    result = amends(command, "--namespace", "nowhere", "--json")
    assert (result.status, result.out) == (2, b"")
    assert result.err == (
        'error: namespace: expected one that was provisioned, found none of the name "nowhere"\n'
        f"{PROVISION}"
    )
    assert amends(command, "--namespace", "mian").err == (
        "error: namespace: expected one that was provisioned, perhaps main,"
        ' found none of the name "mian"\n'
        f"{PROVISION}"
    )


class Refusing:
    """A standard output that takes nothing."""

    def __init__(self, failure):
        self.buffer = self
        self._failure = failure

    def write(self, _data):
        raise self._failure

    flush = write


def test_output_that_is_refused_is_an_operation_error(monkeypatch):
    monkeypatch.setattr(sys, "stdout", Refusing(OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(Exception, match="found No space left on device"):
        Output().write(b"x")
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(Exception, match="standard output: expected an open file"):
        Output().write(b"x")
    Output().flush()


def test_home_is_handed_to_who_opens_the_ledger(tmp_path):
    homes = []

    @contextmanager
    def opening(home):
        homes.append(home)
        raise InputError("here", expected="this", found="that")
        yield

    for arguments in (("--home", str(tmp_path)), ()):
        CliRunner().invoke(program, [*arguments, *VIEW], obj=Session(opening=opening))
    assert homes == [tmp_path, None]


def test_help_names_every_command_of_the_contract(amends):
    text = amends.call("inventory", "--help").text
    commands = "provision append drain view outbox quarantine verify status explain set-aside"
    for command in [*commands.split(), "reproject", "namespaces"]:
        assert f"\n  {command} " in text
        assert "--json" in amends.call("inventory", command, "--help").text


def test_help_is_whole(amends):
    """A terminal of 80 columns cuts no summary, and no option goes without a word on it."""
    summaries = amends.call("inventory", "--help").text
    assert "..." not in summaries.partition("Commands:")[2]
    for command in inventory.commands.values():
        for parameter in command.params:
            assert isinstance(parameter, click.Argument) or parameter.help, command.name


def test_the_version_is_that_of_the_package(amends):
    assert amends.call("--version").text.startswith("amends, version ")


def test_json_stays_alone_on_standard_output(amends):
    """Whatever is printed with --json is JSON to its last byte."""
    amends.append("A r1 NEW day 1 -50\nmalformed")
    for command in ("drain", "view", "outbox", "quarantine", "status", "verify", "reproject"):
        for line in amends.on(command, "--json").out.splitlines():
            assert isinstance(json.loads(line), dict)


def test_nouns_that_are_not_installed_are_not_offered(amends, monkeypatch):
    gone = Noun("amends_pipeline.cli.nowhere", "gone", "Nothing.")
    monkeypatch.setitem(NOUNS, "gone", gone)
    assert "gone" not in amends.call("--help").text
    assert amends.call("gone").status == 2


def test_a_configuration_beside_its_keys(bare):
    rows = ["item,location,opening_balance,reorder_threshold,partition", "X,Y,1,0,"]
    (bare.folder / "keys.csv").write_text("\n".join(rows))
    path = bare.folder / "config.json"
    path.write_text(json.dumps(configuration() | {"keys": {"path": "keys.csv"}}))
    assert bare("provision", path, "--json").document["keys"] == 1
