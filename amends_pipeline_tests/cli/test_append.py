"""What a file becomes in the source log: bytes, in order, or nothing at all."""

from __future__ import annotations

import base64
import csv
import errno
import json
import os
import tempfile
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.cli import reading
from amends_pipeline.flows import reading as flows_reading
from amends_pipeline.flows.append import MAX_LINE_BYTES
from amends_pipeline.inventory.revision import Revision, decode
from amends_pipeline.sources.memory import MemorySource
from amends_pipeline_tests.tables import STOCK_KEYS, configuration, document, encoded, history

HEADER = b"txn_id,revision,kind,item,location,valid_time,qty,source_time\n"
ROW = b"T,1,NEW,DEMO-PART,DEPOT-A,2026-01-01T12:00:00Z,-50,2026-02-01T00:00:00Z\n"
TURNED_AROUND = (
    b"qty,source_time,item,location,txn_id,kind,revision,valid_time\n"
    b"-50,2026-02-01T00:00:00Z,DEMO-PART,DEPOT-A,T,NEW,1,2026-01-01T12:00:00Z\n"
)
COLUMNS = "the columns txn_id, revision, kind, item, location, valid_time, qty, source_time"
DAY_1 = document(STOCK_KEYS["a"], "T", 1, "NEW", "2026-01-01T12:00:00Z", qty=-50)


def values(amends, partition=0):
    """The raw values of a partition of the source log."""
    log = amends.ledger.source("depot-feed-1")
    return list(log.read(partition, 0, log.extents()[partition].end, 1_000).values)


@pytest.mark.parametrize(
    ("text", "records"),
    [
        (b"", []),
        (b"one\ntwo\n", [b"one", b"two"]),
        (b"one\ntwo", [b"one", b"two"]),
        (b"one\r\ntwo\r\n", [b"one", b"two"]),
        (b"one\n\n\r\n\ntwo\n", [b"one", b"two"]),
        (b"one\rtwo\n", [b"one\rtwo"]),
        (b"one\r\r\n", [b"one\r"]),
        (b"one\r", [b"one\r"]),
        (b"\r", [b"\r"]),
        (b"  \n\t\n", [b"  ", b"\t"]),
        (b"\xef\xbb\xbfone\ntwo", [b"\xef\xbb\xbfone", b"two"]),
        (b"\xff\x00\xfe\n", [b"\xff\x00\xfe"]),
        ("one\u2028\x85\x1ctwo\n".encode(), ["one\u2028\x85\x1ctwo".encode()]),
    ],
)
def test_a_line_ends_with_lf_or_crlf_and_empty_ones_are_skipped(amends, text, records):
    result = amends.on("append", "-", "--json", given=text)
    assert result.document == {"appended": len(records), "ends": [len(records)]}
    assert values(amends) == records


@given(
    st.lists(st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"") + b"x"), max_size=8),
    st.lists(st.sampled_from([b"\n", b"\r\n", b"\n\n", b"\n\r\n"]), min_size=8, max_size=8),
    st.integers(1, 20),
)
def test_lines_come_back_whatever_the_size_of_blocks(tmp_path_factory, lines, ends, block):
    path = tmp_path_factory.getbasetemp() / "lines.jsonl"
    path.write_bytes(b"".join(line + end for line, end in zip(lines, ends, strict=False)))
    with pytest.MonkeyPatch.context() as patch, reading.inputs([str(path)], None) as inputs:
        patch.setattr(flows_reading, "BLOCK_BYTES", block)
        read = [line.value for line in reading.records(inputs) if line.value]
    assert read == lines


def test_records_go_where_their_stock_key_lies_and_the_rest_where_the_caller_says(bare):
    """CRC-32 is 2955245202 for key a, 2992883915 for b, 3299262664 for the unknown OTHER, X."""
    config = configuration(partitions=2)
    key_a, key_b = config["keys"]
    key_a["partition"] = 1
    del key_b["partition"]
    bare.provision(config)
    a, b = (line.value for line in history("A r1 NEW day 1 5 \n b/B r1 NEW day 1 5"))
    x = encoded(document(("OTHER", "X"), "X", 1, "NEW", "2026-01-01T12:00:00Z", qty=1))
    lines = b"\n".join([a, b, x, b"odd"])
    result = bare.on("append", "--partition", 1, "-", "--json", given=lines)
    assert result.document == {"appended": 4, "ends": [1, 3]}
    assert (values(bare, 0), values(bare, 1)) == ([x], [a, b, b"odd"])


def test_files_are_appended_in_the_order_of_the_command_line(amends, tmp_path):
    (tmp_path / "one.jsonl").write_bytes(b"1\n2")
    (tmp_path / "two.csv").write_bytes(HEADER + ROW)
    result = amends.on("append", tmp_path / "one.jsonl", "-", tmp_path / "two.csv", given=b"3\n")
    assert result.text == "appended 4 records; the source ends at p0 4\n"
    assert values(amends)[:3] == [b"1", b"2", b"3"]
    assert decode(values(amends)[3]) == decode(encoded(DAY_1))


