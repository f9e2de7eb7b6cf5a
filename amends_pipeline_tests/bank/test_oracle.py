"""The oracle on exports written by hand: balances, edges, texts, and what it will not answer."""

# ruff: noqa: SLF001 - its statements are tried alone where no export is large enough

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

import amends_pipeline
from amends_pipeline.bank import oracle
from amends_pipeline.bank.oracle import CurrencyTotal, OracleError, Question, compute
from amends_pipeline_tests.bank.written import (
    CEDAR,
    ENTITY,
    LEDGER,
    account,
    at,
    cedar,
    legs,
    posting,
)
from amends_pipeline_tests.inventory.test_boundary_of_oracle import imported

END = "9999-12-31T23:59:59.999Z"
BIG = 10**30 - 1


def asked(effective=END, known=END):
    return Question(LEDGER, ENTITY, effective, known)


def encoded(groups):
    return [json.dumps(group).encode() for group in groups]


def normal_balances(groups, accounts=CEDAR, **cutoffs):
    result = compute(encoded(groups), accounts, asked(**cutoffs))
    return {each.account_id: each.normal_balance_minor for each in result.balances}


# The story


@pytest.mark.parametrize(
    ("effective", "known", "ada", "ben", "cora", "fees"),
    [
        (END, END, 97350, 0, 2400, 250),
        (END, "2025-10-09T00:00:00.000Z", 0, 0, 0, 0),
        (END, "2025-10-10T09:00:00.000Z", 100000, 0, 0, 0),
        (END, "2025-10-15T09:00:00.000Z", 97500, 2500, 0, 0),
        (END, "2025-10-21T09:00:00.200Z", 97500, 2500, 0, 0),  # between the members of the pair
        (END, "2025-10-21T09:00:01.999Z", 97500, 2500, 0, 0),
        (END, "2025-10-21T09:00:02.000Z", 97600, 0, 2400, 0),
        ("2025-10-20T23:59:59.999Z", END, 97600, 0, 2400, 0),
        ("2025-10-15T08:59:59.999Z", END, 100000, 0, 0, 0),
    ],
)
def test_the_story(  # noqa: PLR0917 - a table is read from left to right
    effective, known, ada, ben, cora, fees
):
    cash = 100000 if ada else 0
    assert normal_balances(cedar(), effective=effective, known=known) == {
        "Ada": ada,
        "Ben": ben,
        "Cash": cash,
        "Cora": cora,
        "Fees": fees,
    }


def test_what_a_result_tells():
    result = compute(
        encoded(cedar()), CEDAR, asked("2025-10-20T00:00:00.000Z", "2025-10-22T00:00:00.000Z")
    )
    assert [tuple(each) for each in result.balances] == [
        ("Ada", "USD", "credit", -97600, 97600, 4),
        ("Ben", "USD", "credit", 0, 0, 2),
        ("Cash", "USD", "debit", 100000, 100000, 1),
        ("Cora", "USD", "credit", -2400, 2400, 1),
        ("Fees", "USD", "credit", 0, 0, 0),
    ]
    assert result.trial_balance == (CurrencyTotal("USD", 107400, 107400),)
    assert result.trial_balance[0].difference_minor == 0
    assert (result.journal_count, result.through_sequence) == (5, 5)
    assert result.visible_through_sequence == 4


def test_both_edges_belong_to_the_answer():
    # Nine postings before, at and after both cutoffs; the amount tells which ones were counted.
    groups = [
        posting(
            number + 1,
            f"Cash +{2**number}, Ada -{2**number}",
            effective=at(5000 + effective),
            recorded=at(6000 + known),
        )
        for number, (known, effective) in enumerate(
            (known, effective) for known in (-1, 0, 1) for effective in (-1, 0, 1)
        )
    ]
    answer = normal_balances(groups, effective=at(5000), known=at(6000))
    assert answer["Ada"] == 2**0 + 2**1 + 2**3 + 2**4


