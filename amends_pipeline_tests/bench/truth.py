"""What must come out of a workload, and what came out: as counts and a digest, to be compared.

`said_by_oracle` reads the workload's file and asks the oracle. `kept_in_state` and
`told_by_outbox` read what was committed, the one from the keys' days, the other by letting the
last version of each output win. Keys in conflict are counted, and their rows are left out of all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from amends_pipeline.inventory import oracle
from amends_pipeline.inventory.config import NamespaceConfig
from amends_pipeline.inventory.envelope import Type
from amends_pipeline.inventory.refold import EVERY_DAY, Status
from amends_pipeline.ports import LedgerStore, Unit

BATCH = 65_536
KEYS_AT_ONCE = 5_000
STATED = {Type.BALANCE_STATED: 0, Type.BALANCE_RETRACTED: 0, Type.ALERT_RAISED: 1} | {
    Type.ALERT_RETRACTED: 1
}


class Facts(NamedTuple):
    """Visible facts, in short. Equal digests are equal rows."""

    balances: int
    closes: int
    """Sum of all closes."""
    alerts: int
    blocked: int
    digest: str


Triples = np.ndarray
"""(key, day, close) a row, sorted."""


def facts_of(balances: Triples, alerts: Triples, blocked: int) -> Facts:
    digest = hashlib.sha256()
    for rows in (balances, alerts):
        digest.update(np.ascontiguousarray(rows, np.int64).tobytes() + b"|")
    closes = int(balances[:, 2].sum()) if len(balances) else 0
    return Facts(len(balances), closes, len(alerts), blocked, digest.hexdigest()[:16])


def said_by_oracle(config: NamespaceConfig, lines: Iterable[bytes]) -> Facts:
    """The facts of a whole log, by the oracle."""
    result = oracle.compute(config, [oracle.History(0, _batches(lines), frozenset())])
    balances, alerts = (
        np.column_stack([rows.keys, rows.days, rows.closes])
        for rows in (result.balances, result.alerts)
    )
    return facts_of(balances, alerts, len(result.blocked()))


def _batches(lines: Iterable[bytes]) -> Iterator[oracle.RawBatch]:
    values: list[bytes] = []
    start = 0
    for line in lines:
        values.append(line)
        if len(values) == BATCH:
            yield _batch(start, values)
            start, values = start + BATCH, []
    yield _batch(start, values)


def _batch(start: int, values: Sequence[bytes]) -> oracle.RawBatch:
    return oracle.RawBatch(range(start, start + len(values)), [None] * len(values), values)


def kept_in_state(store: LedgerStore, unit: Unit, keys: int) -> Facts:
    """The facts as the worker keeps them."""
    balances: list[tuple[int, int, int]] = []
    alerts: list[tuple[int, int, int]] = []
    blocked = 0
    for start in range(0, keys, KEYS_AT_ONCE):
        numbers = range(start, min(start + KEYS_AT_ONCE, keys))
        states = store.keys(unit, dict.fromkeys(numbers, EVERY_DAY))
        for key in numbers:
            state = states[key]
            if state.status is Status.BLOCKED:
                blocked += 1
                continue
            rows = state.rows
            for day, close, present, alerting in zip(
                rows.days, rows.closes, rows.present, rows.alerting, strict=True
            ):
                if present:
                    balances.append((key, day, close))
                if alerting:
                    alerts.append((key, day, close))
    return facts_of(triples(balances), triples(alerts), blocked)


def triples(rows: Sequence[tuple[int, int, int]]) -> Triples:
    """Rows as an array."""
    return np.array(rows, np.int64).reshape(-1, 3)


def told_by_outbox(store: LedgerStore, unit: Unit, blocked_keys: Sequence[int]) -> Facts:
    """The facts as the committed outbox tells them, to whoever reads it from its beginning."""
    last: dict[tuple[int, int, int], tuple[int, int]] = {}
    for _, _, (key, type_, day, _, close, _, _) in store.outbox(unit):
        family = STATED.get(Type(type_))
        if family is not None:
            last[family, key, day] = (type_, close)
    found: list[list[tuple[int, int, int]]] = [[], []]
    left_out = set(blocked_keys)
    for (family, key, day), (type_, close) in sorted(last.items()):
        if key not in left_out and type_ in {Type.BALANCE_STATED, Type.ALERT_RAISED}:
            found[family].append((key, day, close))
    return facts_of(triples(found[0]), triples(found[1]), len(left_out))
