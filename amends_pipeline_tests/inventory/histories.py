"""How tests of the oracle give it records, and how they read its result."""

from __future__ import annotations

from amends_pipeline.inventory.oracle import History, RawBatch
from amends_pipeline_tests.tables import STOCK_KEYS, day


def given_records(records, partition=0, aside=(), first=0, step=1):
    """Lines as a history, one batch a record."""
    batches = [
        RawBatch([first + at * step], [line.raw_key], [line.value])
        for at, line in enumerate(records)
    ]
    return History(partition, batches, frozenset(aside))


def told(config, result) -> list[str]:
    """A result as lines: a key's status, then its days; letters for the keys of the tables."""
    letters = {stock_key: letter for letter, stock_key in STOCK_KEYS.items()}
    names = [letters.get(key.stock_key, key.stock_key.item) for key in config.keys]
    alerts = {(key, on): close for key, on, close in result.alerts.rows()}
    said = []
    for key, reasons in result.statuses.items():
        because = ", ".join(f"{txn_id} r{revision}" for txn_id, revision in reasons)
        said.append(f"{names[key]} {f'BLOCKED by {because}' if reasons else 'READY'}")
        for one, on, close in result.balances.rows():
            if one == key:
                number = on - day(1) + 1
                alert = alerts.pop((key, on), None)
                assert alert in {None, close}
                said.append(f"{names[key]} day {number}: {close}{', alert' * (alert is not None)}")
    assert not alerts, "an alert stands on a day with a balance"
    said += [
        f"{names[key]} conflict {txn_id} r{number}" for key, txn_id, number in result.conflicts
    ]
    return said + [f"rejected {each.offset} {each.code}" for each in result.rejections]