def test_an_empty_export():
    result = compute([], CEDAR, asked())
    assert {each.raw_balance_minor for each in result.balances} == {0}
    assert result.trial_balance == (CurrencyTotal("USD", 0, 0),)
    assert (result.journal_count, result.through_sequence) == (0, 0)


def test_currencies_add_up_by_themselves_and_another_scope_stays_out():
    accounts = [
        *CEDAR,
        account("Kasse", "asset", "EUR"),
        account("Ada-EUR", currency="EUR"),
        account("Elsewhere", ledger_id="CB-OTHER"),
        account("Abroad", entity_id="CB-B"),
    ]
    groups = [
        *cedar(),
        posting(6, "Kasse +7, Ada-EUR -7", effective=at(0), recorded=at(10**10), currency="EUR"),
    ]
    result = compute(encoded(groups), accounts, asked())
    assert result.trial_balance == (
        CurrencyTotal("EUR", 7, 7),
        CurrencyTotal("USD", 107650, 107650),
    )
    ids = [each.account_id for each in result.balances]
    assert ids == ["Ada", "Ada-EUR", "Ben", "Cash", "Cora", "Fees", "Kasse"]


# Numbers


def test_thirty_digits_and_more_stay_exact():
    groups = [
        posting(number, f"Cash +{BIG}, Ada -{BIG}", effective=at(number)) for number in range(1, 12)
    ]
    groups.append(posting(12, "Ada +1, Cash -1", effective=at(12)))
    assert normal_balances(groups)["Ada"] == 11 * BIG - 1
    assert normal_balances(groups)["Cash"] == 11 * BIG - 1


@pytest.mark.parametrize(
    ("first", "second", "total"),
    [
        (2**127 - 1, None, 2**127 - 1),
        (2**127 - 2, 1, 2**127 - 1),
        (2**127 - 1, 1, None),
        (2**126, 2**126, None),
    ],
)
@pytest.mark.parametrize("statement", [oracle._BALANCES, oracle._TRIAL_BALANCE])
def test_the_engine_raises_where_a_sum_leaves_128_bits(first, second, total, statement):
    # No export reaches so far (170 million legs would have to), so the statements are asked alone.
    amounts = [first] if second is None else [first, second]
    with duckdb.connect() as engine:
        engine.execute(oracle._TABLES)
        engine.execute(
            "INSERT INTO accounts BY NAME SELECT 'A' AS account_id, 'USD' AS currency,"
            " 'debit' AS normal_side"
        )
        for amount in amounts:
            engine.execute(
                "INSERT INTO legs BY NAME SELECT 'A' AS account_id, 'USD' AS currency,"
                " 'debit' AS side, $amount AS amount_minor, '1' AS available_at,"
                " '1' AS effective_at",
                {"amount": str(amount)},
            )
        engine.execute("SET VARIABLE known = '1'")
        engine.execute("SET VARIABLE effective = '1'")
        engine.execute(oracle._VISIBLE)
        if total is None:
            with pytest.raises(duckdb.OutOfRangeException):
                engine.execute(statement).fetchall()
        else:
            assert total in engine.execute(statement).fetchall()[0]


def test_an_overflow_is_told_as_one(monkeypatch):
    monkeypatch.setattr(
        oracle, "_VISIBLE", oracle._VISIBLE.replace("amount_minor::", f"{2**127 - 1}::")
    )
    with pytest.raises(OracleError) as caught:
        compute(encoded(cedar()), CEDAR, asked())
    assert caught.value.expected == "sums that fit 128 bits"


# Ways in


@pytest.mark.parametrize(
    "name", ["x.jsonl", "x.json", "y", "we*i[r]d?.jsonl", "it's.json", "z.gz", "b\\n"]
)
def test_a_file_says_the_same_as_its_groups(name, tmp_path):
    path = tmp_path / "available_at=1" / name
    path.parent.mkdir()
    (tmp_path / "available_at=1" / "weXird1.jsonl").write_bytes(b"not this one")
    lines = encoded(cedar())
    raw = b"\n".join(lines) + b"\n" if name.endswith(".jsonl") else b"[" + b",\n".join(lines) + b"]"
    path.write_bytes(raw)
    assert compute(path, CEDAR, asked()) == compute(lines, CEDAR, asked())


