"""`amends bank …`: folding files, and a live stream from its opening to an explanation."""

from __future__ import annotations

import json
import types
from pathlib import Path

import pytest

from amends_pipeline_tests.contracts.bank_bench import (
    ACCOUNTS,
    NOON,
    STREAM,
    Ticking,
    command,
    link,
)

CANONICAL = Path(__file__).parents[2] / "fixtures" / "bank" / "canonical"
PARTS = ("query", "groups", "accounts", "context")


@pytest.fixture
def files(tmp_path):
    """The canonical inputs, as files that a test may change."""
    for part in PARTS:
        (tmp_path / f"{part}.json").write_bytes((CANONICAL / f"{part}.json").read_bytes())
    return tmp_path


def options(folder, **names):
    paths = {part: f"{part}.json" for part in PARTS} | names
    return [word for part, name in paths.items() for word in (f"--{part}", str(folder / name))]


def read(folder, part):
    return json.loads((folder / f"{part}.json").read_bytes())


def write(folder, part, value):
    (folder / f"{part}.json").write_text(json.dumps(value))


# --- fold


def test_a_fold_prints_the_whole_result(bare, files):
    result = bare.call("bank", "fold", *options(files), "--json")
    assert (result.status, result.err) == (0, "")
    document = result.document
    assert document["code"] == "BALANCE_FOLDED"
    assert document["balance"]["normal_balance_minor"] == "97350"
    assert len(document["trace"]) == 4
    assert set(document) == {
        "status",
        "code",
        "balance",
        "coverage",
        "trace",
        "checkpoint",
        "checkpoint_registry_entry",
    }
    people = bare.call("bank", "fold", *options(files))
    assert json.loads(people.text) == document
    assert len(people.rows) > 50


def test_groups_may_stand_one_a_line(bare, files):
    groups = read(files, "groups")
    lines = files / "groups.jsonl"
    for end in ("\n", ""):
        lines.write_text("\n".join(map(json.dumps, groups)) + end)
        result = bare.call("bank", "fold", *options(files, groups="groups.jsonl"), "--json")
        assert result.document["balance"]["normal_balance_minor"] == "97350"
    lines.write_bytes(b"")
    empty = bare.call("bank", "fold", *options(files, groups="groups.jsonl"), "--json")
    assert empty.document["code"] == "INCOMPLETE_EXPORT"


def test_a_rejection_has_status_1_and_says_where(bare, files):
    groups = read(files, "groups")
    del groups[1]
    write(files, "groups", groups)
    result = bare.call("bank", "fold", *options(files), "--json")
    assert result.status == 1
    assert (result.document["status"], result.document["code"]) == ("rejected", "SEQUENCE_GAP")
    assert result.document["balance"] is None
    assert result.err == "SEQUENCE_GAP at group 2, sequence 3: expected sequence 2, found 3\n"


AMBIGUOUS = {
    "a member twice": '{"a":1,"a":1}',
    "half a character": '"\\ud800"',
    "too deep": "[" * 200 + "]" * 200,
    "a fraction": "1.5",
    "a long number": "9" * 5_000,
}


@pytest.mark.parametrize("text", AMBIGUOUS.values(), ids=AMBIGUOUS)
@pytest.mark.parametrize("part", PARTS)
def test_json_of_no_one_meaning_is_rejected(bare, files, part, text):
    (files / f"{part}.json").write_text(text)
    result = bare.call("bank", "fold", *options(files), "--json")
    assert (result.status, result.document["code"]) == (1, "INVALID_SCHEMA")


def test_json_of_no_one_meaning_is_told_by_what_it_should_be(bare, files):
    (files / "groups.json").write_text("[" * 200 + "]" * 200)
    result = bare.call("bank", "fold", *options(files))
    assert result.err == "INVALID_SCHEMA at groups: expected at most 100 levels, found more\n"
    (files / "correction.json").write_text('{"correction":1,"correction":1}')
    result = bare.call("bank", "correct", "--stream", "S", files / "correction.json")
    assert result.err == (
        "INVALID_SCHEMA at the correction:"
        ' expected each member once, found "correction" more than once\n'
    )


