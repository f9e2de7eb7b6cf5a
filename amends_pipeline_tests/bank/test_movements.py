"""What moved an account, held against the statement of the reference."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.bank.export import parse_accounts, parse_groups
from amends_pipeline.bank.movements import last_correction, lines, movements, selected
from amends_pipeline.bank.statement import statement
from amends_pipeline_tests.bank.situations import genesis
from amends_pipeline_tests.bank.strategies import exports, queries

ACCOUNTS = parse_accounts(genesis().accounts)
GROUPS = parse_groups(genesis().groups)


def moved(account_id):
    return list(movements(GROUPS, ACCOUNTS[account_id]))


def test_the_movements_of_the_canonical_history():
    assert [(each.journal_id, each.kind, each.amount) for each in moved("ADA")] == [
        ("J-FUND", "posting", 100_000),
        ("J-PAY", "posting", -2_500),
        ("J-UNDO", "reversal", 2_500),
        ("J-REDO", "replacement", -2_400),
        ("J-FEE", "posting", -250),
    ]
    assert [line.balance for line in lines(moved("ADA"))] == [
        100_000,
        97_500,
        100_000,
        97_600,
        97_350,
    ]
    assert [each.amount for each in moved("CASH")] == [100_000]


def test_the_last_correction_is_the_one_that_became_known_last():
    assert last_correction(moved("ADA")).journal_id == "J-REDO"
    assert last_correction(moved("BEN")).journal_id == "J-UNDO"
    assert last_correction(moved("CASH")) is None


@given(st.data())
def test_lines_are_those_of_the_reference_at_every_cutoff(data):
    export = data.draw(exports())
    query = data.draw(queries(export))
    told = statement(query, export.groups, export.accounts, export.context())
    account = parse_accounts(export.accounts)[query["account_id"]]
    history = movements(parse_groups(export.groups), account)
    found = lines(selected(history, query["effective_cutoff"], query["knowledge_cutoff"]))
    shown = []
    for (sequence, _, journal_id, kind, *_), balance in found:
        shown.append((str(sequence), journal_id, kind, str(balance)))
    assert shown == [
        (line["sequence"], line["journal_id"], line["kind"], line["normal_balance_minor"])
        for line in told["lines"]
    ]