def test_a_pipe_is_read_once(amends, tmp_path):
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(HEADER + ROW,))
    writer.start()
    result = amends.on("append", pipe, "--json")
    writer.join()
    assert result.document == {"appended": 1, "ends": [1]}
    assert decode(values(amends)[0]) == decode(encoded(DAY_1))


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_a_line_of_the_largest_size_is_appended(amends, end):
    line = b"x" * MAX_LINE_BYTES
    assert amends.on("append", "-", given=line + end).status == 0
    assert values(amends) == [line]


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\nmore\n", b"x" * 2 * MAX_LINE_BYTES])
def test_a_longer_line_refuses_all_files_of_the_command(amends, tmp_path, end):
    (tmp_path / "good.jsonl").write_bytes(b"good\n")
    result = amends.on(
        "append", tmp_path / "good.jsonl", "-", given=b"good\n" + b"x" * (MAX_LINE_BYTES + 1) + end
    )
    assert result.status == 2
    assert result.err.startswith(
        "error: standard input, line 2: expected at most 16777216 bytes, found "
    )
    assert values(amends) == []


# --- CSV


def record(**members):
    """The first row of the CSV tables as a document, with some members changed."""
    return DAY_1 | members


@pytest.mark.parametrize(
    ("text", "records"),
    [
        (HEADER, []),
        (HEADER + ROW, [record()]),
        (HEADER.replace(b"\n", b"\r\n") + b"\r\n" + ROW.replace(b"\n", b"\r\n"), [record()]),
        (HEADER + ROW.rstrip(), [record()]),
        (HEADER + ROW.replace(b"T,1", b'"T",1'), [record()]),
        (HEADER + ROW.replace(b"T,1", b'"a,""b""\r\nc",1'), [record(txn_id='a,"b"\r\nc')]),
        (HEADER + ROW.replace(b"T,1", b'5" pipe,1'), [record(txn_id='5" pipe')]),
        (HEADER + ROW.replace(b"T,1", b" T ,1"), [record(txn_id=" T ")]),
        (HEADER + ROW.replace(b"T,1", b",1"), [record(txn_id="")]),
        (HEADER + ROW.replace(b"-50", b"-0"), [record(qty=0)]),
        (HEADER + ROW.replace(b"-50", b"50.0"), [record(qty="50.0")]),
        (HEADER + ROW.replace(b"-50", b"+50"), [record(qty="+50")]),
        (HEADER + ROW.replace(b"-50", b"050"), [record(qty="050")]),
        (HEADER + ROW.replace(b"-50", b""), [record(qty="")]),
        (HEADER + ROW.replace(b"-50", b" 50"), [record(qty=" 50")]),
        (HEADER + ROW.replace(b"-50", b'"1,000"'), [record(qty="1,000")]),
        (HEADER + ROW.replace(b"T,1", "T,\u0661".encode()), [record(revision="\u0661")]),
        (HEADER + ROW.replace(b"T,1", b"T," + b"9" * 30), [record(revision=int("9" * 30))]),
        (TURNED_AROUND, [record()]),
        (
            HEADER + ROW.replace(b"DEMO-PART", "\u202e\U0001f600\\\x1f\x7f".encode()),
            [record(stock_key={"item": "\u202e\U0001f600\\\x1f\x7f", "location": "DEPOT-A"})],
        ),
    ],
)
def test_csv_rows_become_records(amends, text, records):
    result = amends.on("append", "--format", "csv", "-", "--json", given=text)
    assert result.document["appended"] == len(records)
    written = [json.loads(value) for value in values(amends)]
    assert [list(each) for each in written] == [list(each) for each in records]
    assert written == records