@pytest.mark.parametrize(("name", "raw"), [("x.jsonl", b""), ("x.json", b"[]"), ("y", b" [ ]\n")])
def test_an_empty_file(name, raw, tmp_path):
    (tmp_path / name).write_bytes(raw)
    assert compute(tmp_path / name, CEDAR, asked()).journal_count == 0


def test_escapes_long_texts_and_other_orders_change_nothing(tmp_path):
    groups = cedar()
    groups[0]["journals"][0]["adjustment_reason"] = "\0 \u2028 \x85 \U0001f600 " + "x" * 2**20
    turned = [dict(reversed(group.items())) for group in groups]
    plain = json.dumps(turned, ensure_ascii=False, indent=1)
    (tmp_path / "plain").write_text(plain, encoding="utf-8", newline="\r\n")
    escaped = json.dumps(groups).replace("group_id", "group\\u005fid").replace("Ada", "\\u0041da")
    (tmp_path / "escaped").write_text(escaped, encoding="utf-8")
    expected = compute(encoded(cedar()), CEDAR, asked())
    assert compute(tmp_path / "plain", CEDAR, asked()) == expected
    assert compute(tmp_path / "escaped", CEDAR, asked()) == expected


def test_more_groups_than_go_in_together(monkeypatch):
    monkeypatch.setattr(oracle, "_CHUNK", 2)
    assert normal_balances(cedar())["Ada"] == 97350
    assert normal_balances(cedar()[:2])["Ada"] == 97500


# What it will not answer


def changed(**members):
    """The story with members of its last leg, journal, command or group changed."""
    groups = cedar()
    group = groups[-1]
    journal = group["journals"][0]
    for part in (group, journal, journal["command"], journal["command"]["legs"][0]):
        part |= {name: value for name, value in members.items() if name in part}
    return groups


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        *(
            ({"amount_minor": amount}, "legs whose")
            for amount in ("1e3", " 12", "12\n", "1_0", "1.6", "+5", "-5", "0", "05", "", "9" * 31)
        ),
        ({"amount_minor": None}, "legs whose"),
        ({"amount_minor": 10**30}, "legs whose"),
        ({"amount_minor": 0.5}, "legs whose"),
        ({"amount_minor": ["5"]}, "legs whose"),
        ({"amount_minor": "\u0661"}, "legs whose"),
        ({"side": "Debit"}, "legs whose"),
        ({"side": None}, "legs whose"),
        ({"sequence": "0"}, "legs whose"),
        ({"sequence": "5th"}, "legs whose"),
        ({"legs": []}, "legs whose"),
        ({"legs": None}, "legs whose"),
        ({"journals": []}, "legs whose"),
        ({"journals": None}, "legs whose"),
        ({"journals": [None]}, "legs whose"),
        ({"available_at": "2025-10-23T09:00:00Z"}, "legs whose"),
        ({"available_at": "2025-10-23T09:00:00.0000Z"}, "legs whose"),
        ({"available_at": "2025-10-23T09:00:00.000Z\n"}, "legs whose"),
        ({"effective_at": "2025-10-23 09:00:00.000Z"}, "legs whose"),
        ({"effective_at": "2025-10-23T09:00:00.000+00:00"}, "legs whose"),
        ({"effective_at": "2025-10-23T09:00:00.000Z "}, "legs whose"),
        ({"effective_at": None}, "legs whose"),
        ({"account_id": "Nobody"}, "legs of listed accounts"),
        ({"account_id": None}, "legs of listed accounts"),
        ({"currency": "EUR"}, "legs of listed accounts"),
        ({"ledger_id": "CB-OTHER"}, "groups and commands"),
        ({"entity_id": None}, "groups and commands"),
        ({"journals": "text"}, "an answer"),
        ({"legs": {}}, "an answer"),
    ],
)
def test_a_leg_that_leaves_room_for_a_guess(members, expected, tmp_path):
    groups = changed(**members)
    with pytest.raises(OracleError) as caught:
        compute(encoded(groups), CEDAR, asked(known="2025-10-01T00:00:00.000Z"))
    assert caught.value.expected.startswith(expected)
    (tmp_path / "x.json").write_bytes(json.dumps(groups).encode())
    with pytest.raises(OracleError) as caught:
        compute(tmp_path / "x.json", CEDAR, asked())
    assert caught.value.expected.startswith(expected)


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("none.json", None),
        ("x.json", b"{}"),
        ("x.json", b"[1]"),
        ("x.json", b"[[]]"),
        ("x.json", b"[null]"),
        ("x.json", b"[{"),
        ("x.json", b"[] []"),
        ("x.json", b'[{"group_id":"\xff"}]'),
        ("x.jsonl", b"{}\n"),
        ("x.jsonl", b"[]\n"),
        ("x.jsonl", b'{"group_id":"A","group_id":"B"}\n'),
    ],
)
def test_a_file_that_cannot_be_read(name, raw, tmp_path):
    if raw is not None:
        (tmp_path / name).write_bytes(raw)
    with pytest.raises(OracleError):
        compute(tmp_path / name, CEDAR, asked())


