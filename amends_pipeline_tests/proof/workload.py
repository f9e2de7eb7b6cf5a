"""Seeded logs of a size that matters: late corrections, cancellations, conflicts, redeliveries."""

from __future__ import annotations

import random
from datetime import date, timedelta

ORIGIN = date(2024, 1, 1)


def config_of(namespace: str, keys: int, partitions: int) -> dict:
    """A configuration with `keys` stock keys on `partitions` partitions, in turn."""
    return {
        "schema_version": 1,
        "namespace": namespace,
        "source": f"{namespace}-feed",
        "partitions": partitions,
        "origin": f"{ORIGIN}T00:00:00Z",
        "keys": [
            {
                "stock_key": {"item": f"SKU-{number:05d}", "location": "WH-1"},
                "opening_balance": 100,
                "reorder_threshold": 60,
                "partition": number % partitions,
            }
            for number in range(keys)
        ],
    }


def lines(seed: int, count: int, keys: int, days: int) -> list[bytes]:
    """`count` records in order of arrival; one in ten corrects an earlier one."""
    draw = random.Random(seed)  # noqa: S311 - the same load each time
    known: list[tuple[str, int, int, int]] = []
    made: list[bytes] = []
    for number in range(count):
        arrived = number * days // count
        what = draw.random()
        if known and what < 0.1:
            at = draw.randrange(len(known))
            txn, key, day, revision = known[at]
            kind = "CANCEL" if what < 0.02 else "AMEND"
            # Now and then a revision is told twice, differently: a conflict.
            revision += 0 if what > 0.0995 else 1
            known[at] = (txn, key, day, revision)
        elif known and what < 0.101:
            made.append(draw.choice(made[-1000:]))
            continue
        elif what < 0.102:
            made.append(b'{"txn_id": "torn')
            continue
        else:
            txn, key, day, revision = f"T{number:07d}", draw.randrange(keys), arrived, 1
            kind = "NEW"
            known.append((txn, key, day, revision))
        qty = 0 if kind == "CANCEL" else draw.randrange(-20, 21)
        valid = ORIGIN + timedelta(day)
        made.append(
            f'{{"txn_id":"{txn}","revision":{revision},"kind":"{kind}",'
            f'"stock_key":{{"item":"SKU-{key:05d}","location":"WH-1"}},'
            f'"valid_time":"{valid}T{draw.randrange(24):02d}:00:00Z","qty":{qty},'
            f'"source_time":"{ORIGIN + timedelta(arrived)}T00:00:00Z"}}'.encode()
        )
    return made
