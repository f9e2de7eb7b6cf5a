"""Names from strangers: exact in JSON, harmless on a terminal, never markup."""

from __future__ import annotations

import json

import pytest

from amends_pipeline_tests.tables import configuration, document, encoded

HOSTILE = [
    "\x1b[31mred\x1b]0;title\x07",
    "\u202egnirts\u202c",
    "[red]x[/red] [link=http://x]y[/link] :smile:",
    "<script>alert(1)</script>",
    "\"quote' `tick` \\",
    "two\r\nlines\tand a \x0b",
    "\x9b2J\x7f\u200b\u2028\u2066",
    "a/b|c, ' OR 1=1; --",
    "\u65e5\u672c 😀 e\u0301",
    "x" * 300,
    "%s %(x)s {x} {0}",
]
COMMANDS = ["view", "outbox", "quarantine", "status", "verify", "drain", "reproject"]


def harmless(text):
    """Tell whether a terminal shows this text and does nothing else."""
    return all(line.isprintable() for line in text.split("\n"))


@pytest.fixture(params=HOSTILE, ids=range(len(HOSTILE)))
def hostile(request):
    return request.param


@pytest.fixture
def strange(bare, hostile):
    """A blocked key and a ready one, named by a stranger, and a record in quarantine."""
    item, location = f"A{hostile}", f"L{hostile}"
    keys = [
        {
            "stock_key": {"item": name, "location": location},
            "opening_balance": 100,
            "reorder_threshold": 60,
            "partition": 0,
        }
        for name in (item, f"B{hostile}")
    ]
    bare.provision(configuration() | {"keys": keys})
    when = "2026-01-01T12:00:00Z"
    records = [
        document((item, location), hostile, 1, "NEW", when, qty=-50),
        document((item, location), hostile, 1, "NEW", when, qty=-51),
        document((f"B{hostile}", location), hostile, 1, "NEW", when, qty=-50),
        document((hostile, hostile), hostile, 1, "NEW", when, qty=1),
    ]
    assert bare.on("append", "-", given=b"\n".join(map(encoded, records))).status == 0
    assert bare.on("drain").status == 0
    return bare


def test_tables_do_no_harm(strange, hostile):
    for command in COMMANDS:
        result = strange.on(command)
        assert harmless(result.text), command
        assert harmless(result.err), command
    explained = strange.on("explain", f"A{hostile}", f"L{hostile}", "2026-01-01")
    assert explained.status == 0
    assert harmless(explained.text)
    if hostile.isprintable() and len(hostile) < 200:
        assert hostile in explained.text
        assert hostile in strange.on("view").text


def test_json_is_exact(strange, hostile):
    for command in COMMANDS:
        result = strange.on(command, "--json")
        assert result.err == ""
        assert result.documents
    items = {
        row["output_id"]["stock_key"]["item"] for row in strange.on("view", "--json").documents
    }
    assert items == {f"A{hostile}", f"B{hostile}"}
    [blocked] = strange.on("status", "--json").document["blocked"]
    assert blocked["stock_key"] == {"item": f"A{hostile}", "location": f"L{hostile}"}
    assert blocked["reasons"] == [{"txn_id": hostile, "revision": 1}]
    explained = ("explain", f"A{hostile}", f"L{hostile}", "2026-01-01", "--json")
    [conflict] = strange.on(*explained).document["conflicts"]
    assert conflict["txn_id"] == hostile


def test_our_own_documents_are_ascii(strange, hostile):
    explained = strange.on("explain", "--json", f"A{hostile}", f"L{hostile}", "2026-01-01")
    assert explained.out.isascii()
    assert strange.on("status", "--json").out.isascii()


def test_complaints_about_strange_files_do_no_harm(amends, hostile):
    name = hostile.replace("/", "")[:100]
    path = amends.folder / name
    calls = [
        ("append", "--namespace", "main", path),
        ("append", "--namespace", "main", f"{path}.csv"),
        ("provision", path),
        ("verify", "--namespace", "main", "--accept", path),
        ("view", "--namespace", hostile),
        ("explain", "--namespace", "main", hostile, hostile, "2026-01-01"),
        ("explain", "--namespace", "main", hostile, hostile, hostile),
        ("view", "--namespace", "main", hostile),
        ("drain", "--namespace", "main", f"--x{hostile}"),
        ("drain", "--namespace", "main", "--slice-records", hostile),
        (hostile,),
    ]
    path.with_name(f"{name}.csv").write_text(hostile)
    for call in calls:
        result = amends(*call)
        assert result.status == 2, call
        assert result.out == b""
        assert harmless(result.err), call
        *_, error = (line for line in result.err.splitlines() if not line.startswith("next step: "))
        assert error.startswith("error: "), call


def test_names_that_are_no_unicode_do_no_harm(amends):
    name = "\udcff\udc80name"
    calls = [
        ("append", "--namespace", "main", amends.folder / name),
        ("provision", amends.folder / name),
        ("view", "--namespace", name),
        ("explain", "--namespace", "main", name, name, "2026-01-01"),
        (name,),
    ]
    for call in calls:
        result = amends(*call)
        assert result.status == 2, call
        assert "\\udcff\\udc80name" in result.err


@pytest.mark.parametrize(
    "spoiled",
    [
        lambda hostile: {"namespace": hostile},
        lambda hostile: {hostile: 1},
        lambda hostile: {"origin": hostile},
        lambda hostile: {"keys": {"path": hostile}},
        lambda hostile: {"keys": [hostile]},
    ],
    ids=["namespace", "member", "origin", "path", "key"],
)
def test_complaints_about_strange_configurations_do_no_harm(bare, hostile, spoiled):
    path = bare.folder / "config.json"
    path.write_text(json.dumps(configuration() | spoiled(hostile)))
    result = bare("provision", path)
    assert result.status == 2
    assert harmless(result.err)
    assert result.err.startswith("error: ")


def test_a_reason_from_a_stranger_does_no_harm(amends, hostile):
    amends.append("A r1 NEW day 1 1")
    aside = ("set-aside", "--partition", 0, "--offset", 0, "--reason", hostile)
    assert amends.on(*aside, "--json").document["reason"] == hostile
    assert harmless(amends.on(*aside).text)
    assert harmless(amends.on("status").text)
