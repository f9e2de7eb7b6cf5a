"""`amends bank …`: what it is given, named where it is wrong, and of any length."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from amends_pipeline.bank.export import parse_group
from amends_pipeline.flows.bank_open import open_stream
from amends_pipeline.flows.bank_stamp import stamp
from amends_pipeline_tests.bank.test_fold import many
from amends_pipeline_tests.cli.test_bank import CANONICAL, read, write
from amends_pipeline_tests.contracts.bank_bench import ACCOUNTS, STREAM, command

ASKED = {
    "fold": ("query", "groups", "accounts", "context"),
    "statement": ("query", "groups", "accounts", "context"),
    "explain": ("query", "second", "groups", "accounts", "context"),
    "balances": ("groups", "accounts", "context"),
}


@pytest.fixture
def files(tmp_path):
    """The canonical inputs, as files that a test may change."""
    for part in ASKED["fold"]:
        (tmp_path / f"{part}.json").write_bytes((CANONICAL / f"{part}.json").read_bytes())
    (tmp_path / "second.json").write_bytes((CANONICAL / "query.json").read_bytes())
    return tmp_path


def words(folder, name, **names):
    paths = {part: folder / f"{part}.json" for part in ASKED[name]} | names
    return [name, *(f"--{part}={path}" for part, path in paths.items())]


# --- names


@pytest.mark.parametrize(
    ("name", "part"), [(name, part) for name, parts in ASKED.items() for part in parts]
)
def test_a_file_that_is_no_json_is_named(bare, files, name, part):
    path = files / f"{part}.json"
    path.write_bytes(b'[\n{"a" 1}]')
    place = "line 2 column 6: expected well-formed JSON, found Expecting ':' delimiter"
    result = bare.call("bank", *words(files, name))
    assert (result.status, result.out) == (2, b"")
    assert result.err == f'error: "{path}", {place}\n'
    piped = bare.call("bank", *words(files, name, **{part: "-"}), given=path.read_text())
    assert piped.err == f"error: standard input, {place}\n"


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("bad", ["", "{", '{"a": 1.5', "\ufeff{}"])
def test_a_line_that_is_no_json_is_named_once(bare, files, name, bad):
    lines = [json.dumps(group) for group in read(files, "groups")]
    path = files / "many groups.jsonl"
    path.write_text("\n".join([*lines[:2], bad, *lines[2:]]))
    result = bare.call("bank", *words(files, name, groups=path))
    assert (result.status, result.out) == (2, b"")
    assert result.err.startswith(f'error: "{path}", line 3')
    assert result.err.count(", line ") == 1


@pytest.mark.parametrize("name", ASKED)
def test_lines_that_are_not_there_are_told_before_anything_else(bare, files, name):
    write(files, "accounts", "none")
    path = files / "nowhere.jsonl"
    result = bare.call("bank", *words(files, name, groups=path))
    expected = "expected a readable file, found No such file or directory"
    assert result.err == f'error: "{path}": {expected}\n'
    assert bare.call("bank", *words(files, name, groups=files)).status == 2


@pytest.mark.parametrize("name", ASKED)
def test_standard_input_is_read_once(bare, files, name):
    for one, other in zip(ASKED[name], ASKED[name][1:], strict=False):
        result = bare.call("bank", *words(files, name, **{one: "-", other: "-"}), given="{}")
        assert (result.status, result.out) == (2, b"")
        assert result.err == ("error: standard input: expected to be named once, found several -\n")


def test_an_export_goes_to_no_standard_output(bare, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    open_stream(bare.ledger.bank, STREAM, ACCOUNTS)
    asked = ["export", "--stream", STREAM.stream_id, "--accounts=a", "--context=c"]
    result = bare.call("bank", *asked, "--groups=-")
    assert (result.status, result.out, list(tmp_path.iterdir())) == (2, b"", [])
    assert result.err == "error: export: expected three files to write to, found -\n"
    assert bare.call("bank", *asked, "--groups=./-").status == 2
    assert bare.call("bank", *asked, f"--groups={tmp_path / '-'}").status == 0


@pytest.mark.parametrize("name", ASKED)
def test_lines_may_come_through_a_pipe(bare, files, name):
    lines = "\n".join(map(json.dumps, read(files, "groups")))
    pipe = files / "pipe.jsonl"
    os.mkfifo(pipe)
    expected = bare.call("bank", *words(files, name), "--json")
    with ThreadPoolExecutor(1) as writer:
        writer.submit(pipe.write_text, lines)
        result = bare.call("bank", *words(files, name, groups=pipe), "--json")
    assert (result.status, result.document) == (0, expected.document)


# --- balances


def test_the_balances_of_files(bare, files):
    given = words(files, "balances")
    result = bare.call("bank", *given)
    assert result.status == 0
    assert result.rows == [
        "account currency normal side raw balance balance",
        "ADA USD credit -97350 97350",
        "BEN USD credit 0 0",
        "CASH USD debit 100000 100000",
        "CORA USD credit -2400 2400",
        "FEES USD credit -250 250",
        "known through sequence 5 of head 5, RECEIPT-5",
    ]
    lines = bare.call("bank", *given, "--csv", "--effective=2025-10-20T23:59:59.999Z")
    assert lines.text.splitlines()[:2] == [
        "account_id,currency,normal_side,raw_balance_minor,normal_balance_minor",
        "ADA,USD,credit,-97600,97600",
    ]
    document = bare.call("bank", *given, "--json", "--knowledge=2025-10-21T10:00:00.999Z").document
    assert (document["status"], document["code"]) == ("ok", "BALANCE_FOLDED")
    assert document["balances"][0]["normal_balance_minor"] == "97500"
    assert document["coverage"]["visible_through_sequence"] == "2"


def test_balances_of_what_is_rejected_have_status_1(bare, files):
    write(files, "groups", read(files, "groups")[:-1])
    for form in ("--csv", "--json", "--quiet"):
        result = bare.call("bank", *words(files, "balances"), form)
        assert (result.status, json.loads(result.text)["code"]) == (1, "INCOMPLETE_EXPORT")
        assert result.err.startswith("INCOMPLETE_EXPORT at groups: expected a history through")


@pytest.mark.parametrize(
    "given",
    [
        [],
        ["--groups=g", "--accounts=a"],
        ["--stream=S", "--groups=g"],
        ["--stream=S", "--csv", "--json"],
    ],
)
def test_balances_are_of_all_files_or_of_a_stream_in_one_form(bare, given):
    result = bare.call("bank", "balances", *given)
    assert result.status == 2
    assert "Usage: amends bank balances" in result.err


def test_balances_of_a_stream_have_all_its_currencies(bare, tmp_path):
    open_stream(bare.ledger.bank, STREAM, ACCOUNTS)
    for each in (command("one"), command("two", "KASSE DORA 7", currency="EUR")):
        write(tmp_path, "command", each)
        bare.call("bank", "post", "--stream", STREAM.stream_id, tmp_path / "command.json")
    result = bare.call("bank", "balances", "--stream", STREAM.stream_id, "--csv")
    rows = dict(line.split(",", 1) for line in result.text.splitlines())
    assert rows["ADA"] == "USD,credit,-100,100"
    assert rows["DORA"] == "EUR,credit,-7,7"
    assert rows["KASSE"] == "EUR,debit,7,7"
    assert bare.call("bank", "balances", "--stream", "NOWHERE").status == 2


# --- of any length


def test_more_groups_than_the_reference_takes_are_answered(bare, files):
    groups, head = many(4097)
    lines = files / "groups.jsonl"
    lines.write_text("\n".join(map(json.dumps, groups)))
    context = read(files, "context")
    context["head"] |= head
    write(files, "context", context)
    refused = bare.call("bank", *words(files, "fold", groups=lines))
    assert refused.status == 1
    assert refused.err.startswith("INVALID_GROUP at groups: expected at most 4096 groups")
    assert refused.err.endswith("found 4097\n")
    statement = bare.call("bank", *words(files, "statement", groups=lines))
    assert statement.rows[-2] == "balance of ADA: 4097 USD (credit)"
    explained = bare.call("bank", *words(files, "explain", groups=lines))
    assert explained.rows[-1] == "change 0"
    balances = bare.call("bank", *words(files, "balances", groups=lines))
    assert balances.rows[1] == "ADA USD credit -4097 4097"


def test_a_stream_of_more_groups_than_the_reference_takes_is_answered(bare):
    journal = bare.ledger.bank
    groups, _ = many(4097)
    open_stream(journal, STREAM, ACCOUNTS)
    with journal.locked(STREAM.stream_id) as stream:
        for group in groups:
            stream.append(parse_group(group))
    stamp(journal, STREAM.stream_id)
    asked = ["--stream", STREAM.stream_id, "--account", "ADA"]
    statement = bare.call("bank", "statement", *asked)
    assert (statement.status, statement.rows[-2]) == (0, "balance of ADA: 4097 USD (credit)")
    explained = bare.call("bank", "explain", *asked, "--effective", "1999-12-31T23:59:59.999Z")
    assert (explained.status, explained.rows[-1]) == (0, "change 4097")