UNREADABLE = {
    "nothing": b"",
    "no JSON": b"{",
    "NaN": b"NaN",
    "a byte order mark": b"\xef\xbb\xbf{}",
    "UTF-16": "{}".encode("utf-16"),
    "not UTF-8": b'"\xff"',
}


@pytest.mark.parametrize("raw", UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize("part", PARTS)
def test_what_is_no_json_has_status_2(bare, files, part, raw):
    (files / f"{part}.json").write_bytes(raw)
    result = bare.call("bank", "fold", *options(files), "--json")
    assert (result.status, result.out) == (2, b"")
    assert result.err.startswith("error: ")


@pytest.mark.parametrize("ends", ["\n\n", "\r\n", "\n \n"])
def test_a_blank_line_or_a_carriage_return_has_status_2(bare, files, ends):
    (files / "g.jsonl").write_bytes(
        ends.join(map(json.dumps, read(files, "groups"))).encode() + b"\n"
    )
    result = bare.call("bank", "fold", *options(files, groups="g.jsonl"))
    assert (result.status, result.out) == (2, b"")
    assert result.err.startswith(f'error: "{files / "g.jsonl"}", line ')
    assert result.err.count(", line ") == 1


def test_a_file_that_is_not_there_has_status_2(bare, files):
    result = bare.call("bank", "fold", *options(files, context="none"))
    assert result.status == 2
    assert "expected a readable file, found No such file" in result.err


def test_standard_input_that_is_closed_has_status_2(bare, files, monkeypatch):
    closed = types.SimpleNamespace(stdin=None)
    monkeypatch.setattr("amends_pipeline.cli.reading.sys", closed)
    words = options(files)
    words[1] = "-"
    result = bare.call("bank", "fold", *words)
    assert (result.status, result.out) == (2, b"")
    assert result.err == "error: standard input: expected an open file, found a closed one\n"


# --- statement and explain, of files


def test_a_statement_of_files(bare, files):
    result = bare.call("bank", "statement", *options(files))
    assert result.status == 0
    assert result.rows[0] == "opening of ADA: 0 USD (credit)"
    assert result.rows[3].startswith("2 J-PAY posting")
    assert result.rows[3].endswith("-2500 97500")
    collapsed = bare.call("bank", "statement", *options(files), "--collapse", "--json").document
    assert [line["journal_id"] for line in collapsed["lines"]] == ["J-FUND", "J-REDO", "J-FEE"]


def test_an_explanation_of_files(bare, files):
    query = read(files, "query")
    second = files / "second.json"
    second.write_text(json.dumps({**query, "knowledge_cutoff": "2025-10-21T10:00:00.999Z"}))
    result = bare.call("bank", "explain", *options(files), "--second", second)
    assert result.status == 0
    assert result.rows[-1] == "change 150"
    assert any(row.startswith("G-FIX 3 4") or "J-UNDO" in row for row in result.rows)


def test_a_statement_of_what_is_rejected_has_status_1(bare, files):
    write(files, "groups", [])
    for words in (["statement"], ["explain", "--second", files / "query.json"]):
        result = bare.call("bank", *words, *options(files))
        assert result.status == 1
        assert json.loads(result.text)["code"] == "INCOMPLETE_EXPORT"


@pytest.mark.parametrize(
    "words",
    [
        ["statement"],
        ["statement", "--stream", "S"],
        ["statement", "--account", "A"],
        ["statement", "--effective", "", *(f"--{part}=x" for part in PARTS)],
        ["explain", "--stream", "S", "--account", "A", "--query", "q.json"],
        ["explain", "--query", "q.json", "--groups", "g", "--accounts", "a", "--context", "c"],
    ],
)
def test_a_question_is_about_all_files_or_about_a_stream(bare, words):
    result = bare.call("bank", *words)
    assert result.status == 2
    assert "Usage: amends bank" in result.err


# --- a live stream


@pytest.fixture
def live(bare, tmp_path):
    """`live(command, ...)` calls `amends bank command --stream CB-MAIN ...`, values as files."""
    bare.ledger.bank_tables.clock = Ticking()
    bare.ledger.bank_tables.clock.set(NOON, step_ms=1)

    def call(name, *arguments, given=None):
        words = []
        for number, each in enumerate(arguments):
            if isinstance(each, dict | list):
                path = tmp_path / f"given-{number}.json"
                path.write_text(json.dumps(each))
                words.append(path)
            else:
                words.append(each)
        return bare.call("bank", name, "--stream", STREAM.stream_id, *words, given=given)

    scope = ["--ledger", STREAM.ledger_id, "--entity", STREAM.entity_id]
    opened = call("open", *scope, ACCOUNTS)
    assert (opened.status, opened.text) == (0, "stream CB-MAIN: opened, 8 accounts\n")
    again = call("open", *scope, ACCOUNTS, "--json")
    assert again.document == {"stream_id": "CB-MAIN", "created": False, "accounts": 8}
    return call


def correction(name, original, legs, **more):
    return {
        "correction": link(name, original),
        "replacement": command(name, legs),
        "reversal_business_operation_id": f"B-{name}-undo",
    } | more


def test_a_stream_from_its_opening_to_its_fold(live, bare, tmp_path):
    posted = live("post", command("fund", "CASH ADA 100000"))
    assert posted.rows[0].startswith("group G-1: committed, known from ")
    assert posted.rows[1].startswith("J-fund: sequence 1, recorded at ")
    again = live("post", command("fund", "CASH ADA 100000"), "--json").document
    assert (again["status"], again["repeated"], again["group"]["group_id"]) == ("ok", True, "G-1")
    piped = live("post", "-", "--json", given=json.dumps(command("pay", "ADA BEN 2500")))
    assert piped.document["group"]["journals"][0]["sequence"] == "2"
    corrected = live("correct", correction("redo", "pay", "ADA CORA 2400"), "--json").document
    assert corrected["group"]["kind"] == "correction"

    names = {"groups": "g.jsonl", "accounts": "a.json", "context": "c.json"}
    written = [f"--{part}={tmp_path / name}" for part, name in names.items()]
    exported = live("export", *written, "--json").document
    assert (exported["groups"], exported["accounts"]) == (3, 8)
    head = exported["head"]
    assert head["head_sequence"] == "4"
    query = {
        "schema_version": "d30-balance-fold-v1",
        "ledger_id": STREAM.ledger_id,
        "entity_id": STREAM.entity_id,
        "account_id": "ADA",
        "currency": "USD",
        "effective_cutoff": head["observed_at"],
        "knowledge_cutoff": head["observed_at"],
        "checkpoint": None,
    }
    write(tmp_path, "query", query)
    folded = bare.call("bank", "fold", *options(tmp_path, **names), "--json")
    assert folded.document["balance"]["normal_balance_minor"] == "97600"
    assert (
        live("export", *written).rows[0] == "exported 3 groups, 8 accounts, complete to sequence 4"
    )

    statement = live("statement", "--account", "ADA", "--json").document
    balances = [line["normal_balance_minor"] for line in statement["lines"]]
    assert balances == ["100000", "97500", "100000", "97600"]
    before = again["group"]["available_at"]
    change = live("explain", "--account", "ADA", "--knowledge", before)
    assert change.rows[-1] == "change -2400"

    listed = bare.call("bank", "streams", "--json").documents
    assert [(each["stream_id"], each["last_sequence"]) for each in listed] == [("CB-MAIN", "4")]
    assert bare.call("bank", "streams").rows[1].startswith("CB-MAIN CB-GENERAL CB-A 4 4 ")


def test_a_cutoff_that_is_empty_is_no_default(live):
    """A script whose variable is not set must not be answered about everything."""
    for option in ("--effective", "--knowledge", "--then-effective", "--then-knowledge"):
        command_ = "explain" if option.startswith("--then") else "statement"
        result = live(command_, "--account", "ADA", option, "", "--json")
        assert (result.status, result.document["code"]) == (1, "INVALID_TIMESTAMP")


def test_an_export_goes_to_three_files(live, tmp_path):
    live("post", command("pay"))
    there = tmp_path / "there"
    there.write_text("as before")
    names = [f"--groups={there}", f"--accounts={tmp_path}/./there", f"--context={tmp_path}/c"]
    result = live("export", *names)
    assert (result.status, result.out, there.read_text()) == (2, b"", "as before")
    assert result.err == "error: export: expected three different files, found one of them twice\n"


def test_a_fault_of_a_correction_stands_in_what_was_given(live):
    live("post", command("pay"))

    def where(document):
        result = live("correct", document, "--json")
        assert result.status == 1
        return result.document["where"]

    right = correction("redo", "pay", "CASH BEN 1")
    assert where(right | {"replacement": None}) == "replacement"
    wrong = right["replacement"] | {"effective_at": "today"}
    assert where(right | {"replacement": wrong}) == "replacement.effective_at"
    wrong = right["correction"] | {"reversal_journal_id": "no name"}
    assert where(right | {"correction": wrong}) == "correction.reversal_journal_id"
    wrong = {"reversal_business_operation_id": "no name"}
    assert where(right | wrong) == "reversal_business_operation_id"


def test_what_is_refused_has_status_1_and_writes_nothing(live):
    live("post", command("pay"))
    refused = live("post", command("pay", "CASH BEN 1"))
    assert (refused.status, refused.out) == (1, b"")
    assert refused.err.startswith("DUPLICATE_JOURNAL at command")
    as_json = live("post", command("new"), "--adjustment-reason", "why", "--json")
    assert (as_json.status, as_json.document["code"]) == (1, "INVALID_GROUP")
    assert as_json.document["where"] == "adjustment_reason"
    unknown = live("correct", correction("redo", "nothing", "CASH BEN 1"), "--json")
    assert (unknown.status, unknown.document["code"]) == (1, "INVALID_CORRECTION_LINK")
    late = correction("redo", "pay", "CASH BEN 1", adjustment_reason="why")
    assert live("correct", late, "--json").document["code"] == "INVALID_GROUP"
    for wrong in ([], {"correction": {}}, correction("redo", "pay", "CASH BEN 1", mood="good")):
        result = live("correct", wrong, "--json")
        assert (result.status, result.document["code"]) == (1, "INVALID_SCHEMA")
    statement = live("statement", "--account", "ADA", "--json").document
    assert len(statement["lines"]) == 1


def test_a_stream_with_wrong_accounts_is_not_opened(bare, tmp_path):
    write(tmp_path, "accounts", [{"account_id": "ADA"}])
    words = ["--stream", "S", "--ledger", "L", "--entity", "E", tmp_path / "accounts.json"]
    result = bare.call("bank", "open", *words)
    assert result.status == 1
    assert result.err.startswith("INVALID_SCHEMA at accounts: [0]: expected the members")
    assert bare.call("bank", "streams").text == "no streams\n"


def test_an_unknown_stream_has_status_2(bare, tmp_path):
    write(tmp_path, "command", command("pay"))
    for words in (["post", tmp_path / "command.json"], ["statement", "--account", "ADA"]):
        result = bare.call("bank", words[0], "--stream", "NOWHERE", *words[1:])
        assert result.status == 2
        assert 'stream "NOWHERE": expected a stream that was opened, found none' in result.err


def test_an_account_that_a_stream_does_not_have_is_refused_by_the_fold(live):
    result = live("statement", "--account", "EVE", "--json")
    assert (result.status, result.document["code"]) == (1, "INVALID_ACCOUNTS")


# --- the story


def test_the_story_is_told_once(bare):
    told = bare.call("bank", "seed-demo", "--stream", "S")
    assert told.status == 0
    assert [row.split()[:4] for row in told.rows[1:5]] == [
        ["G-1", "posting", "1", "1"],
        ["G-2", "posting", "2", "2"],
        ["G-3", "correction", "3", "4"],
        ["G-5", "posting", "5", "5"],
    ]
    lines = bare.call("bank", "statement", "--stream", "S", "--account", "ADA", "--json").document
    balances = [line["normal_balance_minor"] for line in lines["lines"]]
    assert balances == ["100000", "97500", "100000", "97600", "97350"]
    again = bare.call("bank", "seed-demo", "--stream", "S")
    assert again.status == 2
    assert "expected a name that is free, found a stream that is there" in again.err
    other = bare.call("bank", "seed-demo", "--stream", "T", "--json").document
    assert [group["kind"] for group in other["groups"]].count("correction") == 1


def test_the_story_needs_proper_names(bare):
    result = bare.call("bank", "seed-demo", "--stream", "-")
    assert (result.status, bare.call("bank", "streams").text) == (2, "no streams\n")