@pytest.mark.parametrize("raw", [b"", b"\xff", b"{", b"[]", b"null", b"1", b"{} {}"])
def test_a_group_that_cannot_be_read(raw):
    with pytest.raises(OracleError):
        compute([*encoded(cedar()), raw], CEDAR, asked())


@pytest.mark.parametrize(
    "account_",
    [
        account("Ada"),
        account("New") | {"normal_side": "debit"},
        account("New") | {"account_type": "loan"},
        account("New") | {"currency": None},
        {"account_id": "New"},
    ],
)
def test_accounts_that_leave_room_for_a_guess(account_):
    with pytest.raises(OracleError):
        compute(encoded(cedar()), [*CEDAR, account_], asked())


@pytest.mark.parametrize("cutoff", ["2025-10-20", "2025-10-20T00:00:00Z", "infinity", ""])
@pytest.mark.parametrize("name", ["effective", "known"])
def test_a_cutoff_that_would_be_compared_wrongly(name, cutoff):
    with pytest.raises(OracleError):
        compute(encoded(cedar()), CEDAR, asked(**{name: cutoff}))


# Its boundary: nothing of what it judges, neither in its text nor while it runs


def test_the_text_imports_nothing_but_the_kernel():
    source = Path(oracle.__file__).read_text(encoding="utf-8")
    own = {name for name in imported(source) if name.startswith((".", "amends_pipeline"))}
    assert own
    assert {name for name in own if not name.startswith("amends_pipeline.kernel.")} == set()
    assert "importlib" not in source
    assert "__import__" not in source
    assert {type(node) for node in ast.walk(ast.parse(source))} & {ast.Import, ast.ImportFrom}


RUN = """
import json, sys
from amends_pipeline.bank import oracle

groups, accounts, question = json.load(sys.stdin)
result = oracle.compute(
    [json.dumps(group).encode() for group in groups], accounts, oracle.Question(*question)
)
assert result.balances[0].normal_balance_minor == 97350
json.dump([name for name in sys.modules if name.startswith("amends_pipeline")], sys.stdout)
"""


def test_a_run_loads_nothing_but_the_kernel():
    ran = subprocess.run(
        [sys.executable, "-c", RUN],
        check=True,
        capture_output=True,
        input=json.dumps([cedar(), CEDAR, asked()]).encode(),
        cwd=Path(amends_pipeline.__file__).parents[1],
    )
    loaded = set(json.loads(ran.stdout))
    assert "amends_pipeline.bank.oracle" in loaded
    others = loaded - {"amends_pipeline", "amends_pipeline.bank", "amends_pipeline.bank.oracle"}
    assert {name for name in others if not name.startswith("amends_pipeline.kernel")} == set()


def test_legs_are_written_as_they_read():
    assert legs("A +5, B -5") == [
        {"account_id": "A", "side": "debit", "amount_minor": "5"},
        {"account_id": "B", "side": "credit", "amount_minor": "5"},
    ]