def test_bytes_of_csv_that_are_no_utf_8_reach_quarantine_as_they_are(amends):
    amends.on("append", "--format", "csv", "-", given=HEADER + ROW.replace(b"T,1", b"\xe9\xff,1"))
    amends.on("drain")
    [line] = amends.on("quarantine", "--json").documents
    assert line["code"] == "MALFORMED"
    assert b'"txn_id":"\xe9\xff"' in base64.b64decode(line["value"])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"", f"row 1: expected {COLUMNS}, found no header"),
        (ROW, f'row 1: expected {COLUMNS}, in any order, found "T, 1, NEW, DEMO-PART, DEPOT-A'),
        (b"\xef\xbb\xbf" + HEADER, "row 1: expected the columns"),
        (HEADER.replace(b"qty", b"Qty"), "row 1: expected the columns"),
        (HEADER.replace(b"qty", b"qty,qty"), "row 1: expected the columns"),
        (HEADER.replace(b"qty,", b""), "row 1: expected the columns"),
        (HEADER.rstrip() + b",note\n", "row 1: expected the columns"),
        (HEADER + ROW + b"T,1,NEW\n", "row 3: expected 8 columns, found 3"),
        (HEADER + ROW + ROW.rstrip() + b",\n", "row 3: expected 8 columns, found 9"),
        (HEADER + b'"one\ntwo"' + ROW[1:] + b"x\n", "row 3: expected 8 columns, found 1"),
        (HEADER + ROW.replace(b"T,1", b'"T"x,1'), "row 2: expected CSV by RFC 4180, found "),
        (HEADER + ROW + b'"T,1', "row 3: expected CSV by RFC 4180, found unexpected end of data"),
        (
            HEADER + ROW.replace(b"T,1", b"T\rU,1"),
            "row 2: expected CSV by RFC 4180, found new-line character seen in unquoted field\n",
        ),
        (HEADER + ROW.rstrip() + b"\r", "row 2: expected CSV by RFC 4180, found a CR that ends"),
        (HEADER + ROW.rstrip() + b"\r\r\n", "row 2: expected CSV by RFC 4180, found a CR that"),
        (HEADER + b"x" * (MAX_LINE_BYTES + 1), "line 2: expected at most 16777216 bytes"),
        (
            HEADER + ROW.replace(b"T,1", b"\x01" * (MAX_LINE_BYTES // 2) + b",1"),
            "line 2: expected at most 16777216 bytes, found 50331",
        ),
    ],
)
def test_csv_that_is_none_refuses_all_files_of_the_command(amends, tmp_path, text, complaint):
    (tmp_path / "good.jsonl").write_bytes(b"good\n")
    (tmp_path / "bad.CSV").write_bytes(text)
    result = amends.on("append", tmp_path / "good.jsonl", tmp_path / "bad.CSV")
    assert result.status == 2
    assert f'bad.CSV", {complaint}' in result.err
    assert values(amends) == []


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)


@given(st.lists(st.tuples(texts, st.integers(-(2**63), 2**63 - 1), texts), max_size=5))
def test_csv_as_other_programs_write_it_says_the_same(tmp_path_factory, rows):
    path = tmp_path_factory.getbasetemp() / "rows.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(flows_reading.COLUMNS)
        for txn_id, qty, item in rows:
            when = "2026-01-01T00:00:00Z"
            writer.writerow([txn_id, 1, "NEW", item, "DEPOT", when, qty, when])
    with reading.inputs([str(path)], None) as inputs:
        decoded = [decode(line.value) for line in reading.records(inputs)]
    assert decoded == [
        Revision(txn_id, 1, "NEW", item, "DEPOT", 20_454, 0, qty) for txn_id, qty, item in rows
    ]


# --- what cannot be read


def test_what_cannot_be_read_is_told_before_anything_is_appended(amends, tmp_path):
    (tmp_path / "good.jsonl").write_bytes(b"good\n")
    for bad, complaint in [
        (tmp_path / "none.jsonl", "found No such file or directory"),
        (tmp_path, "found Is a directory"),
        (tmp_path / "good.jsonl" / "x", "found Not a directory"),
    ]:
        result = amends.on("append", tmp_path / "good.jsonl", bad)
        assert result.status == 2
        assert f'{bad}": expected a readable file, {complaint}' in result.err
    assert values(amends) == []


def test_a_temporary_copy_without_room_is_an_operation_error(amends, monkeypatch):
    def no_room():
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", no_room)
    result = amends.on("append", "-", given=b"one\n")
    assert result.status == 3
    assert result.err == (
        "error: temporary copy of standard input:"
        " expected room for it, found No space left on device\n"
    )


def test_standard_input_can_be_named_once(amends):
    result = amends.on("append", "-", "-", given=b"one\n")
    assert result.status == 2
    assert result.err == ("error: standard input: expected to be named once, found several -\n")


def test_a_partition_that_the_source_does_not_have_is_refused(amends):
    result = amends.on("append", "--partition", 1, "-", given=b"odd\n")
    assert result.status == 2
    assert result.err == ("error: source depot-feed-1: expected a partition from 0 to 0, found 1\n")


@pytest.mark.parametrize("quiet", [[], ["--quiet"]])
def test_an_append_that_waits_for_another_says_so(amends, monkeypatch, tmp_path, quiet):
    (tmp_path / "records").write_bytes(b"one\n")
    at_once = MemorySource.append

    def late(self, records, *, landing=None, waiting=None):
        waiting()
        return at_once(self, records, landing=landing)

    monkeypatch.setattr(MemorySource, "append", late)
    result = amends.on("append", str(tmp_path / "records"), *quiet)
    assert result.status == 0
    assert result.err == "waiting for source depot-feed-1: another append to it is not done yet\n"
    assert values(amends) == [b"one"]
